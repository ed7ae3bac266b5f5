"""The runtime native on networks that were not written for it: depthwise, broadcasted residual, attention."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.export.compiled import LABELS as MANY
from tests.export.compiled import SMALLEST, Compiled
from tests.export.models.bc_resnet import BcResNet
from tests.export.models.ds_cnn import DsCnn
from tests.export.models.keyword_transformer import KeywordTransformer
from torch import nn

from auricle.packs.pack import Pack
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.build import Model, Recipe, assemble
from auricle_export.packs.stepgraph import trace
from auricle_learning.native import runtime
from auricle_learning.native.library import compiler
from auricle_learning.native.planner import plan_graph
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.native.writer import DEPTHWISE
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


class Lstm(nn.Module):
    """Both directions, whose last states and cells are classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(10, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(32, MANY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, (_, cell) = self.lstm(x)
        return self.fc(torch.cat([states[:, -1], cell[0], cell[1]], 1))


class MobileBlock(nn.Module):
    """What MobileNetV3 is made of, with a PReLU: hard-swish, a depthwise kernel, squeeze and excitation, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, stride=2, padding=1, padding_mode="circular")
        self.norm, self.swish = nn.BatchNorm2d(8), nn.Hardswish()
        self.depthwise, self.slope = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.PReLU(8)
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.bounded, self.fc = nn.Sequential(nn.Hardsigmoid(), nn.ReLU6()), nn.Linear(8, MANY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.swish(self.norm(self.stem(x[:, None])))
        y = self.slope(self.depthwise(x))
        y = y * self.bounded(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return self.fc(nn.functional.max_pool2d(x + y, 3, 2, 1).mean((2, 3)))


class Depthwise(nn.Module):
    """Depthwise kernels with strides, dilations, uneven padding and sizes, along two axes and along one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.first = nn.Conv2d(6, 6, 3, stride=(1, 2), padding=1, groups=6)
        self.second = nn.Conv2d(6, 6, (3, 2), padding=(4, 0), dilation=(2, 1), groups=6, bias=False)
        self.third = nn.Conv1d(6, 6, 4, stride=2, padding=3, groups=6)
        self.fc = nn.Linear(6, MANY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.second(torch.tanh(self.first(torch.tanh(self.stem(x[:, None]))))))
        return self.fc(self.third(x.mean(3)).mean(2))


def test_a_depthwise_convolution_is_an_instruction_and_so_is_each_gradient() -> None:
    net = Compiled(Depthwise(), frames=7, mels=9)
    for graph, due in ((net.step, 9), (net.pack.graph("evaluate", "net"), 3)):
        words, at, operations = plan_graph(net.pack, graph, graph.batch or 1).program.words, 0, []
        while at < words.size:
            operations.append(int(words[at]))
            at += int(words[at + 1])
        assert operations.count(DEPTHWISE) == due


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("make", [Lstm, MobileBlock, Depthwise])
def test_nets_of_the_trade_run_on_the_library_with_pytorchs_gradients(make: Callable[[], nn.Module]) -> None:
    """No graph is left to onnxruntime; gradients and logits against PyTorch in float64, at most 1e-5 apart."""
    torch.manual_seed(0)
    net = Compiled(make(), frames=6)
    native, weights = NativeRuntime(net.pack), net.flat()
    with torch.no_grad():
        due = copy.deepcopy(net.module).double().eval()(torch.from_numpy(net.x).double()).numpy()
    assert np.abs(native.logits("net", weights, net.x) - due).max() <= 1e-5 * np.abs(due).max()

    scalars = {"model.rate": 1.0}
    job = Job(kind="supervised", models={"model": "net"}, optimizer="sgd", weights={"model": weights}, scalars=scalars)
    training = native.begin(job)
    target = np.eye(MANY, dtype=np.float32)[net.target]
    loss = training.step({"x": net.x[: len(target)], "target": target, "weight": net.weight})["loss"]
    got, (want, right) = training.slots()["model.momentum"], net.reference()
    assert loss == pytest.approx(right, rel=1e-5)
    largest = max(np.abs(gradient).max() for gradient in want.values())
    for spec in net.table.specs:
        apart = np.abs(net.table.tensor(got, spec.name) - want[spec.name]).max()
        assert apart <= 1e-5 * max(np.abs(want[spec.name]).max(), SMALLEST * largest), spec.name
    assert native.reasons == {}
