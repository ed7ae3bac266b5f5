"""The same jobs in PyTorch, in float64 or float32: the modules as their authors wrote them, autograd, torch.optim.

The losses are those of ALGORITHMS 3, written as one writes them in PyTorch; nothing here knows of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat, TensorTable
from auricle_export.packs.models import ARCHITECTURES, FEDMLAC, WHEEL_CRNNS, Crnn
from auricle_learning.runtimes import Job
from bench.parity_cases import Array, Batch, clip_of


@dataclass(frozen=True)
class Author:
    """How to make a model's module, and what its classifier is called in it."""

    make: Callable[[int], nn.Module]
    head: str = "head"


Authors = Mapping[str, Author]


def _crnn(name: str) -> Author:
    return Author(lambda labels: Crnn(ARCHITECTURES[name], labels))


SHIPPED: dict[str, Author] = {name: _crnn(net) for name, net in WHEEL_CRNNS.items()}
"""The five CRNNs of the shipped packs."""
PRINTED: dict[str, Author] = {name: _crnn(name) for name in FEDMLAC}
"""Those of FedMLAC's table 3."""


class Model:
    """A module with the weights (P,) of a pack's table."""

    def __init__(self, author: Author, table: TensorTable, weights: Flat, dtype: torch.dtype) -> None:
        self.module = author.make(table.specs[-1].shape[0]).to(dtype)
        self.dtype = dtype
        named = dict(self.module.named_parameters())
        self.tensors: dict[str, nn.Parameter] = {}
        for spec in table.specs:
            own = f"{author.head}{spec.name[4:]}" if spec.name in ("head.weight", "head.bias") else spec.name
            self.tensors[spec.name] = named[own]
            named[own].data = torch.tensor(table.tensor(weights, spec.name), dtype=dtype)
        self._features: list[Tensor] = []
        head = self.module.get_submodule(author.head)
        head.register_forward_pre_hook(lambda _, given: self._features.append(given[0]))

    def run(self, x: Array) -> tuple[Tensor, Tensor]:
        """Logits (B, labels) and features (B, H)."""
        self._features.clear()
        logits: Tensor = self.module(torch.tensor(x, dtype=self.dtype))
        return logits, self._features[-1]

    def pieces(self, vector: Flat) -> list[Tensor]:
        """A flat vector (P,) cut like the parameters."""
        sizes = [tensor.numel() for tensor in self.tensors.values()]
        parts = torch.split(torch.tensor(vector, dtype=self.dtype), sizes)
        return [part.reshape(tensor.shape) for part, tensor in zip(parts, self.tensors.values(), strict=True)]

    def weights(self) -> dict[str, Array]:
        """The weights by tensor, in float64."""
        return {name: tensor.detach().double().numpy().copy() for name, tensor in self.tensors.items()}


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """sum_b v_b CE(z_b, y_b), v the samples' shares of the batch's weight."""
    return (_shares(batch["weight"], logits) * F.cross_entropy(logits, _labels(batch), reduction="none")).sum()


def divergence(teacher: Tensor, student: Tensor, batch: Batch, temperature: float) -> Tensor:
    """sum_b v_b KL(softmax(t_b / T) || softmax(z_b / T)), no gradient to the teacher (FedMLAC eq. 5-8, A4)."""
    log_p, log_q = (F.log_softmax(z / temperature, 1) for z in (student, teacher.detach()))
    each = F.kl_div(log_p, log_q, reduction="none", log_target=True).sum(1)
    return (_shares(batch["weight"], student) * each).sum()


def _shares(weight: Array, like: Tensor) -> Tensor:
    v = torch.tensor(weight, dtype=like.dtype)
    return v / v.sum()


def _labels(batch: Batch) -> Tensor:
    return torch.tensor(batch["target"].argmax(1))


