"""Modules that are not this project's own, compiled to a pack on the spot, so that they can be compared too."""

from __future__ import annotations

from collections.abc import Sequence

from bench.parity_reference import SHIPPED, Author
from bench.step_process import say

from auricle.errors import AuricleError
from auricle.pack import Pack
from auricle_export.author import load_module
from auricle_export.build import LABELS, assemble, trace_model
from auricle_export.models import PLUGIN


def with_modules(sources: Sequence[str]) -> tuple[Pack, dict[str, Author]]:
    """A pack of the named modules and the plug-in; and how to make each of them in PyTorch.

    Raises
    ------
    AuricleError
        A module does not compile, or has dropout or state, whose random masks PyTorch does not share.
    """
    authors = dict(SHIPPED)
    words = LABELS["gsc12"]
    models = {PLUGIN: trace_model(SHIPPED[PLUGIN].make, len(words))}
    for source in sources:
        make, name = load_module(source), source.rpartition(":")[2].lower()
        say(f"{name} is compiled")
        models[name] = trace_model(make, len(words))
        net = models[name].traced.net
        if net.noise or net.maps:
            raise AuricleError(f"{source} has dropout or a layer with state, which differs from PyTorch's by chance.")
        authors[name] = Author(make, net.head)
    return assemble("parity", words, models, PLUGIN), authors
