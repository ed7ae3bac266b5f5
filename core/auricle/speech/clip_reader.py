"""Reads many files of sound: several at once, in their order, with what is wrong with each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SILENCE
from auricle.speech.audio import CLIP_SAMPLES, Recording, fit_clip, read_recording, share_kept
from auricle.speech.clip_folder import ClipFile
from auricle.speech.row_store import RowStore
from auricle.speech.sound_faults import Finding, SoundError, SoundFault
from auricle.speech.speech_set import CUT_SHARE, Progress, to_int16

_READERS = 4
_READ_AHEAD = 512


def read_all(
    files: Sequence[ClipFile], rows: RowStore[np.int16], length: int, progress: Progress | None
) -> tuple[list[int], list[Finding], list[int]]:
    """Put every file that can be read into the rows; give the places of these, what was found in files, and the places
    of those that are cut.

    What a folder before holds already is left out.
    """
    kept: list[int] = []
    cut: list[int] = []
    findings: list[Finding] = []
    first: dict[bytes, Path] = {}
    for place, (clip, found, is_cut) in enumerate(_read_in_order(files, length)):
        root = files[place].root
        findings += found
        if clip is not None and first.setdefault(hashlib.sha256(clip.data).digest(), root) == root:
            kept.append(place)
            cut += [place] * is_cut
            rows.put(clip[None])
        if progress:
            progress(place + 1, len(files))
    return kept, findings, cut


_Read = tuple[NDArray[np.int16] | None, tuple[Finding, ...], bool]
"""A clip (length,) or None, what was found in its file, and whether it is cut."""


def _read_in_order(files: Sequence[ClipFile], length: int) -> Iterator[_Read]:
    """Decode with several threads, a few hundred files ahead."""
    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(files), _READ_AHEAD):
            yield from readers.map(partial(_read_one, length=length), files[start : start + _READ_AHEAD])


def _read_one(file: ClipFile, length: int) -> _Read:
    try:
        recording = read_labelled(file)
    except SoundError as error:
        return None, (error.finding,), False
    clip = fit_clip(recording.samples, length)
    return to_int16(clip), recording.findings, share_kept(recording.samples, clip) < 1 - CUT_SHARE


def read_labelled(file: ClipFile) -> Recording:
    """What a clip holds; one of `_silence_` may be silent. Errors as of `read_recording`."""
    try:
        return read_recording(file.path)
    except SoundError as error:
        if file.word == SILENCE and error.fault is SoundFault.SILENT:
            return Recording(np.zeros(CLIP_SAMPLES, np.float32))
        raise


def read_each(paths: Iterable[Path]) -> tuple[list[NDArray[np.float32]], list[Finding]]:
    """Read the recordings that can be read, whole, in order; and what was found in files."""
    sounds: list[NDArray[np.float32]] = []
    findings: list[Finding] = []
    for path in paths:
        try:
            recording = read_recording(path)
        except SoundError as error:
            findings.append(error.finding)
            continue
        sounds.append(recording.samples)
        findings += recording.findings
    return sounds, findings
