"""Networks as they are published, through the compiler: the reference BC-ResNet, MatchboxNet, DS-CNN, a conformer.

Small ones of each, that differ from the published sizes in the number of blocks alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.export.compiled import LABELS, Compiled
from tests.export.models.conformer import Conformer
from tests.export.models.ds_cnn import DsCnn
from tests.export.models.matchboxnet import MatchboxNet
from tests.export.models.reference_bc_resnet import ReferenceBcResNet
from torch import nn

from auricle_learning.native import runtime
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job, StepRuntime

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1800)]
FRAMES, MELS, BATCH = 24, 40, 3


def _statistics(module: nn.Module) -> nn.Module:
    """Batch normalisation with statistics that are not 0 and 1."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(0.0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module


NETS: dict[str, Callable[[int], nn.Module]] = {
    "bc-resnet": lambda labels: ReferenceBcResNet(labels, blocks=(1, 2, 1, 1)),
    "matchboxnet": lambda labels: MatchboxNet(labels, width=8, repeats=2),
    "ds-cnn": lambda labels: DsCnn(labels, channels=8, blocks=2),
    "conformer": lambda labels: Conformer(labels, width=16),
}
FEATURES = {"bc-resnet": 32, "matchboxnet": 16, "ds-cnn": 8, "conformer": 16}


@pytest.fixture(scope="module", params=NETS)
def compiled(request: pytest.FixtureRequest) -> tuple[str, Compiled]:
    torch.manual_seed(0)
    return request.param, Compiled(_statistics(NETS[request.param](LABELS)), FRAMES, MELS, BATCH)


def test_logits_and_one_steps_gradients_are_those_of_torch(compiled: tuple[str, Compiled]) -> None:
    name, net = compiled
    assert net.net.features == FEATURES[name]
    assert max(net.evaluation_errors((1, 5)).values()) < 1e-5
    errors = net.gradient_errors()
    assert max(errors.values()) < 2e-5, sorted(errors.items(), key=lambda each: -each[1])[:3]


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
def test_the_runtime_native_recognises_and_trains_them_as_onnxruntime_does(
    compiled: tuple[str, Compiled], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, net = compiled
    native, step = NativeRuntime(net.pack), StepRuntime(net.pack)
    weights = net.flat()
    np.testing.assert_allclose(
        native.logits("net", weights, net.x[:5]), step.logits("net", weights, net.x[:5]), rtol=2e-5, atol=2e-5
    )
    batch = {"x": net.x[:BATCH], "target": np.eye(LABELS, dtype=np.float32)[net.target], "weight": net.weight}
    monkeypatch.setattr(runtime, "LARGEST_STEP", 1 << 30)
    job = Job(
        kind="supervised",
        models={"model": "net"},
        optimizer="sgd",
        weights={"model": weights},
        scalars={"model.rate": 0.1},
    )
    ours, theirs = native.begin(job), step.begin(job)
    for _ in range(2):
        assert ours.step(batch) == pytest.approx(theirs.step(batch), rel=1e-5)
    assert native.reasons == {}
    moved = np.linalg.norm(theirs.weights("model") - weights)
    assert np.linalg.norm(ours.weights("model") - theirs.weights("model")) < 5e-5 * moved


@pytest.mark.skipif(importlib.util.find_spec("ai_edge_litert") is None, reason="LiteRT is not installed")
def test_the_runtime_tflite_recognises_them_as_onnxruntime_does(compiled: tuple[str, Compiled]) -> None:
    pytest.importorskip("tflite", reason="files for LiteRT cannot be written without its schema")
    from tests.export.tflite_toy import assert_agrees

    from auricle_export.tflite import with_tflite

    _, net = compiled
    weights = {"net": net.flat()}
    assert_agrees(with_tflite(net.pack, ["net"], ["float32"], weights), "net", "float32", 1e-5)


AUTHOR = """
from tests.export.test_public_nets import NETS


def Net(labels):
    return NETS["{name}"](labels)
"""


@pytest.mark.parametrize("name", NETS)
def test_two_rounds_of_a_fleet_train_them(name: str, tmp_path: Path) -> None:
    """Built by `export build` from a file, they travel and are a device's own model at once; every device counts."""
    pytest.importorskip("auricle_fleet", reason="two rounds are a fleet's")
    pytest.importorskip("espeakng_loader", reason="the devices' words are spoken by it")
    from tests.fleet.test_fleet_run import small

    from auricle.packs.pack import pack_bytes
    from auricle_export.packs.build import build_author_pack
    from auricle_fleet import FleetRun

    source, packed = tmp_path / "nets.py", tmp_path / "net.tar.zst"
    source.write_text(AUTHOR.format(name=name))
    pack = build_author_pack(f"{source}:Net", ("yes", "no"), "net", plugin=f"{source}:Net")
    packed.write_bytes(pack_bytes(pack))
    asked = {"engine": "virtual", "broker": None, "rounds": 2, "learning": "supervised"}
    run = FleetRun(small(**asked, pack=str(packed), local="net"), tmp_path / "run").run()

    assert [row.state for row in run.rounds] == ["published", "published"]
    assert all(row.counted == row.invited > 0 for row in run.rounds)
    assert run.paths.model.is_file()
