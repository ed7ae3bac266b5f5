"""MuPFL's biased activation dropout inside a step graph: the map is state that goes in and out (ALGORITHMS 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

pytest.importorskip("torch", reason="step graphs are made with PyTorch")
pytest.importorskip("onnxscript", reason="step graphs are made with onnxscript")

import torch
from numpy.typing import NDArray
from torch import nn

from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.layers import Bavd
from auricle_export.compiler.trace import find_parts
from auricle_export.packs import build
from auricle_export.packs.models import Crnn, CrnnShape, ResNet, ResNetShape
from auricle_export.packs.stepgraph import step_graph, trace

Array = NDArray[np.float64]
LABELS, BATCH = 3, 16


class Listener(nn.Module):
    """A convolution, BAVD, and a classifier on the mean over time."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv1d(40, 6, 3, stride=4)
        self.drop = Bavd(**options)
        self.out = nn.Linear(6, LABELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(torch.relu(self.conv(x.transpose(1, 2)))).mean(2))


def drawn(rng: np.random.Generator, count: int) -> list[tuple[Array, Array]]:
    pick = rng.standard_normal, rng.integers
    return [(pick[0]((BATCH, 100, 40)), np.eye(LABELS)[pick[1](0, LABELS, BATCH)]) for _ in range(count)]


