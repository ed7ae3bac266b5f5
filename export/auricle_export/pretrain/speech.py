"""Speech for central training: divided by speaker into a part to train on, one to stop by and one to judge by."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.splits import PARTS, part_of
from auricle.packs.pack import Task
from auricle.speech.augment import noise_energies
from auricle.speech.features import Energies, LogMel
from auricle.speech.sound_faults import Finding
from auricle.speech.speech_set import SpeechSet, energy_rows

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""

HELD_OUT = 0.15
"""Share of the speakers to stop by, and again to judge by; of each at least one."""

Split = tuple[list[str], list[str], list[str]]
"""Speakers to train on, to stop by and to judge by."""


@dataclass(frozen=True, eq=False)
class Part:
    """Clips of some of the speakers."""

    energies: Energies
    """(N, T, mels) mel energies."""
    targets: NDArray[np.int64]
    """(N,) places in the labels."""
    speakers: int
    """How many speakers said them."""

    def __len__(self) -> int:
        """Count the clips."""
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Clips by espeak-ng, for words that few people of the training part say."""

    energies: Energies
    """(N, T, mels) mel energies."""
    targets: NDArray[np.int64]
    """(N,) places in the labels."""
    share: float
    """Of the clips that are trained on."""
    balance: float
    """How equally often the labels are heard: 1 equally, 0 about as often as they were recorded."""


@dataclass(frozen=True, eq=False)
class PretrainSpeech:
    """Everything a central training hears; no speaker is in two parts."""

    what: str
    """What it is, as the manifest says it."""
    labels: tuple[str, ...]
    train: Part
    validation: Part
    """Decides when to stop."""
    test: Part
    """Gives the score; neither trained on nor stopped by."""
    mixed: Mixed | None
    """Synthetic speech that is trained on beside the training part; None where there is only one kind of speech."""
    noise: NDArray[np.float32] | None
    """(F, mels) mel energies of background noise."""
    findings: tuple[Finding, ...]
    """What was found in files that could not be used, or not as they stand."""
    digest: str
    """SHA-256 of the audio, its labels and its speakers: what a training must find again to go on."""


def split_by_name(names: Iterable[str]) -> Split:
    """Divide speakers as `auricle.hearing.splits` does: by the SHA-256 of their names.

    Raises
    ------
    DataError
        Nobody is in one of the parts.
    """
    train, validation, test = ([name for name in names if part_of(name) == part] for part in PARTS)
    if not (train and validation and test):
        raise DataError(
            f"By the SHA-256 of their names {len(train)} speakers are to train on, {len(validation)} to choose by and "
            f"{len(test)} to judge by: add speakers until each part has one."
        )
    return train, validation, test


def split_speakers(names: tuple[str, ...], seed: int, share: float = HELD_OUT) -> Split:
    """Divide speakers into those to train on, to stop by and to judge by.

    Raises
    ------
    DataError
        Fewer than three speakers.
    """
    if len(names) < 3:
        raise DataError(
            f"Training needs the speech of at least three speakers, one to train on, one to stop by and one to judge "
            f"by, and there {'is' if len(names) == 1 else 'are'} {len(names)}: name the files "
            "<word>/<speaker>_nohash_<n>.wav and add speakers."
        )
    shuffled = [sorted(names)[place] for place in np.random.default_rng([seed, 5]).permutation(len(names))]
    held = max(1, math.floor(share * len(names)))
    return shuffled[2 * held :], shuffled[:held], shuffled[held : 2 * held]


def prepare_speech(
    speech: SpeechSet,
    task: Task,
    what: str,
    split: Split,
    progress: Progress = lambda *_: None,
    *,
    spoken: SpeechSet | None = None,
    share: float = 0.0,
    balance: float = 1.0,
) -> PretrainSpeech:
    """Compute the mel energies of every part, 16 kB a clip.

    Parameters
    ----------
    speech
        All clips.
    what
        What it is, as the manifest says it.
    split
        Its speakers by part.
    spoken
        Synthetic speech of the same labels, which is trained on beside it.
    share, balance
        Share of the clips trained on that come from it, and how equally often labels are heard: as in `Mixed`.

    Raises
    ------
    DataError
        A label that no speaker of the training part says, and no synthetic speech holds.
    """
    frontend = LogMel(task)
    done, total = 0, len(speech) + (len(spoken) if spoken is not None else 0)

    def energies_of(source: SpeechSet, clips: NDArray[np.intp]) -> Energies:
        nonlocal done
        begun = done
        done += len(clips)
        count = partial(_count, progress, begun, total)
        return energy_rows(frontend, source.audio.__getitem__, clips, progress=count)

    def part(names: list[str]) -> Part:
        places = [speech.speaker_names.index(name) for name in names]
        clips = np.flatnonzero(np.isin(speech.speakers, places))
        return Part(energies_of(speech, clips), speech.targets[clips], len(names))

    train, validation, test = (part(names) for names in split)
    mixed = None
    if spoken is not None:
        mixed = Mixed(energies_of(spoken, np.arange(len(spoken))), spoken.targets, share, balance)
    heard = {*train.targets.tolist(), *(mixed.targets.tolist() if mixed is not None else ())}
    missing = sorted(set(range(len(speech.labels))) - heard)
    if missing:
        raise DataError(
            f'No speaker of the training part says "{speech.labels[missing[0]]}": add recordings of it by more '
            "speakers, leave it out of --words, or take another --seed."
        )
    noise = noise_energies(frontend, list(speech.noise))
    digest = _digest(speech) if spoken is None else _digest(speech, spoken)
    return PretrainSpeech(what, speech.labels, train, validation, test, mixed, noise, speech.findings, digest)


def _count(progress: Progress, begun: int, total: int, done: int, _: int) -> None:
    progress("computing features", begun + done, total)


def _digest(*sources: SpeechSet) -> str:
    whole = hashlib.sha256()
    for speech in sources:
        whole.update(repr((speech.labels, speech.speaker_names)).encode())
        for array in (speech.audio, speech.targets, speech.speakers, *speech.noise):
            whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()
