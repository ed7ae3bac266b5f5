"""Pictures of a run's models (MuPFL, figures 4 and 10): where the shared one looks, and devices' models by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import StorageError
from auricle.files import describe, write_durably
from auricle.packs.graph_interface import has_maps, map_names
from auricle.packs.pack import Pack
from auricle_fleet.population.last_round import LastRound
from auricle_fleet.results.png import png_of, why_not
from auricle_fleet.results.scatter import scatter_chart, small_maps

Maps = NDArray[np.float64]
NUMBERS = "pictures.json"


def principal_components(weights: NDArray[np.float32]) -> tuple[Maps, Maps]:
    """Two principal components of models (K, P): coordinates (K, 2), and the share of the variance of each (2,).

    Of K models fewer than two components may differ: the others are 0. The coordinate furthest from 0 is above it.
    """
    centred = weights.astype(np.float64) - weights.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred @ centred.T)  # (K, K): there are fewer devices than weights
    largest = np.argsort(values)[::-1][:2]
    found = vectors[:, largest] * np.sqrt(np.maximum(values[largest], 0))
    found *= np.sign(np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0) + 1e-300)
    share = np.maximum(values[largest], 0) / (np.maximum(values, 0).sum() or 1.0)
    empty = np.zeros((len(weights), 2 - len(largest)))
    return np.concatenate([found, empty], axis=1), np.concatenate([share, empty[0] * 0])


def first_layer(pack: Pack, maps: NDArray[np.float32]) -> Maps:
    """(K, A, B) of the maps (K, M) those of the first layer of the plug-in that drops activations."""
    plugin = pack.manifest.plugin
    graph, role = next(
        (graph, role)
        for graph in pack.manifest.graphs
        for role in ("model",) * (graph.model == plugin) + ("plugin",)
        if has_maps(graph, role)
    )
    shape = graph.state[map_names(graph, role)[0]]
    return maps[:, : math.prod(shape)].astype(np.float64).reshape(len(maps), shape[0], -1)


def write_pictures(folder: Path, pack: Pack, last: LastRound | None, looks: Maps, said: str) -> None:
    """Write the pictures of a run as SVG, and PNG where that can be, and the numbers behind them.

    Parameters
    ----------
    last
        Its newest round; None where none made a model.
    looks
        (L, A, B) of `occlusion`.
    said
        What the run was, for subtitles.

    Raises
    ------
    StorageError
        They cannot be written.
    """
    numbers: dict[str, object] = {"labels": pack.labels, "occlusion": looks.tolist()}
    drawn = {"occlusion": _occlusion_picture(pack.labels, looks, said)}
    if last is not None:
        coordinates, share = principal_components(last.weights)
        numbers |= {"round": last.number, "devices": last.devices, "groups": last.groups}
        numbers |= {"coordinates": coordinates.tolist(), "variance": share.tolist()}
        drawn["models"] = _models_picture(last, coordinates, share, said)
        if last.maps is not None:
            maps = first_layer(pack, last.maps)
            numbers["activations"] = maps.tolist()
            drawn["activations"] = _activation_picture(last, maps, said)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    has_png = not why_not()
    for name, svg in drawn.items():
        write_durably(folder / f"{name}.svg", svg.encode())
        if has_png:
            write_durably(folder / f"{name}.png", png_of(svg))
    write_durably(folder / NUMBERS, msgspec.json.encode(numbers) + b"\n")


def _models_picture(last: LastRound, coordinates: Maps, share: Maps, said: str) -> str:
    group = [last.groups.get(name) for name in last.devices]
    names: dict[int | None, str] = {None: "devices"}
    names |= {number: f"group {number}" for number in sorted({*last.groups.values()})}
    points = {
        name: coordinates[[place for place, of in enumerate(group) if of == number]]
        for number, name in names.items()
        if number in group
    }
    axes = [f"component {place + 1}, {100 * part:.0f} % of the variance" for place, part in enumerate(share)]
    title = f"Models that devices sent in round {last.number}, by group"
    return scatter_chart(title, said, points, (axes[0], axes[1]))


def _occlusion_picture(labels: Sequence[str], looks: Maps, said: str) -> str:
    maps = [(label, found) for label, found in zip(labels, looks, strict=True) if np.isfinite(found).all()]
    scale = max((float(found.max()) for _, found in maps), default=0.0)
    title = "What a hidden part of a clip costs the posterior of its word"
    return small_maps(title, f"{said}; time to the right, frequency upwards, darkest {scale:.2g}", maps, scale)


def _activation_picture(last: LastRound, maps: Maps, said: str) -> str:
    def name(place: int) -> str:
        device = last.devices[place]
        return device if device not in last.groups else f"{device}, group {last.groups[device]}"

    order = sorted(range(len(maps)), key=lambda place: (last.groups.get(last.devices[place], -1), last.devices[place]))
    title = f"Activation maps of the first layer that drops, by device, round {last.number}"
    shown = [(name(place), maps[place]) for place in order]
    return small_maps(title, f"{said}; time to the right, each from its least to its largest", shown)
