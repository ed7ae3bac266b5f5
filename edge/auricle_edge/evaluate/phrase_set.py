"""Clips with a phrase and clips without it, as trainers of wake words write them, heard as streams.

livekit-wakeword's `generate` and openWakeWord's training write a folder of each kind: `positive_test`, `negative_test`
(texts that sound like the phrase) and, some, `background_test`. Where in its clip the phrase is said is not written
down, so the whole clip counts as the phrase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, end_to_end
from auricle.hearing.sounds import pcm, silence
from auricle.hearing.utterances import Piece, Spoken, Stretch
from auricle.speech.audio import read_recording
from auricle.speech.sound_faults import Finding, SoundError
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
"""Clips of a scene."""

Read = Callable[[], Scene]


def phrase_set(folder: Path, phrase: str, findings: list[Finding]) -> list[Read]:
    """Scenes of a set of clips, each read when it is called: first those with the phrase, then each kind without it.

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
        There is no file of sound in `positive_test`, or in none of the others.
    """
    positive = _files(folder / POSITIVE)
    without = {kind: files for name, kind in WITHOUT.items() if (files := _files(folder / name))}
    for missing, named in ((not positive, POSITIVE), (not without, " or ".join(WITHOUT))):
        if missing:
            raise DataError(
                f"There is no file of sound in {named} of {folder}: name a folder as livekit-wakeword generate makes "
                "it, with positive_test and negative_test."
            )
    said = [partial(_positive, part, phrase, findings) for part in _parts(positive)]
    return [*said, *(partial(_without, p, kind, findings) for kind, files in without.items() for p in _parts(files))]


def _files(folder: Path) -> list[Path]:
    return sound_files(folder, deep=True) if folder.is_dir() else []


def _parts(files: Sequence[Path]) -> list[Sequence[Path]]:
    return [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]


def _positive(files: Sequence[Path], phrase: str, findings: list[Finding]) -> Scene:
    pause = pcm(silence(PAUSE))
    scenes = [Scene(pause)]
    for file, samples in _read(files, findings):
        word = Spoken(phrase, 0, len(samples) - 1, file.stem, CLIPS, math.nan)
        scenes.append(Scene(np.concatenate((samples, pause)), (word,)))
    return end_to_end(scenes)


def _without(files: Sequence[Path], kind: str, findings: list[Finding]) -> Scene:
    """One after another without a pause, so that the hours are those of the clips."""
    scenes = [Scene(np.zeros(0, np.int16))]
    for file, samples in _read(files, findings):
        pieces = (Piece(str(file), 0, len(samples)),)
        scenes.append(Scene(samples, (), (Stretch(kind, 0, len(samples)),), pieces))
    return end_to_end(scenes)


def _read(files: Sequence[Path], findings: list[Finding]) -> list[tuple[Path, NDArray[np.int16]]]:
    """Samples at 16 kHz of each file that can be used."""
    found = []
    for file in files:
        try:
            recording = read_recording(file)
        except SoundError as error:
            findings.append(error.finding)
            continue
        findings += recording.findings
        found.append((file, pcm(recording.samples)))
    return found
