"""From a recipe and a folder of recordings to a pack that listens: models, thresholds, curve and negatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET

from auricle.errors import PackError, SettingsError
from auricle.hearing.scenes import Scene
from auricle.manifest import FileEntry, Listening, Start
from auricle.pack import Pack
from auricle.speech.features import Energies, LogMel
from auricle.speech.words import SILENCE, UNKNOWN
from auricle.start import start_file
from auricle_export.negatives import with_negatives
from auricle_export.pretrain.clips import judge_clips
from auricle_export.pretrain.corpus import Corpus, make_corpus
from auricle_export.pretrain.listening import choose_listening, command_streams, hearing_of
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.modules import Modules
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.settings import LiveSettings, Trained, TrainingInterrupted
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.streams import Recognise, Streams, make_streams
from auricle_export.pretrain.task import Watch, models_of
from auricle_export.pretrain.training import Stopped

WATCHING, CHOOSING, JUDGING = 10, 16, 10
"""How often the sound without keywords is heard in other noise: while training, to choose thresholds and to judge."""
CARRIED = 120
"""Seconds of each kind of sound without keywords that the pack carries."""


@dataclass(frozen=True)
class LiveTask:
    """What to do."""

    recipe: Recipe
    data: Path
    """The folder of recordings."""
    folder: Path
    """Keeps an interrupted training."""
    settings: LiveSettings


@dataclass(frozen=True, eq=False)
class LivePack:
    """What came of it."""

    pack: Pack
    trained: Mapping[str, Trained]
    corpus: Corpus
    listening: Listening


def pretrain_live(
    pack: Pack,
    task: LiveTask,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> LivePack:
    """Train models of a pack by a recipe and put weights, thresholds, curves and negatives into it.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        Data, settings, state or pack are not as they have to be, in a sentence.
    """
    watch, recipe, seed = watch or Watch(), task.recipe, task.settings.seed
    models = models_of(tuple(recipe.epochs), pack)
    _refuse_labels(pack, recipe)

    def step(what: str, done: int, total: int) -> None:
        if stopped():
            raise TrainingInterrupted("The training was interrupted.")
        watch.step(what, done, total)

    frontend = LogMel(pack.manifest.task)
    corpus = make_corpus(recipe.sources(task.data), pack.labels, frontend, seed, step)
    streams = make_streams(corpus.validation, pack.labels, frontend, seed, negatives=WATCHING)
    trained: dict[str, Trained] = {}
    total = sum(pack.table(name).size for name in models)
    for model in models:
        watch.begin(model, pack.table(model).size, total)
        settings = replace(task.settings, epochs=recipe.epochs[model], steps=recipe.steps)
        trained[model] = train_live(
            model, pack, corpus, streams, settings, task.folder, modules=modules, report=watch.epoch, stopped=stopped
        )
    recognise = {name: recogniser_of(name, pack, result.weights, modules) for name, result in trained.items()}
    plugin = pack.manifest.plugin if pack.manifest.plugin in trained else models[0]
    listening, validation = _choose(corpus, pack, frontend, recipe, recognise[plugin], seed)
    starts = _judge(corpus, pack, frontend, recipe, trained, recognise, seed)
    done = with_starts(pack, starts, trained, listening)
    done = with_negatives(done, carried(validation))
    for model in models:
        watch.judged(model, trained[model], starts[model])
    return LivePack(done, trained, corpus, listening)


def _refuse_labels(pack: Pack, recipe: Recipe) -> None:
    if not {UNKNOWN, SILENCE} <= set(pack.labels):
        raise SettingsError(
            f"The pack {pack.manifest.name} has no labels {UNKNOWN} and {SILENCE}, without which nothing can be told "
            "from a keyword: build one that has them."
        )
    for word in recipe.wake:
        if word not in pack.labels:
            raise SettingsError(f'The recipe\'s wake word "{word}" is not a label of the pack {pack.manifest.name}.')


def _choose(
    corpus: Corpus, pack: Pack, frontend: LogMel, recipe: Recipe, recognise: Recognise, seed: int
) -> tuple[Listening, Streams]:
    """Thresholds on hours of validation streams."""
    streams = make_streams(corpus.validation, pack.labels, frontend, seed + 1, negatives=CHOOSING)
    commands = command_streams(corpus.validation, streams, recipe.wake, seed) if recipe.wake else None
    return choose_listening(streams, commands, recognise, recipe.wake), streams


def _judge(
    corpus: Corpus,
    pack: Pack,
    frontend: LogMel,
    recipe: Recipe,
    trained: Mapping[str, Trained],
    recognise: Mapping[str, Recognise],
    seed: int,
) -> dict[str, Start]:
    """What the manifest says of each model, on people of the test part."""
    streams = make_streams(corpus.test, pack.labels, frontend, seed, negatives=JUDGING)
    starts = {}
    for model in trained:
        right, judged = judge_clips(corpus.test, pack.labels, frontend, recognise[model])
        starts[model] = Start(
            file=f"weights/{state_file(model)}",
            data=f"recordings of people in {', '.join(recipe.words)}, and espeak-ng",
            clips=corpus.clips,
            speakers=corpus.speakers,
            accuracy=round(right / judged, 4),
            judged_clips=judged,
            seed=seed,
            hearing=hearing_of(streams.counts(recognise[model]), "people, readers and noises of the test part"),
            attribution=recipe.attribution or UNSET,
        )
    return starts


def with_starts(pack: Pack, starts: Mapping[str, Start], trained: Mapping[str, Trained], listening: Listening) -> Pack:
    """The pack with these models' weights as float16 safetensors and with thresholds; its signature is left out.

    Raises
    ------
    PackError
        Two models would share a file.
    """
    both = {**pack.manifest.start, **starts}
    if len({start.file for start in both.values()}) != len(both):
        raise PackError("Two models of this pack have names that make the same file name: rename one.")
    gone = {entry.file for entry in pack.manifest.tflite if entry.model in trained}
    files = {path: data for path, data in pack.files.items() if path not in gone}
    for model, start in starts.items():
        files[start.file] = start_file(pack.table(model), trained[model].weights)
    manifest = msgspec.structs.replace(
        pack.manifest,
        start=both,
        listening=listening,
        tflite=tuple(entry for entry in pack.manifest.tflite if entry.model not in trained),
        files=tuple(FileEntry.of(path, data) for path, data in sorted(files.items())),
    )
    return Pack(manifest, files)


def carried(streams: Streams, seconds: int = CARRIED) -> list[tuple[str, Energies]]:
    """The first stretch of each kind of sound without keywords, for the pack: rounds on devices are judged on it."""
    found: dict[str, Energies] = {}
    frames = seconds * streams.frontend.task.sample_rate // streams.frontend.task.frontend.hop
    for scene, energies in zip(streams.scenes, streams.energies, strict=True):
        kind = _kind(scene)
        if kind is not None and len(found.get(kind, ())) < frames:
            found[kind] = np.concatenate([found[kind], energies])[:frames] if kind in found else energies[:frames]
    return list(found.items())


def _kind(scene: Scene) -> str | None:
    return scene.stretches[0].kind if scene.stretches and not scene.words else None
