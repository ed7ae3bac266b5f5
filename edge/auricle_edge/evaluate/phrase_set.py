"""Clips with a phrase and clips without it, as trainers of wake words write them, heard as streams.

livekit-wakeword's `generate` and openWakeWord's training write a folder of each kind: `positive_test`, `negative_test`
(texts that sound like the phrase) and, some, `background_test`. Where in its clip the phrase is said is not written
down, so the whole clip counts as the phrase. Clips in tables, where it is, are read by `phrase_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

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
PAUSE_SECONDS = 1.5
"""Seconds of silence before and after a positive clip: longer than what still counts as a hit after it."""
AT_ONCE = 50
"""Clips of a scene at most."""
LONGEST_SCENE = 600
"""Seconds of a scene of several clips at most."""
LONGEST_PHRASE = 60
"""Seconds of a positive clip at most: the whole of it counts as the phrase."""

Read = Callable[[], Iterable[Scene]]


class Clip(NamedTuple):
    """Sound of a file, or of a row of a table."""

    source: str
    """What is said of where it lies."""
    name: str
    samples: NDArray[np.int16]
    """(N,) at 16 kHz."""
    span: tuple[int, int] | None = None
    """First and last sample of the phrase, where that is known."""


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
    return with_phrase(_clips(files, findings, LONGEST_PHRASE), phrase)


def _without(files: Sequence[Path], kind: str, findings: list[Finding]) -> Iterator[Scene]:
    return without_phrase(_clips(files, findings), kind)


def with_phrase(clips: Iterator[Clip], phrase: str) -> Iterator[Scene]:
    """Clips that say the phrase, with a pause before and after each."""
    pause = pcm(silence(PAUSE_SECONDS))
    for together in _of_a_scene(clips):
        yield end_to_end([Scene(pause), *(_clip_with(clip, phrase, pause) for clip in together)])


def _clip_with(clip: Clip, phrase: str, pause: NDArray[np.int16]) -> Scene:
    first, last = clip.span or (0, len(clip.samples) - 1)
    return Scene(np.concatenate((clip.samples, pause)), (Spoken(phrase, first, last, clip.name, CLIPS, math.nan),))


def without_phrase(clips: Iterator[Clip], kind: str) -> Iterator[Scene]:
    """Clips of one kind one after another without a pause, so that the hours are those of the clips."""
    for together in _of_a_scene(clips):
        yield end_to_end([_clip_without(clip, kind) for clip in together])


def _clip_without(clip: Clip, kind: str) -> Scene:
    size = len(clip.samples)
    return Scene(clip.samples, (), (Stretch(kind, 0, size),), (Piece(clip.source, 0, size),))


def _of_a_scene(clips: Iterator[Clip]) -> Iterator[list[Clip]]:
    """Clips in turn, as many together as `LONGEST_SCENE` holds and `AT_ONCE` allows, at least one."""
    together: list[Clip] = []
    size = 0
    for clip in clips:
        if together and (len(together) == AT_ONCE or size + len(clip.samples) > LONGEST_SCENE * SAMPLE_RATE):
            yield together
            together, size = [], 0
        together.append(clip)
        size += len(clip.samples)
    if together:
        yield together


def _clips(files: Iterable[Path], findings: list[Finding], longest: float = MAX_SECONDS) -> Iterator[Clip]:
    """Each file that can be used and is not longer than so many seconds; what is wrong with others is a finding."""
    for file in files:
        clip = read_clip(file, str(file), file.stem, findings, longest)
        if clip is not None:
            yield clip


def read_clip(file: Path, source: str, name: str, findings: list[Finding], longest: float = MAX_SECONDS) -> Clip | None:
    """A clip of a file that sentences call `source`; None, and a finding, where it cannot be used."""
    try:
        recording = read_recording(file)
    except SoundError as error:
        findings.append(_with_source(error.finding, file, source))
        return None
    seconds = len(recording.samples) / SAMPLE_RATE
    if seconds > longest:
        findings.append(
            SoundFault.LONG.finding(
                f"{source} lasts {seconds:.0f} seconds, and all of it would count as the phrase: cut it to what is "
                f"said, {longest:g} seconds at most."
            )
        )
        return None
    findings += [_with_source(each, file, source) for each in recording.findings]
    return Clip(source, name, pcm(recording.samples))


def _with_source(finding: Finding, file: Path, source: str) -> Finding:
    return replace(finding, sentence=finding.sentence.replace(str(file), source))
