"""Speech collections with a manifest (MSWC, Common Voice, others) brought into Speech Commands layout."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, StorageError
from auricle.files import describe
from auricle.packs.manifest import WINDOWS
from auricle.speech.audio import SAMPLE_RATE, fit_clip, read_recording
from auricle.speech.confusables import holds_any
from auricle.speech.list_columns import Columns
from auricle.speech.list_rows import is_table
from auricle.speech.sound_faults import Finding, FindingCount, SoundError, SoundFault, count_findings, nothing_usable
from auricle.speech.speech_manifest import (
    NOISE_FOLDER,
    Recording,
    RowError,
    audio_folder,
    count_rows,
    nobody_in,
    read_manifest,
)
from auricle.speech.speech_set import to_int16
from auricle_export.speech.parquet_rows import unpack_table

RUNNING_FOLDER = "speech"
"""The folder that running speech goes to."""

_READERS = 4
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What to import, from where, to where."""

    manifest: Path
    """A list, in one of the forms of `auricle.speech.list_rows`."""

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
    """Of a word's clip, 0.5 to 4."""

    speaker: str = ""
    """Who says the rows that name nobody; empty: each a speaker of its own."""


@dataclass(slots=True)
class ImportReport:
    """What an import did."""

    written: int = 0
    there: int = 0
    """Clips that an earlier import had written."""
    passed_over: int = 0
    """Rows of other words, or beyond the most of a word."""
    findings: list[Finding] = field(default_factory=list)
    """Rows that are not used, each with its reason, and files that are used although something is wrong with them."""
    words: set[str] = field(default_factory=set)
    speakers: set[str] = field(default_factory=set)

    @property
    def bad(self) -> Counter[str]:
        """How many rows are not used, by reason."""
        return Counter(finding.reason for finding in self.findings if not finding.is_used)

    @property
    def counts(self) -> list[FindingCount]:
        """The findings by reason, each with an example."""
        return count_findings(self.findings)


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
    if is_table(settings.manifest):
        with TemporaryDirectory(dir=_beside(settings.out)) as scratch:
            listed = unpack_table(settings.manifest, Path(scratch))
            return _import(replace(settings, manifest=listed, audio=Path(scratch)), progress, settings.manifest)
    return _import(settings, progress, settings.manifest)


def _beside(out: Path) -> Path:
    """The nearest folder above `out` that is there: the sound of a table takes room on the same disk."""
    return next(folder for folder in out.resolve().parents if folder.is_dir())


def _import(settings: ImportSettings, progress: Callable[[int, int], None], named: Path) -> ImportReport:
    """Import what a list names, which the user knows as `named`."""
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
        speaker=settings.speaker,
    )
    import_ = _Import(settings, report, named)
    with ThreadPoolExecutor(_READERS) as readers:
        while some := list(islice(rows, _AT_ONCE)):
            waiting = list(import_.chosen(some))
            while waiting:
                jobs, waiting = import_.within_most(waiting)
                for outcome in readers.map(_import_one, jobs):
                    import_.note(outcome)
            done += len(some)
            progress(min(done, total), total)
    if not report.written + report.there:
        raise DataError(_nothing(named, report))
    return report


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
    is_written: bool = False
    is_there: bool = False
    findings: tuple[Finding, ...] = ()


class _Import:
    """Which rows become clips: a row whose file cannot be used takes no place among the most of a word."""

    def __init__(self, settings: ImportSettings, report: ImportReport, named: Path) -> None:
        self._settings, self._report, self._named = settings, report, named
        self._taken: Counter[str] = Counter()
        self._targets: set[Path] = set()

    def chosen(self, rows: list[tuple[int, Recording | RowError | None]]) -> Iterator[_Job]:
        """Give the recordings that may be imported and where each goes, and count the other rows."""
        settings = self._settings
        for number, row in rows:
            if row is None:
                self._report.passed_over += 1
                continue
            if isinstance(row, RowError):
                self._refuse(number, str(row))
                continue
            if settings.without and holds_any(row.text, settings.without):
                self._refuse(number, "the sentence holds a keyword")
                continue
            target = settings.out / (RUNNING_FOLDER if settings.running else row.text) / f"{row.name}.flac"
            if target in self._targets:
                self._refuse(number, "named twice in the manifest")
                continue
            self._targets.add(target)
            if not row.has_speaker:
                self._report.findings.append(nobody_in(f"Row {number} of {self._named}"))
            whole = settings.running or row.text == NOISE_FOLDER
            yield _Job(row, target, None if whole else round(settings.seconds * SAMPLE_RATE))

    def within_most(self, jobs: list[_Job]) -> tuple[list[_Job], list[_Job]]:
        """Those to import now, as many as a word still lacks, and those that wait for what becomes of these."""
        now: list[_Job] = []
        later: list[_Job] = []
        begun: Counter[str] = Counter()
        for job in jobs:
            word = job.target.parent.name
            if self._settings.most is None or job.recording.text == NOISE_FOLDER:
                now.append(job)
            elif self._taken[word] >= self._settings.most:
                self._report.passed_over += 1
            elif self._taken[word] + begun[word] < self._settings.most:
                begun[word] += 1
                now.append(job)
            else:
                later.append(job)
        return now, later

    def note(self, outcome: _Outcome) -> None:
        """Count what became of a recording."""
        report, target = self._report, outcome.job.target
        report.findings += outcome.findings
        report.there += outcome.is_there
        report.written += outcome.is_written
        if not (outcome.is_there or outcome.is_written) or outcome.job.recording.text == NOISE_FOLDER:
            return
        self._taken[target.parent.name] += 1
        report.words.add(target.parent.name)
        report.speakers.add(outcome.job.recording.name.partition("_")[0])

    def _refuse(self, number: int, reason: str) -> None:
        self._report.findings.append(Finding(reason, f"Row {number} of {self._named}: {reason}."))


def _import_one(job: _Job) -> _Outcome:
    source, target = job.recording.path, job.target
    if target.is_file() and target.stat().st_size:
        return _Outcome(job, is_there=True)
    try:
        recording = read_recording(source)
    except SoundError as error:
        return _Outcome(job, findings=(error.finding,))
    _write(target, to_int16(recording.samples if job.samples is None else fit_clip(recording.samples, job.samples)))
    return _Outcome(job, is_written=True, findings=recording.findings)


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


def _nothing(manifest: Path, report: ImportReport) -> str:
    if not report.bad:
        return f"No row of {manifest} is of the words asked for: check --words."
    if report.counts[0].reason in {fault.value for fault in SoundFault}:
        return nothing_usable(manifest, report.findings, "row")
    return f"{nothing_usable(manifest, report.findings, 'row')} Check --audio and the columns."
