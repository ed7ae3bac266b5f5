"""The runtime native on networks that were not written for it: depthwise, broadcasted residual, attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.export.models.bc_resnet import BcResNet
from tests.export.models.ds_cnn import DsCnn
from tests.export.models.keyword_transformer import KeywordTransformer

from auricle.packs.pack import Pack
from auricle_edge.runtimes.native import runtime
from auricle_edge.runtimes.native.runtime import NativeRuntime
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.build import Model, Recipe, assemble
from auricle_export.packs.stepgraph import trace
from auricle_learning.native.library import compiler
from auricle_learning.runtimes import Job, StepRuntime

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
LABELS = ("no", "yes", "unknown")


def _pack(make: Callable[[int], torch.nn.Module]) -> Pack:
    torch.manual_seed(0)
    net = find_parts(make(len(LABELS)), len(LABELS))
    model = Model(trace(net), tensor_specs(net, len(LABELS)))
    return assemble("net", LABELS, {"net": model}, "net", [Recipe("supervised", "adamw")])


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("make", [DsCnn, BcResNet, KeywordTransformer], ids=lambda make: make.__name__)
def test_networks_of_others_recognise_and_train_as_on_onnxruntime(
    make: Callable[[int], torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits, and weights after some steps relative to how far they moved; a sample's logits do not know its batch."""
    monkeypatch.setattr(runtime, "LARGEST_STEP", 1 << 30)
    pack = _pack(make)
    native, step, rng = NativeRuntime(pack), StepRuntime(pack), np.random.default_rng(0)
    weights, task = pack.table("net").initial(0), pack.manifest.task
    x = rng.standard_normal((16, task.frames, task.frontend.mels), np.float32)
    logits = native.logits("net", weights, x[:5])
    np.testing.assert_allclose(logits, step.logits("net", weights, x[:5]), rtol=2e-5, atol=2e-5)
    assert np.array_equal(native.logits("net", weights, x[:1]), logits[:1])
    scalars = {"model.rate": 1e-3, "model.decay": 0.01, "model.epsilon": 1e-3}
    job = Job(
        kind="supervised", models={"model": "net"}, optimizer="adamw", weights={"model": weights}, scalars=scalars
    )
    ours, theirs = native.begin(job), step.begin(job)
    target, weight = np.eye(len(LABELS), dtype=np.float32)[rng.integers(0, len(LABELS), 16)], np.ones(16, np.float32)
    for _ in range(3):
        batch = {"x": x, "target": target, "weight": weight}
        assert ours.step(batch) == pytest.approx(theirs.step(batch), rel=1e-5, abs=1e-6)
    assert native.reasons == {}
    moved = np.linalg.norm(theirs.weights("model") - weights)
    assert np.linalg.norm(ours.weights("model") - theirs.weights("model")) < 5e-5 * moved
