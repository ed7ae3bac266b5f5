"""The model of an own wake word: its window, and the pack in which it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from auricle.checks.onnx_network import frontend_of
from auricle.errors import SettingsError
from auricle.hearing.splits import Part
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle_export.packs.build import assemble, trace_model
from auricle_export.packs.models import HEAD, make_module
from auricle_export.packs.network import Frozen
from auricle_export.packs.start_weights import without_start
from auricle_export.packs.window import network_task, task_of
from auricle_export.pretrain.corpus import Heard
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.outcome import heeding
from auricle_export.pretrain.streams import Recognise, make_streams
from auricle_export.pretrain.task import Watch
from auricle_export.pretrain.teachers import Taught
from auricle_export.pretrain.trained import Trained, cool
from auricle_export.pretrain.training import Stopped
from auricle_export.pretrain.warm_start import WarmStart
from auricle_export.wakeword.corpus import WakeCorpus, wake_corpus
from auricle_export.wakeword.task import MODEL, WakeTask, labels_of, name_of
from auricle_export.wakeword.voices_sound import MARGIN_SAMPLES, SpokenPart, Texts

LONGEST_SECONDS = 2.0
"""Seconds of a window at most."""

WATCHING_TIMES = 2
"""How often the sound without the phrases is heard in other noise while training."""


@dataclass(frozen=True, eq=False)
class Material:
    """What every model of a wake word learns from and is judged by, whatever its front-end."""

    task: WakeTask
    base: Pack
    """The pack whose weights a plug-in begins with."""
    commands: tuple[str, ...]
    """What comes after the phrases."""
    texts: Texts
    parts: Mapping[Part, SpokenPart]
    recorded: Mapping[Part, Heard]


@dataclass(frozen=True, eq=False)
class WakeModel:
    """A model that learnt a wake word."""

    pack: Pack
    """It begins in this one, as its plug-in."""
    trained: Trained
    corpus: WakeCorpus

    @property
    def name(self) -> str:
        """Of the model."""
        return self.pack.manifest.plugin

    @cached_property
    def frontend(self) -> LogMel:
        """What it sees sound through."""
        return frontend_of(self.pack)

    def recognise(self, stopped: Stopped) -> Recognise:
        """Recognise with it, on the CPU, until `stopped` says so."""
        return heeding(recogniser_of(self.name, self.pack, self.trained.weights), stopped)


def train_wake_model(material: Material, frozen: Frozen | None, watch: Watch, stopped: Stopped) -> WakeModel:
    """Train the plug-in, or a head over a frozen network, or go on where that was interrupted.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        A phrase takes too long to say, or the state is not as it has to be.
    """
    task, base, commands = material.task, material.base, material.commands
    labels = labels_of(task.phrases, commands)
    pack = starting_pack(base, labels, name_of(task.phrases), window_of(task, material.parts), frozen)
    model, frontend = pack.manifest.plugin, frontend_of(pack)
    corpus = wake_corpus(task, commands, pack, frontend, material.texts, material.parts, material.recorded)
    heard = make_streams(corpus.corpus.validation, labels, frontend, task.settings.seed, negatives=WATCHING_TIMES)
    table = pack.table(model)
    watch.begin(model, table.size, table.size)
    trained = train_live(
        model,
        pack,
        corpus.corpus,
        corpus.with_people(heard),
        task.settings if frozen is None else task.head,
        task.folder,
        start=WarmStart(base) if frozen is None else None,
        teachers=[Taught(base, MODEL)] if commands and frozen is None else [],
        report=watch.epoch,
        stopped=stopped,
    )
    return WakeModel(pack, trained if frozen is None else cool(trained, table), corpus)


def window_of(task: WakeTask, parts: Mapping[Part, SpokenPart]) -> float:
    """Seconds that the models look at: nine takes of ten of the longest phrase, but a tenth of each.

    Raises
    ------
    SettingsError
        Voices need longer than `LONGEST_SECONDS` for it.
    """
    longest = 1.0
    for phrase in task.phrases:
        lengths = [len(take.sound) - 2 * MARGIN_SAMPLES for take in parts["train"].phrases if take.word == phrase]
        seconds = 0.9 * float(np.quantile(lengths, 0.9)) / 16_000
        if seconds > LONGEST_SECONDS:
            raise SettingsError(
                f'"{phrase}" takes {seconds / 0.9:.1f} s to say, more than the {LONGEST_SECONDS:g} s that a device '
                "looks at: name a shorter phrase."
            )
        longest = max(longest, float(np.ceil(seconds * 10) / 10))
    return longest


def starting_pack(base: Pack, labels: tuple[str, ...], name: str, seconds: float, frozen: Frozen | None = None) -> Pack:
    """Build the pack that is trained: the base's models for these labels.

    They are traced again, the plug-in alone, where the window is longer. With a frozen network there is a head over its
    vectors in place of them.
    """
    if frozen is not None:
        task = network_task(labels, frozen.frontend, seconds)
        frames, size = task.input_shape
        head = trace_model(partial(make_module, HEAD, mels=size, frames=frames), len(labels), task)
        return assemble(name, labels, {HEAD: head}, HEAD, task=task, frozen=frozen)
    if seconds == base.manifest.task.seconds:
        return without_start(base).with_labels(labels, name)
    task = task_of(labels, base.manifest.task.frontend.mels, seconds)
    make = partial(make_module, MODEL, mels=task.frontend.mels)
    return assemble(name, labels, {MODEL: trace_model(make, len(labels), task)}, MODEL, task=task)
