"""The negatives that a pack carries: of each stretch one half to train on, the other half to judge rounds by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from msgspec import UNSET

from auricle.packs.listening import Stretch
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN
from auricle.packs.pack import Pack
from auricle.speech.features import Energies
from auricle_learning.training.speech_data import Clips

LEAST_WINDOWS = 3
"""A part of a stretch has at least so many clips' frames."""
HALVED_BY = 200
"""Own negatives with which a device trains on half as many of the pack's."""
NOISE = frozenset({"noise", "silence"})
"""Kinds of stretches in which nobody speaks: their label is `_silence_`, that of all others `_unknown_`."""


class Sound(Protocol):
    """Mel energies (frames, mels), or what they are taken from: `Stretch`."""

    def __len__(self) -> int:
        """Frames."""

    def __getitem__(self, frames: slice, /) -> Energies:
        """Some of them."""


def trained_frames(length: int, frames: int) -> int:
    """How many frames of a stretch are for training: its first half; 0 where the halves would be too short.

    Parameters
    ----------
    length
        Of the stretch, in frames.
    frames
        Of a clip.
    """
    return length // 2 if length // 2 >= LEAST_WINDOWS * frames else 0


def judged_part(stretches: Sequence[Sound], frames: int) -> list[Sound]:
    """Of each stretch (frames, mels) what nobody trains on: its second half, or all of a short one."""
    return [part_of(stretch, slice(trained_frames(len(stretch), frames), None)) for stretch in stretches]


def part_of(sound: Sound, frames: slice) -> Sound:
    """Some frames of a sound, in as little memory as it is in."""
    return sound.part(frames) if isinstance(sound, Stretch) else sound[frames]


@dataclass(frozen=True, eq=False)
class Carried:
    """Sound without keywords from which a round draws windows."""

    stretches: tuple[Sound, ...]
    """(F, mels) each, F at least a clip's frames."""
    targets: tuple[int, ...]
    """Label of each stretch."""
    frames: int
    """Of a window."""
    share: float
    """What the windows weigh in a batch, 0 to below 1."""
    grid: int = 1
    """Frames between two windows that may be drawn."""

    def places(self, size: int) -> int:
        """How many of a batch of `size` are windows; a place is left for clips."""
        return _places(self.share, size)

    def draw(self, count: int, rng: np.random.Generator) -> Clips:
        """Draw so many windows, every place in every stretch as likely as the others."""
        starts = np.cumsum([(len(stretch) - self.frames) // self.grid + 1 for stretch in self.stretches])
        drawn = rng.integers(0, starts[-1], count)
        which = np.searchsorted(starts, drawn, side="right")
        first = (drawn - np.concatenate([[0], starts])[which]) * self.grid
        windows = [self.stretches[w][at : at + self.frames] for w, at in zip(which, first, strict=True)]
        return Clips(np.stack(windows), np.array(self.targets, np.int64)[which])


def places_of(share: float, own: int, size: int) -> int:
    """How many of a batch of `size` are windows, for a device with so many own negatives; see `carried_to_train`."""
    return _places(_share(share, own), size)


def _share(share: float, own: int) -> float:
    return share * HALVED_BY / (HALVED_BY + own)


def _places(share: float, size: int) -> int:
    return min(round(share * size), size - 1)


def negatives_beside(pack: Pack, share: float, clips: Clips) -> Carried | None:
    """The pack's negatives to train on beside a device's clips with a label; None for who has none of these.

    Parameters
    ----------
    share
        As of `carried_to_train`.
    """
    if not len(clips):
        return None
    negative = np.array([name in SPECIAL_LABELS for name in pack.labels])
    return carried_to_train(pack, share, int(negative[clips.targets].sum()))


def carried_to_train(pack: Pack, share: float, own: int) -> Carried | None:
    """The part of the pack's negatives that rounds train on; None where it carries none, or no label is theirs.

    A device with n own negatives takes `share` * h / (h + n), h = `HALVED_BY`: the more it has heard of its own room,
    the less it needs the pack's sound.

    Parameters
    ----------
    share
        Of a batch, for a device without own negatives; 0: none.
    own
        The device's own negatives among the clips that it trains on.
    """
    carried, frames = pack.manifest.negatives, pack.manifest.task.frames
    if not share or carried is UNSET:
        return None
    stretches, targets = [], []
    for kind, stretch in zip(carried.kinds, pack.stretches, strict=True):
        label = SILENCE if kind in NOISE and SILENCE in pack.labels else UNKNOWN
        length = trained_frames(len(stretch), frames)
        if label in pack.labels and length:
            stretches.append(stretch.part(slice(length)))
            targets.append(pack.labels.index(label))
    if not stretches:
        return None
    grid = 1 if pack.manifest.task.frontend.network is UNSET else frames // 2  # few, for each costs the network once
    return Carried(tuple(stretches), tuple(targets), frames, _share(share, own), grid)
