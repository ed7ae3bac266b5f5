"""Whether the parts of a pack fit together: labels, models, graphs, and the files that the manifest names."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.frontend import is_sound
from auricle.packs.graph_interface import FRONTENDS, ROLES, Graph, step_inputs, step_outputs
from auricle.packs.listening import check_listening
from auricle.packs.manifest import SAMPLE_RATE, WINDOWS, Manifest, refuse_label
from auricle.packs.voter import check_vote
from auricle.wire.tensors import TensorTable

DOCUMENTS = ("license", "license.txt", "notice", "notice.txt", "readme.md", "readme.txt")
"""Files that a pack may list though nothing in it refers to them."""


def check_interfaces(manifest: Manifest, tables: Mapping[str, TensorTable], files: Mapping[str, bytes]) -> None:
    """Refuse a pack whose parts do not fit together.

    Raises
    ------
    PackError
        A label, file or model is named twice or is not there, a label has not the form of one, the pack is for another
        sample rate than 16 kHz, its window is too short or too long, a graph has not the interface of its kind, or its
        vote is not one (`check_vote`).
    """
    labels = len(manifest.task.labels)
    if len(set(manifest.task.labels)) != labels:
        raise PackError(f"The pack {manifest.name} has a label twice.")
    for label in manifest.task.labels:
        refuse_label(label, f"the pack {manifest.name}")
    rate, seconds = manifest.task.sample_rate, manifest.task.seconds
    if rate != SAMPLE_RATE:
        raise PackError(
            f"The pack {manifest.name} is for sound at {rate:,} Hz, and all sound is heard at {SAMPLE_RATE:,} Hz: "
            "build it again for that."
        )
    if not WINDOWS[0] <= seconds <= WINDOWS[1]:
        raise PackError(
            f"The pack {manifest.name} has a window of {seconds:g} s, which is not from {WINDOWS[0]:g} to "
            f"{WINDOWS[1]:g} s: build it again with another --window."
        )
    if manifest.plugin not in tables:
        raise PackError(f"The pack {manifest.name} names a plug-in {manifest.plugin} that it does not describe.")
    for name, table in tables.items():
        if table.specs[-2].shape[0] != labels or table.specs[-1].shape != (labels,):
            raise PackError(f"The classifier of {name} in the pack {manifest.name} is not one for {labels} labels.")
    check_vote(manifest)
    for graph in manifest.graphs:
        known = graph.kind in FRONTENDS or graph.model in tables
        if graph.file not in files or not known:
            raise PackError(f"A graph of the pack {manifest.name} names a file or model that is not there.")
        _check_graph(manifest, graph)
    _check_network(manifest)
    if len({graph.file for graph in manifest.graphs}) != len(manifest.graphs):
        raise PackError(f"Two graphs of the pack {manifest.name} share a file.")
    _check_references(manifest, tables, files)
    check_listening(manifest, files)


def _check_references(manifest: Manifest, tables: Mapping[str, TensorTable], files: Mapping[str, bytes]) -> None:
    """Whatever the manifest refers to is there, and whatever is there is referred to."""
    own = manifest.task.frontend.network
    run = {entry.model for entry in manifest.tflite} - (set() if own is UNSET else {own.name})
    models = {*manifest.start, *manifest.ort_training, *run}
    named = {graph.file for graph in manifest.graphs} | {start.file for start in manifest.start.values()}
    named |= {entry.file for entry in manifest.tflite}
    named |= set() if manifest.negatives is UNSET else {manifest.negatives.file}
    named |= set() if manifest.network is UNSET else {manifest.network.file}
    for training in manifest.ort_training.values():
        named |= {training.training, training.evaluation, training.checkpoint, *training.optimizers.values()}
    missing = sorted(models - set(tables)) + sorted(named - set(files))
    if missing:
        raise PackError(f"The pack {manifest.name} refers to {missing[0]}, which is not there.")
    stray = sorted(set(files) - named - set(DOCUMENTS))
    if stray:
        raise PackError(f"The pack {manifest.name} lists {stray[0]}, which nothing in it refers to.")


def _check_network(manifest: Manifest) -> None:
    """A front-end's network has its two graphs, and its field fits the window; there is no graph of one without it."""
    network = manifest.network
    kinds = sorted(graph.kind for graph in manifest.graphs if graph.kind in FRONTENDS)
    if kinds != ([] if network is UNSET else list(FRONTENDS)):
        raise PackError(f"The pack {manifest.name} needs two graphs for the network of its front-end, and only then.")
    frames = manifest.task.frames if manifest.vote is UNSET else manifest.vote.frames
    if network is not UNSET and network.field > frames:
        raise PackError(
            f"The network of the pack {manifest.name} looks at {network.field} frames, and its window has "
            f"{frames}: build it again with a longer window."
        )


def _check_graph(manifest: Manifest, graph: Graph) -> None:
    """A graph takes its batch and its models, and gives back each model and optimizer vector it changes."""
    if graph.kind in FRONTENDS:
        network = manifest.network
        if network is UNSET or not is_sound(network, graph):
            raise PackError(
                f"The {graph.kind} graph {graph.file} of the pack {manifest.name} is not one of its network: rebuild "
                "the pack."
            )
        return
    step = graph.trains
    sound = (graph.optimizer is not None) == step and (graph.batch is not None or not step)
    two = len(ROLES[graph.kind]) == 2
    sound = sound and graph.plugin == (manifest.plugin if two else None)
    sound = sound and len(set(graph.terms)) == len(graph.terms) and len(set(graph.inputs)) == len(graph.inputs)
    if not (sound and list(graph.inputs) == step_inputs(graph) and list(graph.outputs) == step_outputs(graph)):
        raise PackError(
            f"The {graph.kind} graph {graph.file} of the pack {manifest.name} lacks an input or output that "
            f"such a graph has: rebuild the pack."
        )
