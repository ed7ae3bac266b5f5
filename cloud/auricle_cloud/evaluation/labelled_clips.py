"""An operator's labelled clips for rules that learn from them: loss and gradient of a model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.packs.graph_interface import PARTS, SCALARS
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.evaluator import open_session
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.cohort import Float64Array
from auricle_learning.aggregation.extras import Objective

NEUTRAL = {"rate": 0.0, "momentum": 0.0, "decay": 0.0, "clip": np.inf}
"""Of a step that changes nothing and leaves the gradient in the momentum."""


@dataclass(frozen=True)
class LabelledClips:
    """What a coordinator may learn from."""

    objectives: Sequence[Objective] = ()
    """A batch each; empty without clips."""
    count: int = 0
    """Clips in all."""


def labelled_clips(pack: Pack, clips: ValidationSet, seed: int = 0) -> LabelledClips:
    """Clips in batches of the pack's step graph, in an order that the seed decides.

    A gradient is the momentum after one step of plain SGD from momentum 0, of the pack's own `supervised` graph on
    onnxruntime; where a model has dropout its masks are the same at every call.

    Parameters
    ----------
    pack
        Gives graph and plug-in.
    clips
        What to learn from; its last batch may have fewer.
    seed
        Of order and masks.

    Raises
    ------
    PackError
        The pack has no such graph, or it is not sound.
    AuricleError
        onnxruntime is not installed.
    """
    graph = pack.graph("supervised", pack.manifest.plugin, "sgd")
    assert graph.batch is not None
    session, table = open_session(pack, graph), pack.plugin_table
    outputs = ["loss", *(f"new/model.momentum/{part}" for part in PARTS)]
    zeros = np.zeros(table.size, np.float32)
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray[np.float32]] = {
        **{f"model.{name}": np.array(NEUTRAL[name], np.float32) for name in SCALARS["sgd"]},
        **dict(zip((f"model.momentum/{part}" for part in PARTS), table.parts(zeros), strict=True)),
        **{name: rng.random(shape, np.float32) for name, shape in sorted(graph.noise.items())},
        **{name: np.zeros(shape, np.float32) for name, shape in graph.state.items()},
    }

    def run(weights: Flat, batch: dict[str, NDArray[np.float32]]) -> tuple[float, Float64Array]:
        model = zip((f"model/{part}" for part in PARTS), table.parts(weights), strict=True)
        loss, *parts = session.run(outputs, {**feeds, **batch, **dict(model)})
        return float(loss), table.join(*parts).astype(np.float64)

    order, size = rng.permutation(len(clips)), graph.batch
    batches = [order[start : start + size] for start in range(0, len(clips), size)]
    return LabelledClips([_objective(run, _batch(clips, rows, size, len(pack.labels))) for rows in batches], len(clips))


def _objective(
    run: Callable[[Flat, dict[str, NDArray[np.float32]]], tuple[float, Float64Array]],
    batch: dict[str, NDArray[np.float32]],
) -> Objective:
    return lambda weights: run(np.asarray(weights, np.float32), batch)


def _batch(clips: ValidationSet, rows: NDArray[np.int64], size: int, labels: int) -> dict[str, NDArray[np.float32]]:
    """A batch of the graph's size; clips of weight 0 fill it."""
    filled = np.resize(rows, size)
    weight = (np.arange(size) < len(rows)).astype(np.float32)
    return {
        "x": clips.features[filled],
        "target": np.eye(labels, dtype=np.float32)[clips.targets[filled]],
        "weight": weight,
    }
