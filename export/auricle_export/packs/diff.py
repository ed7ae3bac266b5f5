"""What makes a pack another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from auricle.checks.onnx_reader import read_model
from auricle.errors import PackError
from auricle.packs.graph_interface import Graph
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights


class Difference(NamedTuple):
    """One thing in which two packs differ; None: it is not there."""

    part: str
    """task, model, vote, graph, weights, file, producer, signature or name."""
    name: str
    a: object
    b: object


def pack_differences(a: Pack, b: Pack) -> list[Difference]:
    """Everything in which two packs differ, what matters most first; empty for packs of one identity and signer."""
    return [
        *_values("task", _task(a), _task(b)),
        *_values("model", _models(a), _models(b)),
        *_values("vote", _vote(a), _vote(b)),
        *_values("graph", _graphs(a), _graphs(b)),
        *_weights(a, b),
        *_values("file", _files(a), _files(b)),
        *_values("producer", dict(a.manifest.producers), dict(b.manifest.producers)),
        *_values("signature", {"key": _signer(a)}, {"key": _signer(b)}),
        *_values("name", {"name": a.manifest.name}, {"name": b.manifest.name}),
    ]


def _values(part: str, a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Difference]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield Difference(part, name, a.get(name), b.get(name))


def _task(pack: Pack) -> dict[str, object]:
    task = msgspec.to_builtins(pack.manifest.task)
    frontend = {f"frontend.{name}": value for name, value in task.pop("frontend").items()}
    return {**task, **frontend, "plugin": pack.manifest.plugin}


def _models(pack: Pack) -> dict[str, object]:
    """Shape of every tensor, and how it is drawn, by model and tensor; those of a vote, too."""
    return {
        f"{name}/{spec.name}": [list(spec.shape), spec.layer, spec.bound, spec.centre]
        for name, specs in pack.manifest.architectures.items()
        for spec in specs
    }


def _vote(pack: Pack) -> dict[str, object]:
    """Model, share, window and front-end of a vote, with its network; empty without one."""
    vote = pack.manifest.vote
    if vote is UNSET:
        return {}
    said: dict[str, object] = msgspec.to_builtins(vote)
    frontend: dict[str, object] = msgspec.to_builtins(vote.frontend)
    del said["frontend"]
    return {**said, **{f"frontend.{name}": value for name, value in frontend.items()}}


def _graphs(pack: Pack) -> dict[str, object]:
    return {graph.file: _graph(pack, graph) for graph in pack.manifest.graphs}


def _graph(pack: Pack, graph: Graph) -> dict[str, object]:
    """How a graph is declared, and how many operators and numbers it has."""
    where = f"The graph {graph.file} of the pack {pack.manifest.name}"
    try:
        model = read_model(pack.files[graph.file], where)
        content: dict[str, object] = {
            "nodes": len(model.nodes),
            "constants": sum(tensor.array.size for tensor in model.initialisers),
        }
    except PackError as error:
        content = {"unsound": str(error)}
    return {**msgspec.to_builtins(graph), **content, "bytes": len(pack.files[graph.file])}


def _weights(a: Pack, b: Pack) -> Iterator[Difference]:
    """Trained weights: where they come from, and the largest difference of any of them."""
    for model in dict.fromkeys([*a.manifest.start, *b.manifest.start]):
        ours, theirs = (pack.manifest.start.get(model) for pack in (a, b))
        yield from _values("weights", {model: msgspec.to_builtins(ours)}, {model: msgspec.to_builtins(theirs)})
        if ours is None or theirs is None or a.files[ours.file] == b.files[theirs.file]:
            continue
        one, two = (_owner(pack, model) for pack in (a, b))
        if one.tables[model].specs == two.tables[model].specs:
            largest = float(np.abs(start_weights(one, model) - start_weights(two, model)).max())
            yield Difference("weights", f"{model}: largest absolute difference", 0.0, largest)


def _owner(pack: Pack, model: str) -> Pack:
    """The pack, or its vote as one, that has a model's tensor table."""
    return pack if pack.voter is None or model in pack.tables else pack.voter


def _files(pack: Pack) -> dict[str, object]:
    return {entry.path: f"{entry.sha256[:12]} {entry.bytes} bytes" for entry in pack.manifest.files}


def _signer(pack: Pack) -> str | None:
    return None if pack.signature is None else pack.signature.key


def describe(difference: Difference) -> str:
    """A difference as a line: `part name: a -> b`, with of two objects only the fields in which they differ."""
    return "".join(c if c.isprintable() else "?" for c in _describe(difference))


def _describe(difference: Difference) -> str:
    a, b = difference.a, difference.b
    if isinstance(a, dict) and isinstance(b, dict):
        other = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
        changes = "; ".join(f"{key} {_short(a.get(key))} -> {_short(b.get(key))}" for key in other)
        return f"{difference.part} {difference.name}: {changes}"
    if a is None:
        return f"{difference.part} {difference.name}: only in the second"
    if b is None:
        return f"{difference.part} {difference.name}: only in the first"
    return f"{difference.part} {difference.name}: {_short(a)} -> {_short(b)}"


def _short(value: object) -> str:
    text = "nothing" if value is None else " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
