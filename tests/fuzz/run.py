"""Give a target its inputs, and see what it answers with, how long it takes and how much memory."""

from __future__ import annotations

import gc
import os
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target

ROOT = Path(__file__).parents[2]
LARGEST_POOL = 2000
"""Inputs that led somewhere new, from which others are made."""
WAITED = 8.0
"""Seconds after which an answer is late, whether or not the processor was busy."""
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
class Result:
    """What came of a target."""

    target: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    decoded: int = 0
    refused: int = 0
    reached: int = 0
    """Different places at which an input was refused or decoded."""
    slowest: float = 0.0
    """Processor seconds of the slowest input."""
    grown: int = 0
    """Megabytes by which memory grew from the first tenth of the inputs to the last."""
    findings: dict[str, Finding] = field(default_factory=dict)


def place(error: BaseException) -> str:
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


class Fuzzer:
    """One target, one seed."""

    def __init__(self, target: Target, seed: int, before: Callable[[bytes], None] | None = None) -> None:
        self.target, self.result = target, Result(target.name, seed)
        self._before = before
        self._pool = target.seeds()
        self._random = random.Random(f"{target.name} {seed}")
        self._mutator = Mutator(self._random, target.form, target.tokens, target.largest)
        self._memory = Memory()
        self._seen: Counter[str] = Counter()

    def run(self, cases: int, seconds: float | None = None, progress: Callable[[Result], None] | None = None) -> Result:
        """The seeds of the corpus, then changed ones, until so many cases or seconds are over."""
        begun = said = time.monotonic()
        inputs = list(self._pool)
        steady = 0
        for case in range(cases):
            self.one(inputs[case] if case < len(inputs) else self._next(inputs))
            now = time.monotonic()
            self.result.seconds = now - begun
            if case == max(len(inputs), min(cases, 20_000) // 10):
                steady = self._memory.own()
            if progress is not None and now - said > 5:
                said = now
                progress(self.result)
            if seconds is not None and now - begun > seconds:
                break
        self.result.grown = max(0, self._memory.own() - steady >> 10) if steady else 0
        if self.result.grown > GROWN:
            self._found(f"memory grew by {self.result.grown} MB over all inputs", b"", "")
        self.result.reached = len(self._seen)
        self._memory.close()
        return self.result

    def _next(self, inputs: list[bytes]) -> bytes:
        """A changed input: of the corpus, or of what led somewhere new."""
        data = self._mutator.next(inputs if self._random.random() < 0.5 else self._pool)
        mend = self.target.mend
        return data if mend is None or self._random.random() < 0.2 else mend(data)

    def one(self, data: bytes) -> None:
        """Decode one input and judge what it did."""
        self.result.cases += 1
        if self._before is not None:
            self._before(data)
        begun = time.monotonic()
        spent, grown, what, trace = self._decoded(data)
        waited = time.monotonic() - begun
        if spent > self.target.seconds or grown > self.target.megabytes or waited > WAITED:
            begun = time.monotonic()  # again: a busy machine is no finding
            spent, grown, what, trace = self._decoded(data)
            waited = time.monotonic() - begun
        self.result.slowest = max(self.result.slowest, spent)
        if spent > self.target.seconds:
            self._found(f"took more than {self.target.seconds:g} s", data, trace)
        elif waited > WAITED:
            self._found(f"waited for more than {WAITED:g} s", data, trace)
        if grown > self.target.megabytes:
            self._found(f"took more than {self.target.megabytes} MB", data, trace)
        self._seen[what] += 1
        if self._seen[what] == 1 and len(data) <= self.target.largest and len(self._pool) < LARGEST_POOL:
            self._pool.append(data)

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
            what, trace = place(error), traceback.format_exc()
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
