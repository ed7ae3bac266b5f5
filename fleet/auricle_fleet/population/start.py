"""What the models of a run start from, and how good the first one is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from auricle.packs.first_weights import choose_weights
from auricle.process.times import how_many
from auricle.speech.corpora import folder_of
from auricle.wire.tensors import Flat
from auricle_edge.training.judge.comparison import Heard
from auricle_fleet.population.central import CentralTraining, coordinator_clips
from auricle_fleet.population.data import FleetData, Progress
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.run_model import read_plugin, write_plugin
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.start_from import model_file
from auricle_fleet.settings.units import percent
from auricle_learning.presets import Preset

Say = Callable[[str], None]


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
    precision: tuple[float, ...] | None = None
    """Of keywords at each of `RECALLS`, likewise."""
    heard_before: bool = False
    """Whether its weights were trained on recordings of the run's own folder."""


def first_model(
    settings: FleetSettings, data: FleetData, judging: FleetJudging, kept: Path, say: Say, progress: Progress
) -> Start:
    """Take the first model from the pack or another run, train it on the coordinator's clips, judge it, and say so.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    kept
        File for a first model of another run or of this training: a run that goes on takes it from there.
    say, progress
        Told what it is, and how far its training is.

    Raises
    ------
    PackError
        As of `started` and `read_plugin`.
    StorageError
        A file cannot be read or written.
    """
    weights = started(data, settings, data.pack.manifest.plugin, settings.seed)
    for model in {*settings.architectures(data.pack), *settings.own_models(settings.groups, data.pack)}:
        started(data, settings, model, settings.seed)  # the devices' own: refused before anything is begun
    origin = data.origin or data.pack
    trained = weights is not None and all(word in origin.labels for word in data.pack.labels)
    start = Start(settings.preset_for(trained=trained))
    if weights is not None:
        heard = origin.manifest.start[data.pack.manifest.plugin].data
        start = replace(start, heard_before=folder_of(settings.data).resolve().name in heard)
        warning = ": these voices were heard before, so the figures flatter" if start.heard_before else ""
        say(f"models start from weights trained on {heard}{warning}")
    if model_file(settings.start) is not None or settings.pretrain:
        weights = _of_run(settings, data, judging, weights, kept, say, progress)
    if weights is not None:
        accuracy, accepts = judging.accuracy(weights), judging.false_accepts(weights)
        precision = judging.precision(weights)
        start = replace(start, weights=weights, accuracy=accuracy, accepts=accepts, precision=precision)
        say(f"before the first round the shared plug-in recognises {percent(accuracy)} of the unseen speakers' clips")
    say(str(start.preset.rates()))
    return start


def _of_run(
    settings: FleetSettings,
    data: FleetData,
    judging: FleetJudging,
    weights: Flat | None,
    kept: Path,
    say: Say,
    progress: Progress,
) -> Flat:
    """The first model of another run, or trained before the first round, from weights (P,) or noise; once a run."""
    if settings.own_start == "scratch":
        say("devices' own models start from noise: only the shared plug-in is trained before the first round")
    if kept.exists():
        return read_plugin(kept, data.pack)
    file, notes = model_file(settings.start), {"round": "0"}
    if file is not None:
        weights = read_plugin(file, data.pack)
        say(f"the shared plug-in starts from {file}")
    if settings.pretrain:
        clips = coordinator_clips(settings, data)
        say(f"the shared plug-in is trained on {how_many(len(clips), 'labelled clip')} of the coordinator")
        training = CentralTraining(judging.runtime, settings.seed, data.devices[0][1].noise, judging.learn)
        title = "training on the coordinator's clips"
        weights = training.train(clips, settings.pretrain, lambda done, of: progress(title, done, of), weights)
    assert weights is not None
    write_plugin(kept, data.pack, weights, notes)
    return weights


def started(data: FleetData, settings: FleetSettings, model: str, seed: int) -> Flat | None:
    """The trained weights (P,) that a model starts from where the run starts from its pack; else None.

    Raises
    ------
    PackError
        The pack has no trained weights of this model.
    """
    return choose_weights(settings.own_start, data.pack, model, seed, data.origin)
