"""Give a target its inputs, and see what it answers with, how long it takes and how much memory."""

from __future__ import annotations

import gc
import os
import random
import resource
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target

ROOT = Path(__file__).parents[2]
BATCH = 1000
"""Inputs after which the draws begin afresh: a run that was interrupted goes on there with the inputs of another."""
LARGEST_POOL = 2000
"""Inputs that led somewhere new, from which others are made."""
WAITED = 8.0
"""Seconds after which an answer is late, whether or not the processor was busy."""
KEPT_EVERY = 20.0
"""Seconds between two results of which a run can go on."""
GROWN = 96
"""Megabytes by which the memory of a process may have grown after all inputs: more is a leak."""


@dataclass
class Finding:
    """An input with which a decoder did not keep the rule."""

    what: str
    """The exception with its place, or which bound was passed."""
    input: bytes
    trace: str
    times: int = 1


@dataclass
class Knowledge:
    """What the inputs so far have led to: a run that goes on begins with it."""

    cases: int = 0
    """Inputs so far, of all runs."""
    pool: list[bytes] = field(default_factory=list)
    """Inputs that led somewhere new, beside those of the corpus."""
    places: set[int] = field(default_factory=set)
    """Checksums of the places at which inputs were refused or decoded."""


@dataclass
class Result:
    """What came of a target in one run."""

    target: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of it that a processor was at work."""
    decoded: int = 0
    refused: int = 0
    slowest: float = 0.0
    """Processor seconds of the slowest input."""
    grown: int = 0
    """Megabytes by which memory grew from the first tenth of the inputs to the last."""
    findings: dict[str, Finding] = field(default_factory=dict)
    known: Knowledge = field(default_factory=Knowledge)


def queued_seconds(task: str = "thread-self") -> float:
    """Seconds that a thread has waited for a processor to be free; 0 where the kernel does not count them."""
    try:
        return int(Path(f"/proc/{task}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def place_of(error: BaseException) -> str:
    """The kind of an exception and the line that raised it."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f"{last.tb_frame.f_code.co_filename.removeprefix(f'{ROOT}/')}:{last.tb_lineno}"
    return f"{type(error).__name__} at {where}"


class Memory:
    """The memory of this process, as the kernel counts it; where it does not, nothing is ever too much."""

    def __init__(self) -> None:
        try:
            self._reset: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY)
        except OSError:
            self._reset = None

    def forget(self) -> int:
        """Begin a new peak; kilobytes now."""
        if self._reset is not None:
            os.write(self._reset, b"5")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def peak(self) -> int:
        """Kilobytes at the most since then."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def own(self) -> int:
        """Kilobytes now that are this process's alone: pages of files come and go as the kernel likes."""
        gc.collect()
        try:
            status = Path("/proc/self/status").read_text()
        except OSError:
            return self.peak()
        return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")), self.peak())

    def close(self) -> None:
        """Give the descriptor back."""
        if self._reset is not None:
            os.close(self._reset)


Watch = Callable[[Result], None]


