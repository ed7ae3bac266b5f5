"""The model of an own wake word: its window, the pack in which it begins, and a head's scores for thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from auricle.errors import SettingsError
from auricle.hearing.splits import Part
from auricle.packs.pack import Pack
from auricle.wire.tensors import TensorTable
from auricle_export.packs.build import assemble, trace_model
from auricle_export.packs.models import HEAD, built_in
from auricle_export.packs.network import Frozen
from auricle_export.packs.start_weights import without_start
from auricle_export.packs.window import network_task, task_of
from auricle_export.pretrain.trained import Trained
from auricle_export.wakeword.task import MODEL, WakeTask
from auricle_export.wakeword.voices_sound import MARGIN, SpokenPart

LONGEST = 2.0
"""Seconds of a window at most."""
TEMPERATURE = 8.0
"""By what a head's last layer is divided once it is trained. Over a network that heard much speech it is so sure that
posteriors of its hits and of its worst false accepts are both 1.0000, between which no threshold can be written down;
divided, they spread, and keep their order window by window."""


def window_of(task: WakeTask, parts: Mapping[Part, SpokenPart]) -> float:
    """Seconds that the models look at: nine takes of ten of the longest phrase, but a tenth of each.

    Raises
    ------
    SettingsError
        Voices need longer than `LONGEST` for it.
    """
    longest = 1.0
    for phrase in task.phrases:
        lengths = [len(take.sound) - 2 * MARGIN for take in parts["train"].phrases if take.word == phrase]
        seconds = 0.9 * float(np.quantile(lengths, 0.9)) / 16_000
        if seconds > LONGEST:
            raise SettingsError(
                f'"{phrase}" takes {seconds / 0.9:.1f} s to say, more than the {LONGEST:g} s that a device looks at: '
                "name a shorter phrase."
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
        head = trace_model(partial(built_in, HEAD, mels=size, frames=frames), len(labels), task)
        return assemble(name, labels, {HEAD: head}, HEAD, task=task, frozen=frozen)
    if seconds == base.manifest.task.seconds:
        return without_start(base).with_labels(labels, name)
    task = task_of(labels, base.manifest.task.frontend.mels, seconds)
    make = partial(built_in, MODEL, mels=task.frontend.mels)
    return assemble(name, labels, {MODEL: trace_model(make, len(labels), task)}, MODEL, task=task)


def cooled(trained: Trained, table: TensorTable) -> Trained:
    """A trained head whose last layer is divided by `TEMPERATURE`: the same order of labels, posteriors that spread."""
    weights = trained.weights.copy()
    for part in table.parts(weights)[1:]:
        part /= TEMPERATURE
    return replace(trained, weights=weights.astype(np.float16).astype(np.float32))
