"""A recording with a label file, as Audacity exports it: `start<TAB>end<TAB>word`, in seconds, one a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from auricle.errors import DataError
from auricle.hearing.curve import WITHIN
from auricle.hearing.scenes import Piece, Scene, Spoken, Stretch
from auricle.hearing.sounds import pcm
from auricle.speech.audio import SAMPLE_RATE, read_audio

RECORDING = "recording"
LONGEST = 2 * 3600
"""Seconds of a recording with labels."""


def read_labels(path: Path) -> list[tuple[float, float, str]]:
    """Start, end and word of each label, by start.

    Lines that begin with a backslash, Audacity's frequency ranges, are passed over.

    Raises
    ------
    DataError
        The file cannot be read, or a line is not a label; the sentence names it.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The labels {path} cannot be read: export them from Audacity as text.") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("\\"):
            continue
        found.append(_label(line, f"{path}, line {number}"))
    return sorted(found)


def _label(line: str, where: str) -> tuple[float, float, str]:
    start, _, rest = line.partition("\t")
    end, _, word = rest.partition("\t")
    try:
        times = float(start.replace(",", ".")), float(end.replace(",", "."))
    except ValueError as error:
        raise DataError(f"{where} is not start<TAB>end<TAB>word in seconds: {line[:60]!r}.") from error
    if not (all(map(math.isfinite, times)) and 0 <= times[0] <= times[1] and word.strip()):
        raise DataError(f"{where} needs a start, an end after it, and a word: {line[:60]!r}.")
    return *times, word.strip().lower()


def labelled_scene(sound: Path, labels: Path, keywords: Sequence[str]) -> Scene:
    """A recording as a scene: labels with a keyword are keywords; where none is, it is sound without keywords.

    From a keyword's start to `WITHIN` after its end a detection is a hit or a wrong word, not a false accept. Labels
    with another text are there for people.

    Raises
    ------
    DataError
        One of the files cannot be read, or a label lies after the recording's end.
    """
    samples = pcm(read_audio(sound, LONGEST))
    words = tuple(
        Spoken(word, round(start * SAMPLE_RATE), round(end * SAMPLE_RATE), sound.stem, RECORDING, math.nan)
        for start, end, word in read_labels(labels)
        if word in keywords
    )
    if words and words[-1].start >= len(samples):
        raise DataError(f'{labels} has "{words[-1].word}" after the end of {sound}: are they of one recording?')
    stretches, free = [], 0
    for word in (*words, None):
        until = len(samples) if word is None else word.start
        if until > free:
            stretches.append(Stretch(RECORDING, free, until))
        if word is not None:
            free = max(free, word.end + round(WITHIN * SAMPLE_RATE) + 1)
    return Scene(samples, words, tuple(stretches), (Piece(str(sound), 0, len(samples)),))
