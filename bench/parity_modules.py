"""Modules that are not this project's own, compiled to a pack on the spot, so that they can be compared too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from auricle.packs.pack import Pack
from auricle_export.packs.author import Maker, load_module
from auricle_export.packs.build import LABELS, assemble, trace_model
from auricle_export.packs.models import PLUGIN
from bench.parity_reference import SHIPPED, Author
from bench.step_process import say


def with_modules(sources: Sequence[str]) -> tuple[Pack, dict[str, Author]]:
    """A pack of the named modules and the plug-in; and how to make each of them in PyTorch.

    Raises
    ------
    CompileError
        A module does not compile.
    """
    authors = dict(SHIPPED)
    words = LABELS["gsc12"]
    models = {PLUGIN: trace_model(SHIPPED[PLUGIN].make, len(words))}
    for source in sources:
        make, name = without_chance(load_module(source)), source.rpartition(":")[2].lower()
        say(f"{name} is compiled")
        models[name] = trace_model(make, len(words))
        authors[name] = Author(make, models[name].traced.net.head)
    return assemble("parity", words, models, PLUGIN), authors


def without_chance(make: Maker) -> Maker:
    """The same modules, always with the same buffers, and with dropout off, whose masks PyTorch draws for itself.

    Batch normalisation is frozen, as in a graph, with statistics that are not 0 and 1.
    """

    def made(labels: int) -> nn.Module:
        torch.manual_seed(0)
        module = make(labels).train()
        for part in module.modules():
            if isinstance(part, nn.modules.dropout._DropoutNd):
                part.p = 0.0
            elif isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
                assert part.running_mean is not None and part.running_var is not None
                part.running_mean.normal_(0.0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
        return module

    return made
