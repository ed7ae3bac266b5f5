"""What the models of a run start from, and how good the first one is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auricle.packs.first_weights import choose_weights
from auricle.wire.tensors import Flat
from auricle_edge.training.judge.comparison import Heard
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.units import percent
from auricle_learning.presets import Preset


@dataclass(frozen=True, eq=False)
class Start:
    """The first model."""

    preset: Preset
    """As it fits this model."""
    weights: Flat | None = None
    """(P,) of the plug-in; None: drawn from the seed."""
    accuracy: float | None = None
    """On the unseen speakers' clips; None where it is drawn, or there are none."""
    accepts: Heard | None = None
    """False accepts, likewise."""
    heard_before: bool = False
    """Whether its weights were trained on recordings of the run's own folder."""


def first_model(settings: FleetSettings, data: FleetData, judging: FleetJudging, say: Callable[[str], None]) -> Start:
    """Take the first model from the pack where the run starts from it, judge it, and say so.

    Raises
    ------
    PackError
        As `started`.
    """
    weights = started(data, settings, data.pack.manifest.plugin, settings.seed)
    for model in {*settings.architectures(data.pack), *settings.own_models(settings.groups, data.pack)}:
        started(data, settings, model, settings.seed)  # the devices' own: refused before anything is begun
    known = (data.origin or data.pack).labels
    trained = weights is not None and all(word in known for word in data.pack.labels)
    start = Start(settings.preset_for(trained=trained))
    if weights is not None:
        accuracy, accepts = judging.accuracy(weights), judging.false_accepts(weights)
        heard = (data.origin or data.pack).manifest.start[data.pack.manifest.plugin].data
        again = Path(settings.data).resolve().name in heard
        start = Start(start.preset, weights, accuracy, accepts, again)
        warning = ": these voices were heard before, so the figures flatter" if again else ""
        say(f"models start from weights trained on {heard}{warning}")
        say(f"before the first round the pack's plug-in recognises {percent(accuracy)} of the unseen speakers' clips")
    say(str(start.preset.rates()))
    return start


def started(data: FleetData, settings: FleetSettings, model: str, seed: int) -> Flat | None:
    """The trained weights (P,) that a model of a run starts from; None where it starts from noise.

    Raises
    ------
    PackError
        The run is to start from the pack, and the pack has no trained weights of this model.
    """
    return choose_weights(settings.start, data.pack, model, seed, data.origin)