def reference(
    batches: list[tuple[Array, Array]], module: nn.Module, rate: float, axes: tuple[int, ...], sign: int
) -> Any:
    """Maps, losses and weights step by step in float64, the map by eq. 6 as ALGORITHMS resolves it."""
    conv, out = (layer.double() for layer in (module.conv, module.out))
    heat, before, maps, losses = None, 0.0, [], []
    for x, target in batches:
        h = torch.relu(conv(torch.tensor(x).transpose(1, 2)))
        mean = h.detach().numpy().mean(axis=axes)
        mask = np.ones_like(mean)
        if heat is not None and heat.max() > heat.min():
            scaled = (heat - heat.min()) / (heat.max() - heat.min())
            mask = (scaled >= scaled.mean()).astype(np.float64)
        logits = out((h * torch.tensor(mask)).mean(2))
        loss = -(torch.tensor(target) * logits.log_softmax(1)).sum(1).mean()
        weights = [*conv.parameters(), *out.parameters()]
        for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= rate * grad
        heat = mean if heat is None else heat + sign * (before - loss.item()) * mean
        before = loss.item()
        maps.append(heat)
        losses.append(before)
    return maps, losses, [w.detach().numpy() for w in weights]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "axes", "sign"), [({}, (0, 1), 1), ({"sign": "formula"}, (0, 1), -1), ({"per_channel": True}, (0,), 1)]
)
@pytest.mark.nightly
def test_the_map_grows_with_the_loss_as_the_paper_says(
    options: dict[str, Any], axes: tuple[int, ...], sign: int
) -> None:
    torch.manual_seed(1)
    module, rng, rate = Listener(**options), np.random.default_rng(2), 0.5
    graph, model = step_graph("supervised", trace(find_parts(module, LABELS)), None, "sgd")
    batches = drawn(rng, 6)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    named = dict(module.named_parameters())
    body = np.concatenate([named[n].detach().numpy().ravel() for n in ("conv.bias", "conv.weight")])
    feeds = {"model/body": body, "weight": np.ones(BATCH, np.float32)}
    feeds |= {f"model/head.{part}": named[f"out.{part}"].detach().numpy().copy() for part in ("weight", "bias")}
    feeds |= {name: np.zeros(shape, np.float32) for name, shape in graph.state.items()}
    feeds |= {f"model.momentum/{p}": np.zeros_like(feeds[f"model/{p}"]) for p in ("body", "head.weight", "head.bias")}
    hyper = {"rate": rate, "momentum": 0, "decay": 0, "clip": np.inf}
    feeds |= {f"model.{name}": np.float32(value) for name, value in hyper.items()}
    maps, losses = [], []
    for x, target in batches:
        feeds.update({"x": x.astype(np.float32), "target": target.astype(np.float32)})
        given = {name: np.asarray(feeds[name], np.float32) for name in graph.inputs}
        found = dict(zip(graph.outputs, session.run(list(graph.outputs), given), strict=True))
        feeds.update({n.removeprefix("new/"): v for n, v in found.items() if n.startswith("new/")})
        maps.append(found["new/model.bavd.drop"])
        losses.append(float(found["loss"]))

    expected_maps, expected_losses, weights = reference(batches, module, rate, axes, sign)

    assert set(graph.state) == {"model.bavd.drop", "model.bavd.loss", "model.bavd.seen"}
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for got, expected in zip(maps, expected_maps, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(feeds["model/head.weight"], weights[2], rtol=1e-4, atol=1e-6)


def test_in_plain_pytorch_the_layer_does_the_same() -> None:
    torch.manual_seed(1)
    module, rng = Listener().double().train(), np.random.default_rng(2)
    batches = drawn(rng, 4)
    weights = list(module.parameters())
    start = [w.detach().clone() for w in weights]
    maps = []
    for x, target in batches:
        loss = -(torch.tensor(target) * module(torch.tensor(x)).log_softmax(1)).sum(1).mean()
        for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= 0.5 * grad
        module.drop.update(loss.item())
        maps.append(module.drop.map.numpy())
    for weight, value in zip(weights, start, strict=True):
        weight.data = value

    expected_maps, _, _ = reference(batches, module, 0.5, (0, 1), 1)

    for got, expected in zip(maps, expected_maps, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert module.eval().drop(torch.ones(2, 3, 4)).sum() == 24
    layer, h, one = Bavd(), torch.rand(2, 3, 5), torch.ones(1)  # a flat or a broken map keeps everything
    assert all(torch.equal(layer.masked(h, torch.full((5,), flat), one), h) for flat in (2.0, float("nan")))
    assert torch.equal(layer.masked(h, torch.arange(5.0), torch.zeros(1)), h)
    assert torch.equal(layer.masked(h, torch.arange(5.0), one), h * torch.tensor([0.0, 0, 1, 1, 1]))


@pytest.mark.parametrize(
    ("make", "maps"),
    [
        (lambda bavd: Crnn(CrnnShape((4, 6), 4), LABELS, bavd=bavd), {"drop.0": (100,), "drop.1": (50,)}),
        (lambda bavd: ResNet(ResNetShape((4, 6), ((1, 3),)), LABELS, bavd=bavd), {"drop.0": (50,), "drop.1": (25,)}),
    ],
    ids=["crnn", "resnet"],
)
def test_built_in_models_have_a_map_over_time_for_each_layer_and_the_same_weights(
    make: Callable[[bool], nn.Module], maps: dict[str, tuple[int, ...]]
) -> None:
    plain, dropping = find_parts(make(False), LABELS), find_parts(make(True), LABELS)
    module, twin = make(True), make(False)
    twin.load_state_dict(module.state_dict())

    assert dict(dropping.maps) == maps
    assert (plain.maps, plain.tensors) == ((), dropping.tensors)
    x = torch.rand(2, 100, 40)
    assert torch.equal(module.eval()(x), twin.eval()(x))
    assert torch.equal(module.train()(x), twin(x)), "an empty map drops nothing"
    module.drop[0].update(1.0)
    assert not torch.equal(module(x), twin(x))


FAMILIES = {
    "crnn": lambda: Crnn(CrnnShape((4, 6), 4), LABELS, bavd=True),
    "resnet": lambda: ResNet(ResNetShape((4, 6), ((1, 3),)), LABELS, bavd=True),
}
"""The smallest model of each family that is built in."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.nightly
def test_the_maps_of_each_family_change_in_training_as_in_plain_pytorch(family: str) -> None:
    """Each of its layers has a map of its own, which the next step's masks come from."""
    torch.manual_seed(3)
    module, rng, rate = FAMILIES[family](), np.random.default_rng(4), 0.5
    traced = trace(find_parts(module, LABELS))
    graph, model = step_graph("supervised", traced, None, "sgd")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    named = {name: value.detach().numpy().copy() for name, value in module.named_parameters()}
    feeds = {"weight": np.ones(BATCH, np.float32), **{name: np.zeros(s, np.float32) for name, s in graph.state.items()}}
    feeds["model/body"] = np.concatenate([named[name].ravel() for name, _ in traced.net.tensors])
    feeds |= {f"model/head.{part}": named[f"head.{part}"] for part in ("weight", "bias")}
    feeds |= {f"model.momentum/{p}": np.zeros_like(feeds[f"model/{p}"]) for p in ("body", "head.weight", "head.bias")}
    feeds |= {f"model.{name}": np.float32(n) for name, n in {"rate": rate, "momentum": 0, "decay": 0}.items()}
    feeds["model.clip"] = np.float32(np.inf)
    module = module.double().train()
    seen: list[dict[str, Array]] = []
    for x, target in drawn(rng, 4):
        feeds.update({"x": x.astype(np.float32), "target": target.astype(np.float32)})
        given = {name: np.asarray(feeds[name], np.float32) for name in graph.inputs}
        found = dict(zip(graph.outputs, session.run(list(graph.outputs), given), strict=True))
        feeds.update({n.removeprefix("new/"): v for n, v in found.items() if n.startswith("new/")})
        loss = -(torch.tensor(target) * module(torch.tensor(x)).log_softmax(1)).sum(1).mean()
        weights = list(module.parameters())
        for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= rate * grad
        for layer in module.drop:
            layer.update(loss.item())
        assert float(found["loss"]) == pytest.approx(loss.item(), rel=1e-4)
        maps = {f"drop.{place}": found[f"new/model.bavd.drop.{place}"] for place in range(len(module.drop))}
        for place, layer in enumerate(module.drop):
            np.testing.assert_allclose(maps[f"drop.{place}"], layer.map.numpy(), rtol=1e-3, atol=1e-5)
        assert all(not np.array_equal(maps[name], seen[-1][name]) for name in maps if seen)
        seen.append(maps)

    assert dict(traced.net.maps) == {name: values.shape for name, values in seen[-1].items()}
    assert all(values.max() > values.min() for values in seen[0].values()), "none of them is flat, so each drops"


PLAIN = """
from torch import nn

class Plain(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.hidden, self.out = nn.Linear(40, 5), nn.Linear(5, labels)

    def forward(self, x):
        return self.out(self.hidden(x.mean(1)).relu())
"""


def test_a_module_of_ones_own_has_its_layers_itself_and_a_built_in_plug_in_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    source, makers = f"{tmp_path}/plain.py:Plain", {}
    with pytest.raises(CompileError, match=r"^plain has no layer that drops activations: .* leave out --bavd\.$"):
        build.build_author_pack(source, ("yes", "no"), "plain", plugin=source, bavd=True)

    def noted(given: dict[str, Any], *_: object, bavd: bool) -> dict[str, build.Model]:
        makers.update(given)
        raise CompileError("noted")

    monkeypatch.setattr(build, "trace_models", noted)
    for bavd, layers in ((True, 2), (False, 0)):
        with pytest.raises(CompileError, match="noted"):
            build.build_author_pack(source, ("yes", "no"), "plain", bavd=bavd)
        assert len(makers["crnn-lite"](2).drop) == layers
