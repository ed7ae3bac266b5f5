"""A pack that is trained by the squared error of posteriors (FedVSA, table 8): both runtimes against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from msgspec import UNSET

from auricle.packs.pack import Pack
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.build import LOSS_RECIPES, RECIPES, Model, assemble
from auricle_export.packs.stepgraph import trace
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job, Runtime, StepRuntime

LABELS, RATE, BATCH = ("no", "yes", "unknown"), 0.5, 16
WEIGHT = np.array([1, 0.5, 0, 1] * 4, np.float32)
RUNTIMES = [
    StepRuntime,
    pytest.param(NativeRuntime, marks=pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")),
]


class Small(torch.nn.Module):  # type: ignore[misc]
    """A layer, and what classifies its mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = torch.nn.Linear(40, 8), torch.nn.Linear(8, len(LABELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, labels)."""
        return self.out(torch.tanh(self.layer(x)).mean(1))


def parameter(module: Small, name: str) -> torch.nn.Parameter:
    """The parameter of a tensor's name in the pack's table."""
    return module.get_parameter(name.replace("head.", "out."))


@pytest.fixture(scope="module")
def pack() -> Pack:
    torch.manual_seed(0)
    net = find_parts(Small(), len(LABELS))
    return assemble(
        "net", LABELS, {"net": Model(trace(net), tensor_specs(net, len(LABELS)))}, "net", LOSS_RECIPES["mse"]
    )


@pytest.mark.parametrize("make", RUNTIMES)
def test_a_step_is_that_of_pytorch(pack: Pack, make: Callable[[Pack], Runtime]) -> None:
    runtime, rng, table = make(pack), np.random.default_rng(1), pack.table("net")
    weights = 3 * table.initial(0)
    x = rng.standard_normal((BATCH, 100, 40)).astype(np.float32)
    target = np.eye(len(LABELS), dtype=np.float32)[rng.integers(0, len(LABELS), BATCH)]
    job = Job(
        kind="supervised",
        models={"model": "net"},
        optimizer="sgd",
        weights={"model": weights},
        scalars={"model.rate": RATE},
    )
    training = runtime.begin(job)
    found = training.step({"x": x, "target": target, "weight": WEIGHT})

    module, names = Small().double(), [spec.name for spec in table.specs]
    for name in names:
        of = parameter(module, name)
        of.data = torch.tensor(weights[table.offsets[name]], dtype=torch.float64).reshape(of.shape)
    posteriors = module(torch.tensor(x, dtype=torch.float64)).softmax(1)
    errors = (posteriors - torch.tensor(target)).square().sum(1)
    loss = (errors * torch.tensor(WEIGHT)).sum() / WEIGHT.sum()
    loss.backward()
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert getattr(runtime, "reasons", {}) == {}, "the C library runs it itself"
    moved = training.weights("model") - weights
    for name in names:
        due = -RATE * parameter(module, name).grad.numpy().ravel()
        change = moved[table.offsets[name]]
        assert np.linalg.norm(change - due) <= 1e-5 * max(np.linalg.norm(due), np.linalg.norm(weights)), name


def test_such_a_pack_says_so_and_has_no_other_step(pack: Pack) -> None:
    steps = [graph for graph in pack.manifest.graphs if graph.trains]
    assert {(graph.kind, graph.loss) for graph in steps} == {("supervised", "mse")}
    assert {recipe.loss for recipe in RECIPES} == {"ce"}
    assert [graph.loss for graph in pack.manifest.graphs if not graph.trains] == [UNSET]
