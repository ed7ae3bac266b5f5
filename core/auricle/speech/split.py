"""Who takes part and who is only measured on: speech divided by speaker, never by clip."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.speech.speech_set import SpeechSet

DEFAULT_MIN_CLIPS = 20
"""A speaker with fewer clips is not a device."""

UNSEEN_FRACTION = 0.2
"""Of the speakers that could be devices, held out when nothing else is asked for."""

VALIDATION_FRACTION = 1 / 3
"""Of those held out, on whose clips values are chosen, where that is asked for."""


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceClips:
    """One emulated device: a speaker and all of that speaker's clips."""

    speaker: str
    """The speaker's name."""

    clips: NDArray[np.int64]
    """Places in the speech set, ascending."""

    warp: float = 1.0
    """By how much the mel axis of its clips is stretched, as another vocal tract does."""

    held_out: NDArray[np.int64] | None = None
    """Places of clips by which its own model is judged, of recordings that no device trains on; None: a share of
    `clips`."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetSplit:
    """A speech set divided by speaker; nobody stands on two sides."""

    devices: tuple[DeviceClips, ...]
    """Who takes part, by the speaker's name."""

    unseen: NDArray[np.int64]
    """Clips of speakers that no device hears, ascending: the measure."""

    unseen_speakers: tuple[str, ...]
    """Whose clips these are."""

    unused: tuple[str, ...]
    """Speakers that are neither, since fewer devices were asked for than there could be."""

    validation: NDArray[np.int64] = field(default_factory=_none)
    """Clips of other speakers that no device hears, ascending: by these values are chosen, and nothing is reported."""

    validation_speakers: tuple[str, ...] = ()
    """Whose clips these are."""

    labelled: NDArray[np.int64] = field(default_factory=_none)
    """Clips that the coordinator has with labels, ascending; none of them is a device's."""

    def training_clips(self) -> int:
        """Count the clips of all devices."""
        return sum(len(device.clips) for device in self.devices)


def split_by_speaker(
    speech: SpeechSet,
    *,
    devices: int | None = None,
    min_clips: int = DEFAULT_MIN_CLIPS,
    unseen: int | None = None,
    seed: int = 0,
    validation: bool = False,
) -> FleetSplit:
    """Choose the devices and the speakers held out wholly.

    Parameters
    ----------
    speech
        The clips.
    devices
        How many devices; None for every speaker that may be one.
    min_clips
        A speaker with fewer clips is not a device and counts as unseen.
    unseen
        How many of the other speakers are held out too. None holds out all that `devices` leaves over, and where
        `devices` is None a fifth of them, at least one.
    seed
        Decides who is held out. The choice depends on the speakers' names, not on their order or their clips.
    validation
        Whether a third of those held out, at least one, are the validation speakers and count as unseen no more. Who
        they are is decided by a hash of the names alone, so that they are the same whatever the seed.

    Raises
    ------
    SettingsError
        A number is out of range.
    DataError
        Nobody has enough clips, there are more devices than speakers, or nobody is left to measure on.
    """
    _check_range(devices, min_clips, unseen)
    enough = speech.clips_per_speaker() >= min_clips
    able = [name for name, yes in zip(speech.speaker_names, enough, strict=True) if yes]
    few = [name for name, yes in zip(speech.speaker_names, enough, strict=True) if not yes]
    if not able:
        most = int(speech.clips_per_speaker().max(initial=0))
        raise DataError(f"No speaker has {min_clips} clips, the most is {most}: lower --min-clips to {most} or less.")
    held, taken = _sizes(len(able), devices, min_clips, unseen, bool(few))
    chosen: list[str] = []
    if validation:
        chosen = _validation(able, few, held)
        held -= len(set(chosen) & set(able))
        able, few = ([name for name in names if name not in chosen] for names in (able, few))
    shuffled = [able[place] for place in np.random.default_rng(seed).permutation(len(able))]
    unseen_speakers = tuple(sorted([*few, *shuffled[:held]]))
    if not unseen_speakers:
        raise DataError("No speaker is left to measure on: hold some out with --unseen 1 or more.")
    return FleetSplit(
        devices=tuple(DeviceClips(name, _clips_of(speech, (name,))) for name in sorted(shuffled[held : held + taken])),
        unseen=_clips_of(speech, unseen_speakers),
        unseen_speakers=unseen_speakers,
        unused=tuple(sorted(shuffled[held + taken :])),
        validation=_clips_of(speech, chosen),
        validation_speakers=tuple(sorted(chosen)),
    )


def _validation(able: list[str], few: list[str], held: int) -> list[str]:
    """A third of the speakers held out: the first by a hash of the name, of the able no more than are held out."""
    both = len(few) + held
    if both < 2:
        raise DataError(
            "Validation needs two speakers that no device has, one to choose by and one to report: raise "
            "--unseen to 2 or more."
        )
    wanted, room = max(1, round(VALIDATION_FRACTION * both)), held
    chosen: list[str] = []
    for name in sorted([*able, *few], key=lambda name: hashlib.sha256(name.encode()).digest()):
        is_able = name in able
        if len(chosen) < wanted and (room or not is_able):
            chosen.append(name)
            room -= is_able
    return chosen


def _check_range(devices: int | None, min_clips: int, unseen: int | None) -> None:
    least = {"--devices": (devices, 1), "--min-clips": (min_clips, 1), "--unseen": (unseen, 0)}
    for option, (value, low) in least.items():
        if value is not None and value < low:
            raise SettingsError(f"{option} is {value} and must be at least {low}.")


def _sizes(able: int, devices: int | None, min_clips: int, unseen: int | None, few: bool) -> tuple[int, int]:
    """Give how many speakers are held out and how many are devices."""
    if unseen is None and devices is None:
        held = max(1, round(UNSEEN_FRACTION * able))
    elif unseen is None:
        held = max(able - (devices or 0), 0 if few else 1)
    else:
        held = unseen
    if unseen is not None and unseen >= able:
        raise DataError(
            f"--unseen {unseen} leaves nobody to learn: {able} speaker{'s have' if able > 1 else ' has'} {min_clips} "
            "clips or more; lower --unseen or --min-clips."
        )
    left = max(0, able - held)
    wanted = left if devices is None else devices
    if wanted > left or not wanted:
        raise DataError(
            f"There are more devices than speakers: of {able} with {min_clips} clips or more {held} are held out, "
            f"which leaves {left} for --devices {max(wanted, 1)}: lower --devices, --unseen or --min-clips."
        )
    return held, wanted


def _clips_of(speech: SpeechSet, names: Iterable[str]) -> NDArray[np.int64]:
    places = [speech.speaker_names.index(name) for name in names]
    return np.flatnonzero(np.isin(speech.speakers, places)).astype(np.int64)
