"""From a recipe and a folder of recordings to a pack that listens: models, thresholds, curve and negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from auricle.checks.onnx_network import frontend_of
from auricle.errors import PackError, SettingsError
from auricle.hearing.scenes import Scene
from auricle.packs.first_weights import same_but_words
from auricle.packs.manifest import SILENCE, UNKNOWN, FileEntry, Listening, Start
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_file
from auricle.speech.features import Energies
from auricle.speech.sound_faults import Finding
from auricle.speech.spelling import Spelling
from auricle_export.packs.start_weights import with_negatives, without_start
from auricle_export.pretrain.corpus import Corpus, make_corpus
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.modules import Modules
from auricle_export.pretrain.outcome import choose, heeding, judge
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.streams import Streams, make_streams
from auricle_export.pretrain.task import Watch, models_of, watch_progress
from auricle_export.pretrain.teachers import Taught, refuse_features, teachers_of
from auricle_export.pretrain.trained import Trained
from auricle_export.pretrain.training import Stopped, pytorch_threads
from auricle_export.pretrain.warm_start import WarmStart

WATCHING_TIMES = 10
"""How often the sound without keywords is heard in other noise while training."""
CARRIED_SECONDS = 120
"""Seconds of each kind of sound without keywords that the pack carries."""


@dataclass(frozen=True)
class LiveTask:
    """What to do."""

    recipe: Recipe
    data: Path | None
    """The folder that the recipe's folders are in; None where it names whole paths."""
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

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in files that could not be used, or not as they stand."""
        return self.corpus.findings


def pretrain_live(
    pack: Pack,
    task: LiveTask,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> LivePack:
    """Train models of a pack by a recipe and put weights, thresholds, curves and negatives into it.

    Weights that the pack had before leave it.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        Data, settings, state or pack are not as they have to be, in a sentence.
    """
    watch, recipe, seed = watch or Watch(), as_spelt(task.recipe, pack), task.settings.seed
    models = models_of(tuple(recipe.epochs), pack)
    refuse_labels(pack, recipe)
    pack = without_start(pack)
    start, teachers = begins_with(recipe, pack, models)
    step = watch_progress(watch, stopped)
    frontend = frontend_of(pack)
    corpus = make_corpus(recipe.sources(task.data, progress=step), pack.labels, frontend, seed, step)
    streams = make_streams(corpus.for_checkpoints, pack.labels, frontend, seed, negatives=WATCHING_TIMES)
    trained: dict[str, Trained] = {}
    total = sum(pack.table(name).size for name in models)
    for model in models:
        watch.begin(model, pack.table(model).size, total)
        settings = recipe.training(model, task.settings)
        trained[model] = train_live(
            model,
            pack,
            corpus,
            streams,
            settings,
            task.folder,
            modules=modules,
            start=start,
            teachers=teachers,
            report=watch.epoch,
            stopped=stopped,
        )
    recognise = {
        name: heeding(recogniser_of(name, pack, result.weights, modules), stopped) for name, result in trained.items()
    }
    with pytorch_threads(task.settings.threads):
        chosen = choose(corpus, pack, frontend, recipe, recognise, seed, step)
        for stage in chosen.stages:
            watch.staged(stage)
        if chosen.measured is not None:
            watch.chosen(chosen.listening, chosen.measured)
        starts = judge(corpus, pack, frontend, recipe, models, recognise, chosen.streams.rule, seed, step)
    done = with_starts(pack, starts, trained, chosen.listening)
    done = with_negatives(done, carried(chosen.streams))
    for model in models:
        watch.judged(model, trained[model], starts[model])
    return LivePack(done, trained, corpus, chosen.listening)


def begins_with(recipe: Recipe, pack: Pack, models: Sequence[str]) -> tuple[WarmStart | None, list[Taught]]:
    """The weights that a recipe's training begins with, and the models that it learns from beside the labels.

    Raises
    ------
    PackError, SettingsError
        A pack is not one, lacks trained weights, or hears other features.
    """
    teachers = teachers_of(recipe.teachers, [load_pack(name) for name in recipe.teachers], pack)
    if not recipe.start:
        return None, teachers
    start = load_pack(recipe.start)
    for model in models:
        if model not in start.manifest.start or not same_but_words(start.table(model), pack.table(model)):
            raise SettingsError(
                f"The recipe's start, {recipe.start}, has no trained weights of the shape of {model}: name a pack that "
                "has them, or leave start out."
            )
    refuse_features(f"start, {recipe.start},", start, pack)
    return WarmStart(start, body=1.0), teachers


def as_spelt(recipe: Recipe, pack: Pack) -> Recipe:
    """The recipe with its wake words as the pack has them."""
    return msgspec.structs.replace(recipe, wake=tuple(map(Spelling(pack.labels).as_known, recipe.wake)))


def refuse_labels(pack: Pack, recipe: Recipe) -> None:
    """Refuse a pack whose models cannot be trained to listen, or that lacks a wake word, with a SettingsError."""
    if not {UNKNOWN, SILENCE} <= set(pack.labels):
        raise SettingsError(
            f"The pack {pack.manifest.name} has no labels {UNKNOWN} and {SILENCE}, without which nothing can be told "
            "from a keyword: build one that has them."
        )
    for word in recipe.wake:
        if word not in pack.labels:
            raise SettingsError(f'The recipe\'s wake word "{word}" is not a label of the pack {pack.manifest.name}.')


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


def carried(streams: Streams, seconds: int = CARRIED_SECONDS) -> list[tuple[str, Energies]]:
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
