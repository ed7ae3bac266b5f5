"""A pack and a head of another, joined: the head becomes the vote of the pack."""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.graph_interface import FRONTENDS, Graph
from auricle.packs.manifest import FileEntry, Vote
from auricle.packs.pack import Pack
from auricle.packs.voter import without_vote

FOLDER = "vote"
"""Of a vote's files, and the beginning of its model's name where the pack has a model of that name."""


def with_vote(pack: Pack, voter: Pack, share: float) -> Pack:
    """The pack with the plug-in of another as its vote, in place of the vote that it may have.

    Parameters
    ----------
    pack
        A pack without a network in its front-end. Everything of it stays, but its signature.
    voter
        A pack for the same words whose plug-in has trained weights; of it come that model's graph and weights, its
        front-end, and the network of that.
    share
        Of the vote in the mean of log posteriors, between 0 and 1.

    Raises
    ------
    PackError
        The words are others or in another order, or it is not a vote (`check_vote`).
    """
    name, other = pack.manifest.name, voter.manifest
    if pack.labels != voter.labels:
        raise PackError(
            f"The packs {name} and {other.name} have not the same labels in the same order: build one again with the "
            "labels of the other."
        )
    if other.plugin not in other.start:
        raise PackError(f"The pack {other.name} has no trained weights for {other.plugin}: train it before it votes.")
    own = without_vote(pack.manifest)
    model = _free_name(other.plugin, own.architectures)
    graphs = tuple(_move_graph(graph, model) for graph in other.graphs if _votes(graph, other.plugin))
    start = msgspec.structs.replace(other.start[other.plugin], file=f"{FOLDER}/weights.safetensors")
    files = {
        f"{FOLDER}/{graph.kind}.onnx": voter.files[graph.file] for graph in other.graphs if _votes(graph, other.plugin)
    } | {start.file: voter.files[other.start[other.plugin].file]}
    frontend, network = other.task.frontend, other.task.frontend.network
    if network is not UNSET:
        frontend = msgspec.structs.replace(
            frontend, network=msgspec.structs.replace(network, file=f"{FOLDER}/network.safetensors")
        )
        files[f"{FOLDER}/network.safetensors"] = voter.files[network.file]
    manifest = msgspec.structs.replace(
        own,
        architectures={**own.architectures, model: other.architectures[other.plugin]},
        graphs=(*own.graphs, *graphs),
        files=(*own.files, *(FileEntry.of(path, content) for path, content in files.items())),
        producers={**other.producers, **own.producers},
        start={**own.start, model: start},
        vote=Vote(
            model=model,
            share=share,
            clip_samples=other.task.clip_samples,
            frames=other.task.frames,
            frontend=frontend,
        ),
    )
    return Pack(manifest, {**{entry.path: pack.files[entry.path] for entry in own.files}, **files})


def _votes(graph: Graph, model: str) -> bool:
    """Whether a pack's graph is one that its plug-in needs as a vote."""
    return graph.kind in FRONTENDS or (graph.kind == "evaluate" and graph.model == model)


def _move_graph(graph: Graph, model: str) -> Graph:
    """A graph's entry in the other pack."""
    named = graph.model if graph.kind in FRONTENDS else model
    return msgspec.structs.replace(graph, file=f"{FOLDER}/{graph.kind}.onnx", model=named)


def _free_name(wanted: str, taken: Container[str]) -> str:
    """The name of the vote's model, which no other model of the pack has."""
    while wanted in taken:
        wanted = f"{FOLDER}-{wanted}"
    return wanted
