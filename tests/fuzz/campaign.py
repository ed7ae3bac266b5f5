"""A campaign: many inputs of each target, in one folder, which can be interrupted at any time and goes on.

The folder has a file `TARGET.json` of each target with what came of it so far, beside it the inputs that led somewhere
new. A target belongs to the process that has its lock, so that any number of
workers, and commands, may share a folder. Targets that will be done soonest come first.
"""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.listening.capture.child_parts import die_with
from tests.fuzz.coverage import LIMIT, reached
from tests.fuzz.run import BATCH, Finding, Knowledge, Result, Watch
from tests.fuzz.target import FOUND, TARGETS, Target
from tests.fuzz.watched import watched

MOST_ENDED = 10
"""Findings that ended the process, after which a target is left."""

ENDING_SECONDS = 5.0
"""After which a worker is killed."""


class Found(msgspec.Struct, frozen=True):
    """A finding, and the file of its shortest input."""

    what: str
    times: int
    input: str
    length: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a target so far."""

    target: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    resumes: int = 0
    command: str = ""
    """Which command was last at it."""
    decoded: int = 0
    refused: int = 0
    places: int = 0
    """Different places at which an input was refused or decoded."""
    slowest_ms: float = 0.0
    grown_mb: int = 0
    findings: tuple[Found, ...] = ()
    lines: int | None = None
    """Inside of the functions of its modules; None: they have not been counted yet."""
    lines_reached: int | None = None
    not_reached: dict[str, list[int]] = {}

    def seconds_left(self, cases: int) -> float:
        """How long the rest of so many inputs will take; 0 where nothing is known of it."""
        return (cases - self.cases) * self.processor_seconds / self.cases if self.cases >= BATCH else 0.0


@dataclass(frozen=True)
class Campaign:
    """A folder, and how much of each target is wanted in it.

    Parameters
    ----------
    folder
        Where everything is.
    seed
        Of the targets that have not begun.
    cases, seconds
        Of each target: enough is what comes first.
    command
        A name of this command, which no other has.
    kept
        Where the inputs of findings go.
    coverage
        Whether lines are counted when a target is done.
    progress
        Called every few seconds with what a run has come to.
    """

    folder: Path
    seed: int
    cases: int
    seconds: float | None
    command: str
    kept: Path
    coverage: bool = False
    progress: Watch | None = None

    def read(self, target: Target) -> Record:
        """What came of a target so far.

        Raises
        ------
        StorageError
            Its file holds something else.
        """
        path = self._file(target, ".json")
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            return Record(target=target.name, seed=self.seed)
        except UNDECODABLE as error:
            raise StorageError(f"{path} is no record of a campaign: {error}.") from error

    def work(self, targets: Sequence[Target], workers: int = 1) -> None:
        """Do what is left of targets, in this process or in several."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if workers == 1:
            self._work(targets)
            return
        parent, context = os.getpid(), multiprocessing.get_context("fork")

        def begin() -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to all: the parent ends this
            die_with(parent)
            self._work(targets)

        started = [context.Process(target=begin) for _ in range(workers)]
        try:
            for each in started:
                each.start()
            for each in started:
                each.join()
        finally:
            for each in started:
                if each.pid is not None:
                    each.terminate()
                    each.join(ENDING_SECONDS)
                    each.kill()
                    each.join()

    def _work(self, targets: Sequence[Target]) -> None:
        while any(self._does_next(target) for target in self._left(targets)):
            """Look again which is next: others may work here, too."""

    def _left(self, targets: Sequence[Target]) -> list[Target]:
        """The targets of which something is left to be done, those first that will be done soonest."""
        left = {target.name: self.read(target) for target in targets}
        left = {name: record for name, record in left.items() if not self._is_done(record)}
        return [TARGETS[name] for name in sorted(left, key=lambda name: left[name].seconds_left(self.cases))]

    def _is_done(self, record: Record) -> bool:
        return self._has_cases(record) and not (self.coverage and record.lines is None)

    def _has_cases(self, record: Record) -> bool:
        late = self.seconds is not None and record.seconds >= self.seconds
        ended = sum(each.times for each in record.findings if "the process" in each.what or "no answer" in each.what)
        return late or record.cases >= self.cases or ended >= MOST_ENDED

    def _does_next(self, target: Target) -> bool:
        """Do the next step of a target; False where another process is at it, or has done it."""
        with self._locked(target) as is_ours:
            record = self.read(target)
            if not is_ours or self._is_done(record):
                return False
            if not self._has_cases(record):
                self._run(target, record)
            elif self.coverage:
                lines = reached(target, record.seed, LIMIT, self._knowledge(target, record))
                self._write(target, msgspec.convert(msgspec.to_builtins(record) | lines, Record))
            return True

    def _run(self, target: Target, record: Record) -> None:
        """Give a target the rest of its inputs; to begin with as few as show how fast it is."""
        resumed = bool(record.command) and record.command != self.command
        record = msgspec.structs.replace(
            record, command=self.command, resumes=record.resumes + resumed, lines=None, lines_reached=None
        )
        left = BATCH - record.cases if record.cases < BATCH else self.cases - record.cases
        seconds = None if self.seconds is None else self.seconds - record.seconds

        def keep(result: Result) -> None:
            self._keep(target, record, result)

        result = watched(
            target,
            record.seed,
            min(left, self.cases - record.cases),
            seconds,
            known=self._knowledge(target, record),
            progress=self.progress,
            keep=keep,
        )
        keep(result)

    def _keep(self, target: Target, before: Record, result: Result) -> None:
        """Write what came of a target with one more run."""
        findings = {each.what: each for each in before.findings}
        for what, finding in result.findings.items():
            known = findings.get(what)
            times = finding.times + (known.times if known else 0)
            if known is None or len(finding.input) < known.length:
                findings[what] = Found(what, times, self._keep_input(target, what, finding), len(finding.input))
            else:
                findings[what] = msgspec.structs.replace(known, times=times)
        record = msgspec.structs.replace(
            before,
            cases=before.cases + result.cases,
            seconds=before.seconds + result.seconds,
            processor_seconds=before.processor_seconds + result.processor,
            decoded=before.decoded + result.decoded,
            refused=before.refused + result.refused,
            places=len(result.known.places),
            slowest_ms=max(before.slowest_ms, round(result.slowest * 1e3, 1)),
            grown_mb=max(before.grown_mb, result.grown),
            findings=tuple(findings.values()),
        )
        _write_whole(self._file(target, ".pool"), msgspec.msgpack.encode((result.known.pool, result.known.places)))
        self._write(target, record)

    def _keep_input(self, target: Target, what: str, finding: Finding) -> str:
        path = self.kept / target.name / f"{FOUND}{hashlib.sha256(finding.input).hexdigest()[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(finding.input)
        path.with_suffix(".txt").write_text(f"{what}\n{finding.trace}")
        return str(path)

    def _knowledge(self, target: Target, record: Record) -> Knowledge:
        try:
            pool, places = msgspec.msgpack.decode(self._file(target, ".pool").read_bytes(), type=_Kept)
        except (FileNotFoundError, *UNDECODABLE):
            pool, places = [], set()
        return Knowledge(record.cases, pool, places)

    def _write(self, target: Target, record: Record) -> None:
        _write_whole(self._file(target, ".json"), msgspec.json.format(msgspec.json.encode(record), indent=1))

    def _file(self, target: Target, suffix: str) -> Path:
        return self.folder / f"{target.name}{suffix}"

    @contextmanager
    def _locked(self, target: Target) -> Iterator[bool]:
        """Whether no other process has this target; until the end of this, none will."""
        with self._file(target, ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


_Kept = tuple[list[bytes], set[int]]


def _write_whole(path: Path, data: bytes) -> None:
    """Replace a file, so that it is the old or the new one whenever this ends; not synced: a campaign may lose it."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)