class Reference:
    """A job's models and optimizers in PyTorch.

    Parameters
    ----------
    job
        What to train, as for a runtime.
    pack
        Whose tensor tables its vectors have.
    dtype
        float64, or float32 to see what rounding does to PyTorch itself.
    authors
        The modules by architecture.
    """

    def __init__(self, job: Job, pack: Pack, dtype: torch.dtype = torch.float64, authors: Authors = SHIPPED) -> None:
        self.job = job
        self.models = {
            role: Model(authors[name], pack.table(name), job.weights[role], dtype) for role, name in job.models.items()
        }
        self.gradients: dict[str, dict[str, Array]] = {}
        """Of the last step, by role and tensor, in float64; with drift terms, before clipping."""
        self._optimizers = {role: self._optimizer(role, model) for role, model in self.models.items()}
        if "teacher" in job.vectors:
            name = job.models["model"]
            self._teacher = Model(authors[name], pack.table(name), job.vectors["teacher"], dtype)

    def _optimizer(self, role: str, model: Model) -> torch.optim.Optimizer:
        given, parameters = (
            {name: self.job.scalar(f"{role}.{name}") for name in ("rate", "decay")},
            model.tensors.values(),
        )
        if self.job.optimizer == "sgd":
            momentum = self.job.scalar(f"{role}.momentum")
            return torch.optim.SGD(parameters, given["rate"], momentum, weight_decay=given["decay"])
        betas = (self.job.scalar(f"{role}.beta1"), self.job.scalar(f"{role}.beta2"))
        epsilon, l2 = self.job.scalar(f"{role}.epsilon"), self.job.scalar(f"{role}.l2")
        if l2:
            return torch.optim.Adam(parameters, given["rate"], betas, epsilon, weight_decay=l2)
        return torch.optim.AdamW(parameters, given["rate"], betas, epsilon, weight_decay=given["decay"])

    def step(self, batch: Batch) -> dict[str, float]:
        """Train on a batch; the losses of the models as they were, by name."""
        if len(self.models) == 2:
            return self._mutual(batch)
        losses = self._losses(batch)
        self._update("model", losses["loss"])
        return {name: loss.item() for name, loss in losses.items()}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        logits, features = self.models["model"].run(batch["x"])
        labelled = cross_entropy(logits, batch)
        if self.job.kind == "fixmatch":
            return self._fixmatch(labelled, batch)
        if self.job.kind == "distill":
            means = torch.tensor(self.job.inputs["means"], dtype=features.dtype)
            valid = torch.tensor(self.job.inputs["valid"], dtype=features.dtype)
            labels = _labels(batch)
            away = ((features - means[labels]) ** 2).mean(1)
            pull = (_shares(batch["weight"], features) * valid[labels] * away).sum()
            return {"loss": labelled + self.job.scalar("beta") * pull, "loss.means": pull}
        return {"loss": labelled}

    def _fixmatch(self, labelled: Tensor, batch: Batch) -> dict[str, Tensor]:
        """FedRPO's loss on pseudo-labels (A35, A36)."""
        strong, _ = self.models["model"].run(batch["strong"])
        with torch.no_grad():
            sure, pseudo = self._teacher.run(batch["weak"])[0].softmax(1).max(1)
        counted = _shares(batch["weight.unlabelled"], strong) * (sure >= self.job.scalar("threshold"))
        unlabelled = (counted * F.cross_entropy(strong, pseudo, reduction="none")).sum()
        value = labelled + self.job.scalar("lambda") * unlabelled
        return {
            "loss": value,
            "loss.labelled": labelled,
            "loss.unlabelled": unlabelled,
            "confident": counted.sum(),
        }

    def _mutual(self, batch: Batch) -> dict[str, float]:
        """Both from one forward pass; alternating: the plug-in learns from the local model after its step (A6)."""
        alpha, plugin_ce, temperature = (self.job.scalar(name) for name in ("alpha", "plugin_ce", "temperature"))
        local, plugin = self.models["local"], self.models["plugin"]
        a, b = local.run(batch["x"])[0], plugin.run(batch["x"])[0]
        own = alpha * cross_entropy(a, batch) + (1 - alpha) * divergence(b, a, batch, temperature)
        self._update("local", own)
        if self.job.kind == "alternating":
            a = local.run(batch["x"])[0]
        shared = plugin_ce * cross_entropy(b, batch) + divergence(a, b, batch, temperature)
        self._update("plugin", shared)
        return {"loss.local": own.item(), "loss.plugin": shared.item()}

    def _update(self, role: str, loss: Tensor) -> None:
        """Gradient, its terms, clipping, and the optimizer's step."""
        model, job = self.models[role], self.job
        parameters = list(model.tensors.values())
        grads = list(torch.autograd.grad(loss, parameters))
        if "drift" in job.terms:
            mu, anchor, linear = job.scalar(f"{role}.mu"), job.vectors[f"{role}.anchor"], job.vectors[f"{role}.linear"]
            pulls = zip(grads, parameters, model.pieces(anchor), model.pieces(linear), strict=True)
            grads = [g + mu * (p.detach() - a) + c for g, p, a, c in pulls]
        keep = model.pieces(job.vectors[f"{role}.keep"]) if "freeze" in job.terms else None
        if keep is not None:
            grads = [g * k for g, k in zip(grads, keep, strict=True)]
        self.gradients[role] = {n: g.double().numpy().copy() for n, g in zip(model.tensors, grads, strict=True)}
        before = [p.detach().clone() for p in parameters]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        if np.isfinite(clip_of(job, role)):
            torch.nn.utils.clip_grad_norm_(parameters, clip_of(job, role))
        self._optimizers[role].step()
        if keep is not None:
            for parameter, old, k in zip(parameters, before, keep, strict=True):
                parameter.data = torch.where(k > 0, parameter.data, old)
