"""A module compiled to step graphs, beside the same module in PyTorch's float64 autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from auricle.checks.graph_check import check_graph
from auricle.packs.frontend import Frontend
from auricle.packs.manifest import Task
from auricle.packs.pack import Pack
from auricle_export.compiler.layers import Bavd
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.build import Model, Recipe, assemble
from auricle_export.packs.stepgraph import trace
from auricle_learning.runtimes.interface import joined_parts, named_parts

LABELS, BATCH, FRAMES, MELS = 5, 4, 12, 10
SMALLEST = 1e-2
"""A tensor whose gradient is below this share of the largest one is measured against that share: softmax gives the
bias of its keys, and normalisation a bias before it, a gradient that is zero but for rounding."""


class Compiled:
    """A module's supervised step (SGD, rate 1) and evaluation graph, checked as a device checks them."""

    def __init__(self, module: nn.Module, frames: int = FRAMES, mels: int = MELS, batch: int = BATCH) -> None:
        task = Task(tuple(f"w{i}" for i in range(LABELS)), frames=frames, frontend=Frontend(mels=mels))
        self.net = find_parts(module, LABELS, frames, mels, batch)
        self.module = module
        model = Model(trace(self.net), tensor_specs(self.net, LABELS))
        self.pack: Pack = assemble("net", task.labels, {"net": model}, "net", [Recipe("supervised", "sgd")], task)
        self.step = self.pack.graph("supervised", "net", "sgd")
        self.table = self.pack.table("net")
        for graph in self.pack.manifest.graphs:
            check_graph(self.pack, graph)
        self._sessions = {graph.file: _session(self.pack.files[graph.file]) for graph in self.pack.manifest.graphs}
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((16, frames, mels)).astype(np.float32)
        self.target = rng.integers(0, LABELS, batch)
        self.weight = np.linspace(1, 0, batch, dtype=np.float32)
        self.noise = {name: rng.random(shape).astype(np.float32) for name, shape in self.step.noise.items()}
        self.state = {
            name: np.ones(shape, np.float32) if name.endswith(".seen") else rng.random(shape).astype(np.float32)
            for name, shape in self.step.state.items()
        }

        self.found: dict[str, np.ndarray] = {}
        self.maps: dict[str, np.ndarray] = {}

    def flat(self) -> np.ndarray:
        """The module's own weights in the pack's order."""
        return np.concatenate([p.detach().numpy().reshape(-1) for p in self._parameters(self.module).values()])

    def _parameters(self, module: nn.Module) -> dict[str, Tensor]:
        named = dict(module.named_parameters(remove_duplicate=False))
        return {s.name: named[_own_name(s.name, self.net.head)] for s in self.table.specs}

    def run_step(self) -> dict[str, np.ndarray]:
        feeds: dict[str, Any] = {
            "x": self.x[: len(self.target)],
            "target": np.eye(LABELS, dtype=np.float32)[self.target],
            "weight": self.weight,
            **self.noise,
            **self.state,
            **named_parts("model", self.table, self.flat()),
        }
        feeds |= named_parts("model.momentum", self.table, np.zeros(self.table.size, np.float32))
        feeds |= {"model.rate": 1.0, "model.momentum": 0.0, "model.decay": 0.0, "model.clip": np.inf}
        feeds = {name: np.asarray(value, np.float32) for name, value in feeds.items()}
        return dict(
            zip(self.step.outputs, self._sessions[self.step.file].run(list(self.step.outputs), feeds), strict=True)
        )

    def gradients(self) -> tuple[dict[str, np.ndarray], float]:
        """Every tensor's gradient, by name, and the loss."""
        found = self.found = self.run_step()
        flat = joined_parts("new/model.momentum", self.table, found)
        return {s.name: self.table.tensor(flat, s.name) for s in self.table.specs}, float(found["loss"])

    def reference(self) -> tuple[dict[str, np.ndarray], float]:
        module = copy.deepcopy(self.module).double().train()
        freeze(module)
        for name, layer in _biased(module):
            layer.map = torch.from_numpy(self.state[f"model.bavd.{name}"]).double()
            layer._loss = float(self.state["model.bavd.loss"][0])
        parameters = self._parameters(module)
        share = torch.from_numpy(self.weight / self.weight.sum()).double()
        with given_masks([torch.from_numpy(mask).double() for mask in self.noise.values()]):
            logits = module(torch.from_numpy(self.x[: len(self.target)]).double())
        loss = (share * F.cross_entropy(logits, torch.from_numpy(self.target), reduction="none")).sum()
        grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        shapes = {spec.name: spec.shape for spec in self.table.specs}  # a convolution's, of the equal linear layer
        shown = {
            name: np.zeros(shapes[name]) if g is None else g.numpy().reshape(shapes[name])
            for name, g in zip(parameters, grads, strict=True)
        }
        for name, layer in _biased(module):
            layer.update(float(loss.detach()))
            self.maps[f"new/model.bavd.{name}"] = layer.map.numpy()
        return shown, float(loss.detach())

    def gradient_errors(self) -> dict[str, float]:
        """Largest relative error of every tensor's gradient, and of the loss."""
        (got, loss), (want, due) = self.gradients(), self.reference()
        largest = max(float(np.abs(g).max()) for g in want.values())
        got, want = {**got, **{name: self.found[name] for name in self.maps}}, {**want, **self.maps}
        errors = {
            name: float(np.abs(got[name] - g).max()) / max(float(np.abs(g).max()), SMALLEST * largest)
            for name, g in want.items()
        }
        return {**errors, "loss": abs(loss - due) / abs(due)}

    def evaluation_errors(self, batches: Sequence[int] = (1, 5, 16)) -> dict[int, float]:
        """Largest relative error of the logits in eval mode, by batch."""
        graph, module = self.pack.graph("evaluate", "net"), copy.deepcopy(self.module).double().eval()
        weights = named_parts("model", self.table, self.flat())
        errors = {}
        for batch in batches:
            logits, features = self._sessions[graph.file].run(["logits", "features"], {"x": self.x[:batch], **weights})
            with torch.no_grad():
                due = module(torch.from_numpy(self.x[:batch]).double()).numpy()
            assert logits.shape == due.shape and features.shape == (batch, self.net.features)
            errors[batch] = float(np.abs(logits - due).max() / np.abs(due).max())
        return errors


