"""The vote of a pack, by its manifest: checked, taken out, or as the manifest of a pack of its own."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.graph_interface import FRONTENDS, FilePath, Graph
from auricle.packs.manifest import SAMPLE_RATE, WINDOWS, Manifest, Task, Vote


def check_vote(manifest: Manifest) -> None:
    """Refuse a vote that cannot be heard beside the pack's own models; nothing without one.

    Raises
    ------
    PackError
        Its model is not there, is one of the pack's own, has no trained weights or other graphs than `evaluate`; its
        share or window is out of range; or the pack's own front-end has a network already.
    """
    vote, name = manifest.vote, manifest.name
    if vote is UNSET:
        return
    second = UNSET if manifest.listening is UNSET else manifest.listening.second_stage
    if vote.model not in manifest.architectures or vote.model in (manifest.plugin, second):
        raise PackError(
            f"The vote of the pack {name} names {vote.model}, which is not a model beside its plug-in and second "
            "stage: name one that it describes."
        )
    if vote.model not in manifest.start:
        raise PackError(
            f"The vote of the pack {name} is {vote.model}, which has no trained weights: put some in start."
        )
    kinds = {graph.kind for graph in manifest.graphs if _is_of(vote, graph)}
    others = {*manifest.ort_training, *(entry.model for entry in manifest.tflite)}
    if kinds != {"evaluate"} or vote.model in others:
        raise PackError(
            f"The vote of the pack {name}, {vote.model}, has to have a graph evaluate and nothing else: it is not "
            "trained."
        )
    if not 0 < vote.share < 1:
        raise PackError(f"The share of the vote of the pack {name} is {vote.share:g}: choose one between 0 and 1.")
    seconds = vote.clip_samples / SAMPLE_RATE
    if not WINDOWS[0] <= seconds <= WINDOWS[1]:
        raise PackError(
            f"The vote of the pack {name} has a window of {seconds:g} s, which is not from {WINDOWS[0]:g} to "
            f"{WINDOWS[1]:g} s."
        )
    network = vote.frontend.network
    if network is not UNSET and vote.frames >= network.field and (vote.frames - network.field) % network.stride:
        raise PackError(
            f"The window of the vote of the pack {name} has {vote.frames} frames, which are not whole vectors of "
            f"{network.name}: take {network.field} and a multiple of {network.stride}."
        )
    if manifest.task.frontend.network is not UNSET:
        raise PackError(
            f"The pack {name} has a vote and a network in its own front-end: a vote is for packs that hear log-mels."
        )


def voter_manifest(manifest: Manifest) -> Manifest | None:
    """The vote's manifest as of a pack whose plug-in it is; None without a vote."""
    vote = manifest.vote
    if vote is UNSET:
        return None
    graphs = tuple(graph for graph in manifest.graphs if graph.kind in FRONTENDS or _is_of(vote, graph))
    files = _files(manifest, vote)
    task = Task(manifest.task.labels, manifest.task.sample_rate, vote.clip_samples, vote.frames, vote.frontend)
    return msgspec.structs.replace(
        manifest,
        task=task,
        plugin=vote.model,
        architectures={vote.model: manifest.architectures[vote.model]},
        graphs=graphs,
        files=tuple(entry for entry in manifest.files if entry.path in files),
        start={vote.model: manifest.start[vote.model]},
        ort_training={},
        tflite=(),
        listening=UNSET,
        negatives=UNSET,
        vote=UNSET,
    )


def without_vote(manifest: Manifest) -> Manifest:
    """The manifest without its vote and what only this needs; the same where it has none."""
    vote = manifest.vote
    if vote is UNSET:
        return manifest
    gone = _files(manifest, vote)
    return msgspec.structs.replace(
        manifest,
        architectures={name: specs for name, specs in manifest.architectures.items() if name != vote.model},
        graphs=tuple(graph for graph in manifest.graphs if graph.file not in gone),
        files=tuple(entry for entry in manifest.files if entry.path not in gone),
        start={name: start for name, start in manifest.start.items() if name != vote.model},
        vote=UNSET,
    )


def _is_of(vote: Vote, graph: Graph) -> bool:
    """Whether a graph takes the vote's model."""
    return graph.kind not in FRONTENDS and vote.model in (graph.model, graph.plugin)


def _files(manifest: Manifest, vote: Vote) -> set[FilePath]:
    """The files that the vote needs: of its model, and of its front-end's network."""
    network = vote.frontend.network
    files = {graph.file for graph in manifest.graphs if graph.kind in FRONTENDS or _is_of(vote, graph)}
    return files | {manifest.start[vote.model].file} | (set() if network is UNSET else {network.file})
