"""What a module has to be to be compiled: log-mels in, logits out, for any batch, a linear classifier last."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from auricle_export.compiler.classifier import LAYERS, is_mean, random_like
from auricle_export.compiler.intercept import CompileError, Intercept
from auricle_export.compiler.source_line import error_line

BATCH = 16


@dataclass(frozen=True)
class Net:
    """A module that can be compiled, and what was found in it."""

    module: nn.Module
    head: str
    """Name of the classifier, an `nn.Linear` or a convolution that is one (`classifier`)."""
    features: int
    """Width of the input of the classifier as a linear layer."""
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
    """Weight and bias (labels,) of the classifier: of an `nn.Linear` (labels, features), or (labels, C, *kernel)."""
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


_ANY = "; evaluation takes any number of clips: use x.shape[0] in place of a number, flatten(1) in place of squeeze()"


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
        raise _failure(module, x, error) from error


def refuse_other_than_logits(module: nn.Module, output: object, due: tuple[int, int], hint: str = "") -> None:
    """CompileError for anything but logits (batch, labels)."""
    got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if got != due:
        hint = hint or f": end it in nn.Linear(..., {due[1]})"
        raise CompileError(f"{module_name(module)} gives {got} where logits {due} are due{hint}.")


def refuse_fixed_batch(module: nn.Module, labels: int, frames: int, mels: int) -> None:
    """CompileError, with the line, for a module that works for one batch only, or not in eval mode."""
    evaluated = copy.deepcopy(module).eval()
    for batch in BATCHES:
        x = torch.rand(batch, frames, mels)
        try:
            with torch.no_grad():
                output = evaluated(x)
        except Exception as error:
            raise _failure(module, x, error, _ANY) from error
        refuse_other_than_logits(module, output, (batch, labels), _ANY)


def module_name(module: nn.Module) -> str:
    """The beginning of a sentence about a module."""
    return f"The module {type(module).__name__}"


def _failure(module: nn.Module, x: Tensor, error: BaseException, hint: str = "") -> CompileError:
    what = f"{type(error).__name__}: {str(error).strip().rstrip('.')}"
    where = error_line(error)
    return CompileError(f"{where}{type(module).__name__} fails on log-mels {tuple(x.shape)}: {what}{hint}.")


@dataclass(frozen=True)
class Call:
    """A layer that may be the classifier, as it ran."""

    weight: Tensor
    result: Tensor
    """What it gave; of a convolution, numbers that were made up."""
    masks: int
    """Dropout masks drawn before it."""
    where: str
    """The user's line, as `source_line` gives it."""


LAST = "has to end in an nn.Linear with a bias, applied to (batch, features), or in a 1x1 convolution with a bias"
_HINT = (
    "leave softmax to the loss; a mean over all places may follow a 1x1 convolution, and nn.Linear followed by a mean "
    "is a mean followed by nn.Linear"
)


def classifier_of(module: nn.Module, calls: list[Call], output: Tensor, masks: int) -> str:
    """Name of the linear layer or 1x1 convolution that makes the logits.

    Parameters
    ----------
    calls
        Every linear layer, and every convolution that could be one, in the order of their use.
    output
        The logits.
    masks
        Dropout masks drawn in all.

    Raises
    ------
    CompileError
        There is none, it has no bias, is frozen, shares its weights, or is not the last.
    """
    if not calls or not _is_end(calls[-1], output) or calls[-1].masks != masks:
        where = calls[-1].where if calls else ""
        raise CompileError(f"{where}{module_name(module)} {LAST}, and nothing else after it: {_HINT}.")
    weight = calls[-1].weight
    found = [(n, part) for n, part in module.named_modules() if isinstance(part, LAYERS) and part.weight is weight]
    if not found:
        raise CompileError(
            f"{module_name(module)} {LAST}: its last weights belong to no nn.Linear, nn.Conv1d or nn.Conv2d."
        )
    name, part = found[0]
    if part.bias is None:
        kind = type(part).__name__
        raise CompileError(
            f"The classifier {name} has no bias: {module_name(module)} {LAST}; use nn.{kind}(..., bias=True)."
        )
    shared = [n for n, p in module.named_parameters(remove_duplicate=False) if p is weight or p is part.bias]
    if len(shared) > 2:
        raise CompileError(f"The classifier {name} shares its weights ({', '.join(shared)}): give it its own.")
    if sum(call.weight is weight for call in calls) > 1:
        raise CompileError(f"{module_name(module)} calls its classifier {name} twice: use another layer before it.")
    if not (part.weight.requires_grad and part.bias.requires_grad):
        raise CompileError(f"The classifier {name} is frozen: leave requires_grad=True on it.")
    return str(name)


def _is_end(call: Call, output: Tensor) -> bool:
    if call.weight.dim() > 2:
        return is_mean(output, call.result)
    return call.result.shape == output.shape and call.result.data_ptr() == output.data_ptr()


def refuse_other_evaluation(module: nn.Module, head: str, frames: int, mels: int) -> None:
    """CompileError for a module that ends in a convolution and does more in eval mode than take its mean."""
    evaluated, generator = copy.deepcopy(module).eval(), torch.Generator().manual_seed(0)
    part, seen = evaluated.get_submodule(head), list[Tensor]()
    if isinstance(part, nn.Linear):
        return

    def replace(layer: nn.Module, given: object, result: Tensor) -> Tensor:
        seen.append(random_like(result, generator))
        return seen[-1].clone()

    hook = part.register_forward_hook(replace)
    with torch.no_grad():
        output = evaluated(torch.rand(max(BATCHES), frames, mels))
    hook.remove()
    if len(seen) != 1 or not is_mean(output, seen[0]):
        raise CompileError(f"{module_name(module)} {LAST}, and nothing else after it in eval mode too: {_HINT}.")
