"""Speech for central training: divided by speaker into a part to train on, one to stop by and one to judge by."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.pack import Task
from auricle.speech.augment import noise_energies
from auricle.speech.features import Energies, LogMel
from auricle.speech.folder import load_folder
from auricle.speech.speech_set import SpeechSet
from auricle.speech.synthesis import SynthesisSettings, synthesise

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""

SYNTHETIC = "synthetic"
HELD_OUT = 0.15
"""Share of the speakers to stop by, and again to judge by; of each at least one."""
_FEATURE_BATCH = 256
_LONGEST_NAME = 100


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
    noise: NDArray[np.float32] | None
    """(F, mels) mel energies of background noise."""
    skipped: tuple[str, ...]
    """Files that could not be read, with the reason."""
    digest: str
    """SHA-256 of the audio, its labels and its speakers: what a training must find again to go on."""


def read_speech(
    data: str, words: str, *, speakers: int, takes: int, seed: int, progress: Progress = lambda *_: None
) -> SpeechSet:
    """Read a Speech Commands folder, or synthesise speech.

    Parameters
    ----------
    data
        `synthetic`, or a folder `<word>/<speaker>_nohash_<n>.(wav|flac)`.
    words
        As `select_words` takes it.
    speakers, takes
        Of synthetic speech: voices, and how often each says a word.
    seed
        Decides synthetic speech, and what stands for `_unknown_` and `_silence_`.

    Raises
    ------
    DataError, SettingsError
        No such folder, no usable audio, or words that are not there.
    """
    if data == SYNTHETIC:
        settings = SynthesisSettings(words=words, speakers=speakers, takes=takes, seed=seed)
        return synthesise(settings, lambda done, total: progress("synthesising speakers", done, total))
    return load_folder(
        Path(data), words, seed=seed, progress=lambda done, total: progress("reading clips", done, total)
    )


def describe_speech(data: str, labels: int) -> str:
    """What a manifest says that a model was trained on: no path, only the folder's own name."""
    if data == SYNTHETIC:
        return f"synthetic speech (espeak-ng), {labels} words"
    return f"recordings in the folder {Path(data).resolve().name[:_LONGEST_NAME]}, {labels} words"


def split_speakers(
    names: tuple[str, ...], seed: int, share: float = HELD_OUT
) -> tuple[list[str], list[str], list[str]]:
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
    speech: SpeechSet, task: Task, what: str, seed: int, progress: Progress = lambda *_: None
) -> PretrainSpeech:
    """Split speech by speaker and compute its mel energies, 16 kB a clip.

    Raises
    ------
    DataError
        Fewer than three speakers, or a label that no speaker of the training part says.
    """
    frontend = LogMel(task)
    chosen = split_speakers(speech.speaker_names, seed)
    done = 0

    def part(names: list[str]) -> Part:
        nonlocal done
        places = [speech.speaker_names.index(name) for name in names]
        clips = np.flatnonzero(np.isin(speech.speakers, places))
        energies = np.empty((len(clips), task.frames, task.frontend.mels), np.float32)
        for start in range(0, len(clips), _FEATURE_BATCH):
            batch = clips[start : start + _FEATURE_BATCH]
            energies[start : start + len(batch)] = frontend.energies(speech.audio[batch])
            done += len(batch)
            progress("computing features", done, len(speech))
        return Part(energies, speech.targets[clips], len(names))

    train, validation, test = (part(names) for names in chosen)
    missing = sorted(set(range(len(speech.labels))) - set(train.targets.tolist()))
    if missing:
        raise DataError(
            f'No speaker of the training part says "{speech.labels[missing[0]]}": add recordings of it by more '
            "speakers, leave it out of --words, or take another --seed."
        )
    noise = noise_energies(frontend, list(speech.noise))
    return PretrainSpeech(what, speech.labels, train, validation, test, noise, speech.skipped, _digest(speech))


def balanced_size(targets: NDArray[np.int64]) -> int:
    """Clips in an epoch: each label that there is, as often as a label has clips on average, rounded up."""
    labels = len(np.unique(targets))
    return -(-len(targets) // labels) * labels


def balanced_order(targets: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw an epoch's clips (balanced_size,), each label equally often; no clip twice before all of its label once."""
    labels = np.unique(targets)
    each = -(-len(targets) // len(labels))
    parts = []
    for label in labels:
        places = np.flatnonzero(targets == label)
        laps = [rng.permutation(places) for _ in range(-(-each // len(places)))]
        parts.append(np.concatenate(laps)[:each])
    return rng.permutation(np.concatenate(parts))


def _digest(speech: SpeechSet) -> str:
    whole = hashlib.sha256(repr((speech.labels, speech.speaker_names)).encode())
    for array in (speech.audio, speech.targets, speech.speakers, *speech.noise):
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()
