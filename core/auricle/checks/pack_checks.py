"""Everything in a pack judged at once: what `auricle export verify` prints, and what a server may ask before it serves.

Reading a pack has checked its manifest, files and signature. Graphs and weights are judged when they are first used,
which keeps a board's start short; here they are judged all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec import UNSET

from auricle.checks.graph_check import check_foreign_graph, check_graph
from auricle.checks.tflite_check import check_tflite
from auricle.checks.tflite_weights import check_buffers, tensors_of
from auricle.errors import PackError
from auricle.packs.manifest import Tflite
from auricle.packs.pack import Pack
from auricle.packs.start import network_tensors, start_weights

TRAINING_DOMAINS = ("com.microsoft",)
"""Operators that onnxruntime-training brings along."""


@dataclass(frozen=True)
class Check:
    """What was judged."""

    kind: str
    """graph, weights, tflite or ort-training."""
    file: str
    reason: str | None
    """Why it is refused; None: it is sound."""


def checks_of(pack: Pack) -> Iterator[Check]:
    """Judge every graph, every file of weights and every artifact of another runtime, in the manifest's order."""
    manifest, voter = pack.manifest, pack.voter
    votes = () if voter is None else {graph.file for graph in voter.manifest.graphs}
    for graph in manifest.graphs:
        judged = voter if voter is not None and graph.file in votes else pack
        yield _check("graph", graph.file, partial(check_graph, judged, graph))
    network = manifest.network
    if network is not UNSET:
        yield _check("weights", network.file, partial(network_tensors, voter or pack))
    for model, start in manifest.start.items():
        judged = pack if voter is None or model in pack.tables else voter
        yield _check("weights", start.file, partial(start_weights, judged, model))
    for entry in manifest.tflite:
        yield _check("tflite", entry.file, partial(_check_inference, pack, entry))
    for artifacts in manifest.ort_training.values():
        for file in (artifacts.training, artifacts.evaluation, *artifacts.optimizers.values()):
            yield _check("ort-training", file, partial(_check_training, pack, file))


def require_sound(pack: Pack) -> None:
    """Raise the first PackError that `checks_of` finds, if there is any."""
    for check in checks_of(pack):
        if check.reason is not None:
            raise PackError(check.reason)


def _check_inference(pack: Pack, entry: Tflite) -> None:
    """Judge a `.tflite`: its mark, where its weights lie, that they are finite, and its graph."""
    content = pack.files[entry.file]
    if content[4:8] != b"TFL3":
        raise PackError(f"The file {entry.file} of the pack {pack.manifest.name} is not a .tflite.")
    check_buffers(pack, entry)
    sizes = {spec.name: (spec.size, spec.shape[0]) for spec in tensors_of(pack, entry).specs}
    for buffer in entry.buffers:
        size, slices = sizes[buffer.tensor]
        offset, count = (buffer.offset, size) if buffer.scale is None else (buffer.scale, slices)
        if not np.isfinite(np.frombuffer(content, "<f4", count, offset)).all():
            raise PackError(
                f"The file {entry.file} of the pack {pack.manifest.name} holds weights that are not finite."
            )
    check_tflite(pack, entry)


def _check_training(pack: Pack, file: str) -> None:
    check_foreign_graph(pack.files[file], f"The graph {file} of the pack {pack.manifest.name}", TRAINING_DOMAINS)


def _check(kind: str, file: str, judge: Callable[[], object]) -> Check:
    try:
        judge()
    except PackError as error:
        return Check(kind, file, str(error))
    return Check(kind, file, None)
