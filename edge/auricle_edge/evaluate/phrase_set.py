"""Clips with a phrase and clips without it, as trainers of wake words write them, heard as streams.

livekit-wakeword's `generate` and openWakeWord's training write a folder of each kind: `positive_test`, `negative_test`
(texts that sound like the phrase) and, some, `background_test`. Where in its clip the phrase is said is not written
down, so the whole clip counts as the phrase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, end_to_end
from auricle.hearing.sounds import pcm, silence
from auricle.hearing.utterances import Piece, Spoken, Stretch
from auricle.speech.audio import MAX_SECONDS, SAMPLE_RATE, read_recording
from auricle.speech.sound_faults import Finding, SoundError, SoundFault, nothing_usable
from auricle.speech.sound_files import sound_files

POSITIVE = "positive_test"
"""The folder of clips that say the phrase."""
WITHOUT: Mapping[str, str] = {"negative_test": "near phrases", "background_test": "background"}
"""Folders of clips that do not, and the kind of sound that they are."""
CLIPS = "clips"
"""The kind of scene that positive clips make."""
PAUSE = 1.5
"""Seconds of silence before and after a positive clip: longer than what still counts as a hit after it."""
AT_ONCE = 50
"""Clips of a scene at most."""
LONGEST_SCENE = 600
"""Seconds of a scene of several clips at most."""
LONGEST_PHRASE = 60
"""Seconds of a positive clip at most: the whole of it counts as the phrase."""

Read = Callable[[], Iterable[Scene]]
Clip = tuple[Path, NDArray[np.int16]]
"""A file and its samples at 16 kHz."""


def phrase_set(folder: Path, phrase: str, findings: list[Finding]) -> list[Read]:
    """Scenes of a set of clips, read while they are taken: first those with the phrase, then each kind without it.

    Parameters
    ----------
    folder
        Holds `positive_test`, and `negative_test` or `background_test` or both.
    phrase
        What the positive clips say.
    findings
        Takes what is found in files that cannot be used, or not as they stand, while scenes are read.

    Raises
    ------
    DataError
        There is no file of sound that can be used in `positive_test`, or in none of the others.
    """
    positive = _files(folder / POSITIVE)
    without = {kind: files for name, kind in WITHOUT.items() if (files := _files(folder / name))}
    for missing, named in ((not positive, POSITIVE), (not without, " or ".join(WITHOUT))):
        if missing:
            raise DataError(
                f"There is no file of sound in {named} of {folder}: name a folder as livekit-wakeword generate makes "
                "it, with positive_test and negative_test."
            )
    _refuse_unusable(positive, folder / POSITIVE, LONGEST_PHRASE)
    _refuse_unusable(chain.from_iterable(without.values()), f"{' or '.join(WITHOUT)} of {folder}")
    said = [partial(_positive, part, phrase, findings) for part in _parts(positive)]
    return [*said, *(partial(_without, p, kind, findings) for kind, files in without.items() for p in _parts(files))]


def _files(folder: Path) -> list[Path]:
    return sound_files(folder, deep=True) if folder.is_dir() else []


def _refuse_unusable(files: Iterable[Path], where: Path | str, longest: float = MAX_SECONDS) -> None:
    """DataError where not one file can be used; it reads as far as the first that can."""
    findings: list[Finding] = []
    if next(_clips(files, findings, longest), None) is None:
        raise DataError(nothing_usable(where, findings))


def _parts(files: Sequence[Path]) -> list[Sequence[Path]]:
    return [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]


def _positive(files: Sequence[Path], phrase: str, findings: list[Finding]) -> Iterator[Scene]:
    pause = pcm(silence(PAUSE))
    for clips in _of_a_scene(_clips(files, findings, LONGEST_PHRASE)):
        yield end_to_end([Scene(pause), *(_clip_with(file, samples, phrase, pause) for file, samples in clips)])


def _clip_with(file: Path, samples: NDArray[np.int16], phrase: str, pause: NDArray[np.int16]) -> Scene:
    word = Spoken(phrase, 0, len(samples) - 1, file.stem, CLIPS, math.nan)
    return Scene(np.concatenate((samples, pause)), (word,))


def _without(files: Sequence[Path], kind: str, findings: list[Finding]) -> Iterator[Scene]:
    """One after another without a pause, so that the hours are those of the clips."""
    for clips in _of_a_scene(_clips(files, findings)):
        yield end_to_end([_clip_without(file, samples, kind) for file, samples in clips])


def _clip_without(file: Path, samples: NDArray[np.int16], kind: str) -> Scene:
    return Scene(samples, (), (Stretch(kind, 0, len(samples)),), (Piece(str(file), 0, len(samples)),))


def _of_a_scene(clips: Iterator[Clip]) -> Iterator[list[Clip]]:
    """Clips in turn, as many together as `LONGEST_SCENE` holds, at least one."""
    together: list[Clip] = []
    size = 0
    for clip in clips:
        if together and size + len(clip[1]) > LONGEST_SCENE * SAMPLE_RATE:
            yield together
            together, size = [], 0
        together.append(clip)
        size += len(clip[1])
    if together:
        yield together


def _clips(files: Iterable[Path], findings: list[Finding], longest: float = MAX_SECONDS) -> Iterator[Clip]:
    """Each file that can be used and is not longer than so many seconds; what is wrong with others is a finding."""
    for file in files:
        try:
            recording = read_recording(file)
        except SoundError as error:
            findings.append(error.finding)
            continue
        seconds = len(recording.samples) / SAMPLE_RATE
        if seconds > longest:
            findings.append(
                SoundFault.LONG.finding(
                    f"{file} lasts {seconds:.0f} seconds, and all of it would count as the phrase: cut it to what is "
                    f"said, {longest:g} seconds at most."
                )
            )
            continue
        findings += recording.findings
        yield file, pcm(recording.samples)
