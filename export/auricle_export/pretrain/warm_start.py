"""A training that begins with another pack's weights: what it heard of people is kept, what it lacks is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.normalised import NormalisedConv, NormalisedLinear

CALIBRATED_WINDOWS = 1_024
"""Windows from which the statistics of each normalisation are taken."""
BODY_SHARE = 0.1
"""Share of the learning rate for what comes before the classifier, where words are learnt that the start lacks."""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Weights that a training begins with."""

    pack: Pack
    """The pack that has them, for words of which some may be others."""
    body: float = BODY_SHARE
    """Share of the learning rate for what comes before the classifier."""

    @property
    def identity(self) -> str:
        """What tells one start from another: a state of one does not go on from another."""
        return self.pack.identity if self.body == BODY_SHARE else f"{self.pack.identity} {self.body:g}"


def begin_with(
    start: WarmStart, model: str, module: nn.Module, twin: nn.Module, labels: Sequence[str], x: Tensor, modules: Modules
) -> None:
    """Give a module and its normalised copy the weights of a start, so that both compute what its model does.

    The classifier's rows of words that the start does not know stay as they are: small and random.

    Parameters
    ----------
    model
        Its name in both packs.
    module, twin
        As `normalise` made the second from the first.
    labels
        The module's.
    x
        Log-mels (N, T, mels) from which each normalisation takes its mean and its variance.
    modules
        Modules that are not built in.
    """
    known = module_for(model, start.pack, modules)
    table = start.pack.table(model)
    write_flat(tensors_of(known, table), table, start_weights(start.pack, model))
    with torch.no_grad():
        theirs, ours = dict(known.named_parameters()), dict(module.named_parameters())
        rows = [(to, start.pack.labels.index(word)) for to, word in enumerate(labels) if word in start.pack.labels]
        for name, tensor in ours.items():
            if tensor.shape == theirs[name].shape and not name.startswith("head."):
                tensor.copy_(theirs[name])
            elif name.startswith("head."):
                tensor.mul_(0.1)
                for to, row in rows:
                    tensor[to] = theirs[name][row]
        _unfold(module, twin, x)


def _unfold(module: nn.Module, twin: nn.Module, x: Tensor) -> None:
    """Weights without, and normalisation with, what makes the copy compute the same as the module on this batch."""
    layers, shared = dict(module.named_modules()), dict(module.named_parameters())
    for name, parameter in twin.named_parameters():
        if name in shared:
            parameter.copy_(shared[name])
    hooks = []
    for name, part in twin.named_modules():
        if isinstance(part, NormalisedLinear | NormalisedConv):
            inner = part.linear if isinstance(part, NormalisedLinear) else part.conv
            inner.weight.copy_(layers[name].weight)
            hooks.append(part.norm.register_forward_pre_hook(_calibration(layers[name].bias)))
    twin.eval()
    twin(x)
    for hook in hooks:
        hook.remove()


def _calibration(bias: Tensor):  # type: ignore[no-untyped-def]
    def calibrate(norm: nn.BatchNorm1d, given: tuple[Tensor, ...]) -> None:
        (h,) = given
        rows = h.transpose(0, 1).reshape(h.shape[1], -1)
        mean, variance = rows.mean(dim=1), rows.var(dim=1, unbiased=False)
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.weight.copy_(torch.sqrt(variance + norm.eps))
        norm.bias.copy_(mean + bias)

    return calibrate