def _biased(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in module.named_modules() if isinstance(part, Bavd)]


def freeze(module: nn.Module) -> None:
    """Batch normalisation as a step graph has it: by its running statistics."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()


def _own_name(tensor: str, head: str) -> str:
    return f"{head}.{tensor.removeprefix('head.')}" if tensor in ("head.weight", "head.bias") else tensor


def _session(data: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@contextmanager
def given_masks(uniform: Iterable[Tensor]) -> Iterator[None]:
    """Let PyTorch's own dropout take its masks, in order, from uniform numbers u: kept where u >= p."""
    masks = iter(uniform)
    attend, gru, lstm = F.scaled_dot_product_attention, torch._VF.gru, torch._VF.lstm

    def drop(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return x * (next(masks) >= p) / (1 - p) if training and p else x

    def attend_dropped(
        q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, *how: Any, **more: Any
    ) -> Tensor:
        same = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], -1)
        shares = attend(q, k, same, attn_mask, 0.0, *how, **more)
        return (drop(shares, dropout_p) if dropout_p else shares) @ v

    def recurrent(run: Callable[..., Any]) -> Callable[..., Any]:
        def layered(
            x: Tensor, start: Any, weights: Any, bias: bool, layers: int, p: float, train: bool, *how: bool
        ) -> Any:
            if not (p and train):
                return run(x, start, weights, bias, layers, p, train, *how)
            ways, each, ends = 2 if how[0] else 1, len(weights) // layers, []
            for layer in range(layers):
                if layer:  # the masks are (T, B, H)
                    x = drop(x.transpose(0, 1), p).transpose(0, 1) if how[1] else drop(x, p)
                own = slice(layer * ways, (layer + 1) * ways)
                begin = start[own] if isinstance(start, Tensor) else tuple(s[own] for s in start)
                x, *end = run(x, begin, weights[layer * each : (layer + 1) * each], bias, 1, 0.0, train, *how)
                ends.append(end)
            return x, *(torch.cat(parts) for parts in zip(*ends, strict=True))

        return layered

    with pytest.MonkeyPatch.context() as patch:
        for name in ("dropout", "dropout1d", "dropout2d"):
            patch.setattr(F, name, drop)
        patch.setattr(F, "scaled_dot_product_attention", attend_dropped)
        patch.setattr(torch._VF, "gru", recurrent(gru))
        patch.setattr(torch._VF, "lstm", recurrent(lstm))
        yield
    assert next(masks, None) is None, "a mask was not used"
