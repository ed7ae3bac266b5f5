"""What a module has to be to be compiled: log-mels in, logits out, for any batch, a linear classifier last."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from auricle_export.compiler.intercept import CompileError, Intercept
from auricle_export.compiler.source_line import raised_line

BATCH = 16


@dataclass(frozen=True)
class Net:
    """A module that can be compiled, and what was found in it."""

    module: nn.Module
    head: str
    """Name of the classifier, an `nn.Linear`."""
    features: int
    """Width of the classifier's input."""
    frames: int
    mels: int
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of the body's trained tensors, in the order in which a flat body holds them."""
    noise: tuple[tuple[int, ...], ...]
    """Shapes of the dropout masks, in the order of their use."""
    maps: tuple[tuple[str, tuple[int, ...]], ...]
    """BAVD layers and the shapes of their maps."""
    batch: int = BATCH

    @property
    def body(self) -> int:
        """Numbers in the flat body."""
        return sum(torch.Size(shape).numel() for _, shape in self.tensors)


def parameters_of(module: nn.Module, head: str) -> tuple[Tensor, Tensor]:
    """Weight (labels, features) and bias (labels,) of the classifier."""
    named = dict(module.named_parameters())
    return named[f"{head}.weight"], named[f"{head}.bias"]


def unpack(net: Net, body: Tensor) -> dict[str, Tensor]:
    """The named tensors in a flat body."""
    if not net.tensors:
        return {}
    pieces = torch.split(body, [torch.Size(shape).numel() for _, shape in net.tensors])
    return {name: piece.reshape(shape) for (name, shape), piece in zip(net.tensors, pieces, strict=True)}


BATCHES = (1, 5)
"""Batches that a module has to take in eval mode."""


_ANY = "; evaluation takes any number of clips: use x.shape[0] in place of a number"


class Halt(Exception):  # noqa: N818 - ends the forward pass, no error
    """The classifier was called: all before it is the body."""


def run_module(module: nn.Module, x: Tensor, mode: Intercept) -> object:
    """Run a module; what it raises itself becomes a sentence.

    Raises
    ------
    CompileError
        It fails, or calls what cannot be compiled.
    """
    try:
        with mode:
            return mode.current(module(x))
    except (CompileError, Halt):
        raise
    except Exception as error:
        raise _failed(module, x, error) from error


def refuse_other_than_logits(module: nn.Module, output: object, due: tuple[int, int], hint: str = "") -> None:
    """CompileError for anything but logits (batch, labels)."""
    got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if got != due:
        hint = hint or f": end it in nn.Linear(..., {due[1]})"
        raise CompileError(f"{named(module)} gives {got} where logits {due} are due{hint}.")


def refuse_fixed_batch(module: nn.Module, labels: int, frames: int, mels: int) -> None:
    """CompileError, with the line, for a module that works for one batch only, or not in eval mode."""
    evaluated = copy.deepcopy(module).eval()
    for batch in BATCHES:
        x = torch.rand(batch, frames, mels)
        try:
            with torch.no_grad():
                output = evaluated(x)
        except Exception as error:
            raise _failed(module, x, error, _ANY) from error
        refuse_other_than_logits(module, output, (batch, labels), _ANY)


def named(module: nn.Module) -> str:
    """The beginning of a sentence about a module."""
    return f"The module {type(module).__name__}"


def _failed(module: nn.Module, x: Tensor, error: BaseException, hint: str = "") -> CompileError:
    what = f"{type(error).__name__}: {str(error).strip().rstrip('.')}"
    where = raised_line(error)
    return CompileError(f"{where}{type(module).__name__} fails on log-mels {tuple(x.shape)}: {what}{hint}.")


def classifier_of(module: nn.Module, calls: list[tuple[Tensor, Tensor]], output: Tensor) -> str:
    """Name of the linear layer that makes the logits.

    Parameters
    ----------
    calls
        Weight and result of every linear layer, in the order of their use.
    output
        The logits.

    Raises
    ------
    CompileError
        There is none, it has no bias, is frozen, shares its weights, or is not the last.
    """
    last = "has to end in an nn.Linear with a bias, applied to (batch, features)"
    hint = "leave softmax to the loss; a 1x1 convolution followed by a mean is a mean followed by nn.Linear"
    if not calls or calls[-1][1].shape != output.shape or calls[-1][1].data_ptr() != output.data_ptr():
        raise CompileError(f"{named(module)} {last}, and nothing after it: {hint}.")
    weight = calls[-1][0]
    linear = [(n, part) for n, part in module.named_modules() if isinstance(part, nn.Linear) and part.weight is weight]
    if not linear:
        raise CompileError(f"{named(module)} {last}: its last weights belong to no nn.Linear.")
    name, part = linear[0]
    if part.bias is None:
        raise CompileError(f"The classifier {name} has no bias: {named(module)} {last}; use nn.Linear(..., bias=True).")
    shared = [n for n, p in module.named_parameters(remove_duplicate=False) if p is weight or p is part.bias]
    if len(shared) > 2:
        raise CompileError(f"The classifier {name} shares its weights ({', '.join(shared)}): give it its own.")
    if sum(called is weight for called, _ in calls) > 1:
        raise CompileError(f"{named(module)} calls its classifier {name} twice: use another nn.Linear before it.")
    if not (part.weight.requires_grad and part.bias.requires_grad):
        raise CompileError(f"The classifier {name} is frozen: leave requires_grad=True on it.")
    return str(name)