class Fuzzer:
    """One target, one seed.

    Parameters
    ----------
    before
        Called with each input before it is decoded.
    known
        What earlier runs with this seed found out; it grows.
    """

    def __init__(
        self,
        target: Target,
        seed: int,
        before: Callable[[bytes], None] | None = None,
        known: Knowledge | None = None,
    ) -> None:
        self.target, self.result = target, Result(target.name, seed, known=known or Knowledge())
        self._known, self._before = self.result.known, before
        self._corpus = target.seeds()
        self._pool = [*self._corpus, *self._known.pool]
        self._longest = min(target.largest, max(4096, 2 * max(map(len, self._corpus))))  # much longer ones are slow
        self._random = random.Random()
        self._mutator = Mutator(self._random, target.form, target.tokens, target.largest)
        self._memory = Memory()

    def run(
        self, cases: int, seconds: float | None = None, progress: Watch | None = None, keep: Watch | None = None
    ) -> Result:
        """The corpus, then changed inputs, until so many cases or seconds are over.

        Parameters
        ----------
        progress
            Called every five seconds.
        keep
            Called every twenty seconds, where a run can go on.
        """
        begun = said = kept = time.monotonic()
        worked = time.process_time()
        steady = 0
        for case in range(cases):
            if case == 0 or self._known.cases % BATCH == 0:
                self._random.seed(f"{self.target.name} {self.result.seed} {self._known.cases}")
                if keep is not None and time.monotonic() - kept > KEPT_EVERY:
                    kept = time.monotonic()
                    keep(self.result)
            self.one(self._next())
            now = time.monotonic()
            self.result.seconds, self.result.processor = now - begun, time.process_time() - worked
            if case == max(len(self._corpus), min(cases, 20_000) // 10):
                steady = self._memory.own()
            if progress is not None and now - said > 5:
                said = now
                progress(self.result)
            if seconds is not None and now - begun > seconds:
                break
        self.result.grown = max(0, self._memory.own() - steady >> 10) if steady else 0
        if self.result.grown > GROWN:
            self._found(f"memory grew by {self.result.grown} MB over all inputs", b"", "")
        self._memory.close()
        return self.result

    def _next(self) -> bytes:
        """The next of the corpus; after it a changed input, of the corpus or of what led somewhere new."""
        if self._known.cases < len(self._corpus):
            return self._corpus[self._known.cases]
        data = self._mutator.next(self._corpus if self._random.random() < 0.5 else self._pool)
        mend = self.target.mend
        return data if mend is None or self._random.random() < 0.2 else mend(data)

    def one(self, data: bytes) -> None:
        """Decode one input and judge what it did."""
        self.result.cases += 1
        self._known.cases += 1
        if self._before is not None:
            self._before(data)
        begun = time.monotonic()
        spent, grown, what, trace = self._decoded(data)
        waited = time.monotonic() - begun
        if spent > self.target.seconds or grown > self.target.megabytes or waited > WAITED:
            begun, queued = time.monotonic(), queued_seconds()  # again: a busy machine is no finding
            spent, grown, what, trace = self._decoded(data)
            waited = time.monotonic() - begun - (queued_seconds() - queued)
        self.result.slowest = max(self.result.slowest, spent)
        if spent > self.target.seconds:
            self._found(f"took more than {self.target.seconds:g} s", data, trace)
        elif waited > WAITED:
            self._found(f"waited for more than {WAITED:g} s", data, trace)
        if grown > self.target.megabytes:
            self._found(f"took more than {self.target.megabytes} MB", data, trace)
        place = zlib.crc32(what.encode("utf-8", "replace"))
        if place not in self._known.places:
            self._known.places.add(place)
            if self._known.cases > len(self._corpus) and len(self._pool) < LARGEST_POOL and len(data) <= self._longest:
                self._pool.append(data)
                self._known.pool.append(data)

    def _decoded(self, data: bytes) -> tuple[float, int, str, str]:
        """Processor seconds, megabytes, what it answered with, and how it came to that where it should not."""
        before, begun = self._memory.forget(), time.thread_time()
        what, trace = "decoded", ""
        try:
            answer = self.target.decode(data)
            self.result.decoded += 1
            what = f"decoded {answer!r:.24}"
        except self.target.refusals as error:
            self.result.refused += 1
            what = _through(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # all others are findings, SystemExit and MemoryError too
            what, trace = place_of(error), traceback.format_exc()
            self._found(what, data, trace)
        return time.thread_time() - begun, self._memory.peak() - before >> 10, what, trace

    def _found(self, what: str, data: bytes, trace: str) -> None:
        known = self.result.findings.get(what)
        if known is None:
            self.result.findings[what] = Finding(what, data, trace)
        else:
            known.times += 1
            if len(data) < len(known.input):
                known.input, known.trace = data, trace


def _through(error: BaseException) -> str:
    """Every line on the way to a refusal: another way is a new place."""
    lines, at = [type(error).__name__], error.__traceback__
    while at is not None:
        lines.append(str(at.tb_lineno))
        at = at.tb_next
    if error.__cause__ is not None:
        lines.append(str(error.__cause__)[:40])
    return " ".join(lines)
