"""A model author's own module: where it is found, and what its weights start from."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path

from torch import nn

from auricle.errors import nearest
from auricle.wire.tensor_specs import TensorSpec
from auricle_export.compiler.contract import Net
from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.source_line import error_line

Maker = Callable[[int], nn.Module]
"""Makes a module for so many labels."""


def load_module(source: str) -> Maker:
    """Find `FILE.py:NAME`, a class or function that makes a module for a number of labels (or takes nothing).

    The file is the user's own program and is executed. Nothing is written beside it: no compiled copy is left of it,
    or of what it imports.

    Raises
    ------
    CompileError
        There is no such file or name, the file fails, or it makes no `nn.Module`.
    """
    path, _, name = source.rpartition(":")
    file = Path(path)
    if not path or not name.isidentifier():
        raise CompileError(f'"{source}" is not a model: give FILE.py:NAME, such as my_models.py:Net.')
    if not file.is_file():
        raise CompileError(f"There is no file {file}.")
    spec = importlib.util.spec_from_file_location(f"auricle_author_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise CompileError(f"{file} is not a Python file.")
    program = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = program
    sys.path.insert(0, str(file.parent.resolve()))
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(program)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise CompileError(f"{file} is not Python{where}: {error.msg}.") from error
    except ModuleNotFoundError as error:
        raise CompileError(f"{file} needs the package {error.name}, which is not installed.") from error
    except Exception as error:
        raise CompileError(f"{error_line(error)}{file} fails: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes_none
        sys.path.pop(0)
    made = getattr(program, name, None)
    if made is not None and not callable(made):
        raise CompileError(f'"{name}" in {file} makes no model: it is not a class or function.')
    if made is None:
        raise CompileError(
            f'{file} has no "{name}"; {nearest(name, [n for n in vars(program) if not n.startswith("_")])}'
        )
    return lambda labels: _make(made, labels, source)


def _make(made: Callable[..., object], labels: int, source: str) -> nn.Module:
    takes = [
        p for p in inspect.signature(made).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    asked = ", ".join(p.name for p in takes if p.kind is not p.VAR_POSITIONAL)
    if "," in asked:
        raise CompileError(
            f"{source} asks for {asked}, and it is given the number of labels alone: give the others a default."
        )
    try:
        module = made(labels) if any(p.kind is not p.VAR_POSITIONAL for p in takes) or _names_labels(made) else made()
    except Exception as error:
        raise CompileError(
            f"{error_line(error)}{source} cannot be made for {labels} labels: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise CompileError(f"{source} makes {type(module).__name__}, not an nn.Module.")
    return module


def _names_labels(made: Callable[..., object]) -> bool:
    first = next(iter(inspect.signature(made).parameters), "")
    return first in ("labels", "num_labels", "n_labels", "classes", "num_classes", "n_classes")


def tensor_specs(net: Net, labels: int) -> tuple[TensorSpec, ...]:
    """Tensor table of a module: the body's tensors by name, then the classifier."""
    parameters = dict(net.module.named_parameters())
    own = [
        TensorSpec(name, shape or (1,), layer_of(name), *_start(net.module, name, parameters[name]))
        for name, shape in net.tensors
    ]
    bound = round(net.features**-0.5, 9)
    head = [("head.weight", (labels, net.features)), ("head.bias", (labels,))]
    return (*own, *(TensorSpec(name, shape, "head", bound) for name, shape in head))


def layer_of(tensor: str) -> str:
    """Name the layer group of a tensor: its module, so that a layer comes from one set of clients (A11)."""
    return tensor.rsplit(".", 1)[0]


def _start(module: nn.Module, name: str, tensor: nn.Parameter) -> tuple[float, float]:
    """Half width and centre of the uniform distribution that a tensor starts from.

    Linear and convolution layers: 1/sqrt(fan-in), recurrent ones 1/sqrt(hidden), as PyTorch draws them. Others, and
    those that their author starts otherwise: a constant, or numbers of this instance's mean and spread.
    """
    values = tensor.detach().double()
    centre, spread = float(values.mean()), float(values.std(unbiased=False)) * sqrt(3)
    if spread < 1e-9:
        return 0.0, round(centre, 9)
    usual = _usual(module.get_submodule(name.rpartition(".")[0]))
    if usual is not None:
        many = values.numel() >= MANY and abs(spread / usual - 1) > UNUSUAL
        if not many and float(values.abs().max()) <= usual * 1.0001:
            return usual, 0.0
    return round(spread, 6), round(centre, 6) if abs(centre) > spread / 2 else 0.0


MANY, UNUSUAL = 64, 0.25
"""Of so many numbers the spread says how they were drawn: this far from PyTorch's, by the module's author."""


def _usual(layer: nn.Module) -> float | None:
    """Half width of the distribution that PyTorch draws a layer's tensors from; None for other layers."""
    if isinstance(layer, nn.Linear):
        drawn: int = layer.in_features
    elif isinstance(layer, nn.Conv1d | nn.Conv2d):
        drawn = layer.weight.numel() // layer.out_channels
    elif isinstance(layer, nn.GRU | nn.LSTM):
        drawn = layer.hidden_size
    else:
        return None
    return float(round(drawn**-0.5, 9))
