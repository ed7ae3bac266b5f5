"""What trained weights are worth: how a device listens with them, what they hear of the test part, and clip by clip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.hearing.rule import Rule
from auricle.packs.manifest import UNKNOWN, Listening, Start
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle_export.pretrain.corpus import Corpus, Heard, Progress
from auricle_export.pretrain.listening import command_streams, hearing_of
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.second_stage import Measured, Sound, Staged, best_ruled, compare_stages
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.streams import Recognise, Streams, make_streams
from auricle_export.pretrain.trained import TrainingInterrupted
from auricle_export.pretrain.training import Stopped

_BATCH = 256


def judge_clips(heard: Heard, labels: Sequence[str], frontend: LogMel, recognise: Recognise) -> tuple[int, int]:
    """How many of one part's single words get their label, `_unknown_` where they are no keyword, and of how many."""
    takes = (*heard.keywords, *heard.others, *heard.languages)
    unknown = labels.index(UNKNOWN)
    targets = np.full(len(takes), unknown)
    targets[: len(heard.keywords)] = [labels.index(take.word) for take in heard.keywords]
    right = 0
    for start in range(0, len(takes), _BATCH):
        audio = np.stack([_middle(take.sound, frontend.task.clip_samples) for take in takes[start : start + _BATCH]])
        posteriors = recognise(frontend(audio))
        right += int((posteriors.argmax(axis=1) == targets[start : start + _BATCH]).sum())
    return right, len(takes)


def _middle(sound: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """The middle (length,) of a recording, with zeros around what is shorter."""
    spare = length - len(sound)
    if spare >= 0:
        return np.pad(sound, (spare // 2, spare - spare // 2))
    return sound[-spare // 2 : -spare // 2 + length]


CHOOSING_TIMES, JUDGING_TIMES = 16, 10
"""How often the sound without keywords is heard in other noise: to choose thresholds, and to judge."""
VALIDATION, TEST = "validation streams", "test streams"
"""What a bar calls them."""
JUDGES = "people, readers and noises of the test part"


@dataclass(frozen=True, eq=False)
class Chosen:
    """How a device should listen."""

    listening: Listening
    streams: Streams
    """The validation streams that it was chosen on."""
    stages: tuple[Staged, ...] = ()
    """Each larger model as second stage, compared with the plug-in alone."""
    measured: Measured | None = None
    """What is heard of these streams with these thresholds; None where the plug-in is not among the models."""


def heeding(recognise: Recognise, stopped: Stopped) -> Recognise:
    """A recogniser that asks before every batch whether to stop, and then raises TrainingInterrupted."""

    def heeded(features: NDArray[np.float32]) -> NDArray[np.float32]:
        if stopped():
            raise TrainingInterrupted("Interrupted while a model was judged.")
        return recognise(features)

    return heeded


def choose(
    corpus: Corpus,
    pack: Pack,
    frontend: LogMel,
    recipe: Recipe,
    recognise: Mapping[str, Recognise],
    seed: int,
    progress: Progress = lambda *_: None,
) -> Chosen:
    """Rule and thresholds on hours of validation streams, and a second stage where one hears more.

    Parameters
    ----------
    recognise
        The trained models; thresholds are for the plug-in where it is among them, else for the first.
    progress
        Told how far it is.
    """
    streams = make_streams(
        corpus.validation, pack.labels, frontend, seed + 1, negatives=CHOOSING_TIMES, what=VALIDATION, progress=progress
    )
    commands = command_streams(corpus.validation, streams, recipe.wake, seed) if recipe.wake else None

    def heard(model: str) -> Sound:
        said = None if commands is None else commands.posteriors(recognise[model])
        return Sound(streams, streams.posteriors(recognise[model]), commands, said)

    plugin = pack.manifest.plugin
    if plugin not in recognise:
        return Chosen(heard(next(iter(recognise))).listening(recipe.wake), streams)
    first, size = best_ruled(heard(plugin), recipe.wake), pack.table(plugin).size
    rule, larger = first.streams.rule, [model for model in recognise if pack.table(model).size > size]
    stages = tuple(compare_stages(first, heard(model).ruled(rule), model, recipe.wake) for model in larger)
    taken = max((stage for stage in stages if stage.taken), key=lambda stage: stage.both.heard, default=None)
    if taken is not None:
        return Chosen(taken.listening, first.streams, stages, taken.both)
    listening = first.listening(recipe.wake)
    return Chosen(listening, first.streams, stages, first.measured(listening))


def judge(
    corpus: Corpus,
    pack: Pack,
    frontend: LogMel,
    recipe: Recipe,
    models: Iterable[str],
    recognise: Mapping[str, Recognise],
    rule: Rule,
    seed: int,
    progress: Progress = lambda *_: None,
) -> dict[str, Start]:
    """What the manifest says of each model, on people of the test part, heard by this rule."""
    streams = make_streams(
        corpus.test, pack.labels, frontend, seed, negatives=JUDGING_TIMES, rule=rule, what=TEST, progress=progress
    )
    starts = {}
    for model in models:
        right, judged = judge_clips(corpus.test, pack.labels, frontend, recognise[model])
        starts[model] = Start(
            file=f"weights/{state_file(model)}",
            data=recipe.data(),
            clips=corpus.clips,
            speakers=corpus.speakers,
            accuracy=round(right / judged, 4),
            judged_clips=judged,
            seed=seed,
            hearing=hearing_of(streams.counts(recognise[model]), JUDGES),
            attribution=recipe.named() or UNSET,
            speech=corpus.digest,
        )
    return starts
