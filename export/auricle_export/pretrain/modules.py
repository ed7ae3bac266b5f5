"""The PyTorch modules of a pack's models, and their tensors by the names that the pack has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from auricle.errors import PackError
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat, TensorTable
from auricle_export.packs.models import HEADS, USUAL_MELS, WINDOW_FRAMES, WORD_MODELS, make_module, net_of

Modules = Mapping[str, Callable[[int], nn.Module]]
"""Makes the module of each model for a number of labels."""


def own_modules(frames: int = WINDOW_FRAMES, mels: int = USUAL_MELS) -> Modules:
    """The built-in models, for windows of so many frames and mel bands, or vectors and their numbers."""

    def make(name: str) -> Callable[[int], nn.Module]:
        return lambda labels: make_module(name, labels, mels, frames)

    return {name: make(name) for name in (*WORD_MODELS, *HEADS)}


def module_for(model: str, pack: Pack, modules: Modules) -> nn.Module:
    """The module of a pack's model; PackError when nobody knows it, or it has other tensors than the pack says."""
    table = pack.table(model)
    known = {**own_modules(*pack.manifest.task.input_shape), **modules}
    if model not in known:
        raise PackError(
            f"There is no PyTorch module for {model}: name its file, as in --model my_models.py:Net, or leave the "
            "model out of --models."
        )
    module = known[model if model in modules else net_of(model, table)](len(pack.labels))
    found = {name: _shape(name, tensor) for name, tensor in tensors_of(module, table).items()}
    named = {spec.name: tuple(spec.shape) for spec in table.specs}
    other = sorted(name for name in {*found, *named} if found.get(name) != named.get(name))
    if other:
        raise PackError(
            f"The module of {model} and the pack {pack.manifest.name} differ in the tensor {other[0]}: rebuild the "
            "pack from this module."
        )
    return module


def _shape(name: str, tensor: nn.Parameter) -> tuple[int, ...]:
    """A tensor's shape as a pack has it: that of a classifier (labels, C, 1, 1) is (labels, C) there."""
    return (tensor.shape[0], tensor[0].numel()) if name == "head.weight" else tuple(tensor.shape)


def tensors_of(module: nn.Module, table: TensorTable) -> dict[str, nn.Parameter]:
    """A module's trained tensors by the names that a pack's table has for them: the classifier's are `head.*` there."""
    body = {spec.name for spec in table.specs[:-2]}
    trained = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
    rest = [name for name in trained if name not in body]
    alike = {name.rpartition(".")[0] for name in rest}
    if len(alike) == 1 and {name.rpartition(".")[2] for name in rest} == {"weight", "bias"}:
        return {(name if name in body else f"head.{name.rpartition('.')[2]}"): t for name, t in trained.items()}
    return trained


def write_flat(tensors: Mapping[str, nn.Parameter], table: TensorTable, flat: Flat) -> None:
    """Put a flat vector (P,) into a module's tensors."""
    with torch.no_grad():
        for spec in table.specs:
            tensor = tensors[spec.name]
            tensor.copy_(torch.from_numpy(table.tensor(flat, spec.name).copy()).reshape(tensor.shape))
