"""Speech collections with a manifest (MSWC, Common Voice, others) brought into Speech Commands layout."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, StorageError
from auricle.files import describe
from auricle.packs.manifest import WINDOWS
from auricle.speech.audio import SAMPLE_RATE, fit_clip, read_audio
from auricle.speech.confusables import holds_any
from auricle.speech.speech_manifest import (
    NOISE_FOLDER,
    Columns,
    Recording,
    RowError,
    audio_folder,
    count_rows,
    read_manifest,
)
from auricle.speech.speech_set import to_int16

RUNNING_FOLDER = "speech"
"""The folder that running speech goes to."""

_READERS = 4
_AT_ONCE = 256
_NEEDS = {".mp3": ("MP3", "MPEG_LAYER_III"), ".opus": ("OGG", "OPUS")}


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What to import, from where, to where."""

    manifest: Path
    """A CSV or TSV file with a header."""

    out: Path
    """The root to write: `<word>/<speaker>_nohash_<n>.flac`."""

    audio: Path | None = None
    """What the paths start from; None for `clips` beside the manifest, or the manifest's folder where that is not."""

    columns: Columns = field(default_factory=Columns)
    """Which column is which."""

    words: frozenset[str] = frozenset()
    """Only rows of these words and phrases; empty for all, where a row of several words is a bad one."""

    most: int | None = None
    """At most so many clips of a word, the first of the manifest; None for all."""

    running: bool = False
    """Keep recordings of running speech whole, in the folder `speech`, instead of cutting a clip of each."""

    without: frozenset[str] = frozenset()
    """Leave out sentences in which one of these stands as a word."""

    seconds: float = 1.0
    """Of a word's clip, 0.5 to 2."""


@dataclass(slots=True)
class ImportReport:
    """What an import did; `bad` counts the rows not used by reason."""

    written: int = 0
    there: int = 0
    """Clips that an earlier import had written."""
    passed_over: int = 0
    """Rows of other words, or beyond the most of a word."""
    bad: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """For a reason that names a file: the first one."""
    words: set[str] = field(default_factory=set)
    speakers: set[str] = field(default_factory=set)


def import_speech(settings: ImportSettings, progress: Callable[[int, int], None] = lambda *_: None) -> ImportReport:
    """Decode, cut and write what a manifest names; what is there already is left as it is.

    Parameters
    ----------
    settings
        What to import.
    progress
        Called with the rows done and the rows in all.

    Raises
    ------
    SettingsError
        A column is not in the manifest, or a number is out of range.
    DataError
        The manifest cannot be read, or no row of it could be used.
    StorageError
        The folder cannot be written.
    """
    if settings.most is not None and settings.most < 1:
        raise SettingsError(f"--most is {settings.most} and must be at least 1.")
    if not WINDOWS[0] <= settings.seconds <= WINDOWS[1]:
        raise SettingsError(
            f"--window {settings.seconds:g} is not a valid window: give {WINDOWS[0]:g} to {WINDOWS[1]:g} seconds."
        )
    audio = settings.audio or audio_folder(settings.manifest)
    if not audio.is_dir():
        raise DataError(f"The folder of the audio files {audio} does not exist: name it with --audio.")
    total, done, report = count_rows(settings.manifest), 0, ImportReport()
    rows = read_manifest(
        settings.manifest,
        audio,
        settings.columns,
        sentences=settings.running,
        words=settings.words,
        phrases=settings.words,
    )
    taken: Counter[str] = Counter()
    with ThreadPoolExecutor(_READERS) as readers:
        while some := list(islice(rows, _AT_ONCE)):
            jobs = list(_chosen(some, settings, taken, report))
            for outcome in readers.map(_import_one, jobs):
                _note(outcome, report)
            done += len(some)
            progress(min(done, total), total)
    if not report.written + report.there:
        raise DataError(_nothing(settings.manifest, report))
    return report


def missing_decoder(path: Path) -> str | None:
    """Say that libsndfile, as installed here, cannot decode a file of this kind; None where it can."""
    needed = _NEEDS.get(path.suffix.lower())
    if needed is None or (needed[0] in soundfile.available_formats() and needed[1] in _subtypes(needed[0])):
        return None
    version = soundfile.__libsndfile_version__
    return f"libsndfile {version} cannot decode {path.suffix.lower()[1:]}: pip install -U soundfile, or convert to FLAC"


@dataclass(frozen=True, slots=True)
class _Job:
    """A recording and the file to make of it."""

    recording: Recording
    target: Path
    samples: int | None
    """Of the clip; None: all of the recording."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one recording."""

    job: _Job
    problem: str | None = None
    detail: str = ""
    there: bool = False


def _chosen(
    rows: list[Recording | RowError | None], settings: ImportSettings, taken: Counter[str], report: ImportReport
) -> Iterator[_Job]:
    """Give the recordings to import and where each goes, and count the other rows."""
    targets: set[Path] = set()
    for row in rows:
        if row is None:
            report.passed_over += 1
            continue
        if isinstance(row, RowError):
            report.bad[str(row)] += 1
            continue
        if settings.without and holds_any(row.text, settings.without):
            report.bad["the sentence holds a keyword"] += 1
            continue
        folder = RUNNING_FOLDER if settings.running else row.text
        target = settings.out / folder / f"{row.name}.flac"
        noise = row.text == NOISE_FOLDER
        if settings.most is not None and taken[folder] >= settings.most and not noise:
            report.passed_over += 1
        elif target in targets:
            report.bad["named twice in the manifest"] += 1
        else:
            taken[folder] += 1
            targets.add(target)
            yield _Job(row, target, None if settings.running or noise else round(settings.seconds * SAMPLE_RATE))


def _import_one(job: _Job) -> _Outcome:
    source, target = job.recording.path, job.target
    if target.is_file() and target.stat().st_size:
        return _Outcome(job, there=True)
    if (missing := missing_decoder(source)) is not None:
        return _Outcome(job, missing)
    try:
        sound = read_audio(source)
    except DataError as error:
        return _Outcome(job, "the file cannot be read as audio", str(error))
    if not sound.any():
        return _Outcome(job, "the recording is silent", str(source))
    _write(target, to_int16(sound if job.samples is None else fit_clip(sound, job.samples)))
    return _Outcome(job)


def _write(target: Path, samples: NDArray[np.int16]) -> None:
    """Write a FLAC file that is whole or absent; an import that was cut writes it again, so nothing is synced."""
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(encoded.getvalue())
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(describe(error, target)) from error


def _note(outcome: _Outcome, report: ImportReport) -> None:
    if outcome.problem is not None:
        report.bad[outcome.problem] += 1
        if outcome.detail:
            report.examples.setdefault(outcome.problem, outcome.detail)
        return
    report.there += outcome.there
    report.written += not outcome.there
    if outcome.job.recording.text == NOISE_FOLDER:
        return
    report.words.add(outcome.job.target.parent.name)
    report.speakers.add(outcome.job.recording.name.partition("_")[0])


def _subtypes(format_name: str) -> set[str]:
    return set(soundfile.available_subtypes(format_name))


def _nothing(manifest: Path, report: ImportReport) -> str:
    if not report.bad:
        return f"No row of {manifest} is of the words asked for: check --words."
    reason, count = report.bad.most_common(1)[0]
    return f"No row of {manifest} could be used; {count:,} of them: {reason}. Check --audio and the columns."
