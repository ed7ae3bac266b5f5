"""A target in a process of its own: what kills or stops it is a finding, with the input that did."""

from __future__ import annotations

import contextlib
import gc
import logging
import mmap
import multiprocessing
import os
import shutil
import signal
import struct
import sys
import time
from dataclasses import replace

from tests.fuzz.run import Finding, Fuzzer, Knowledge, Result, Watch, queued_seconds
from tests.fuzz.scratch import scratch_folder
from tests.fuzz.target import Target

LONGEST = 30.0
"""Seconds after which an input that is still being decoded has stopped its process."""
_HEAD = struct.Struct("<QI")


class Board:
    """Memory shared with a child, on which it writes what it decodes next."""

    def __init__(self, largest: int) -> None:
        self._shared = mmap.mmap(-1, _HEAD.size + largest + (1 << 20))
        self._count, self._reader = 0, os.getpid()

    @property
    def is_read(self) -> bool:
        """Whether the process that reads this is still there; asked by its child."""
        return os.getppid() == self._reader

    def write(self, data: bytes) -> None:
        """Say which input comes now; SystemExit where nobody reads this any more."""
        if not self.is_read:
            sys.exit(1)
        self._count += 1
        data = data[: len(self._shared) - _HEAD.size]
        self._shared[: _HEAD.size + len(data)] = _HEAD.pack(self._count, len(data)) + data

    def read(self) -> tuple[int, bytes]:
        """How many inputs have begun, and the newest."""
        count, length = _HEAD.unpack(self._shared[: _HEAD.size])
        return count, self._shared[_HEAD.size : _HEAD.size + length]


def watched(
    target: Target,
    seed: int,
    cases: int,
    seconds: float | None = None,
    *,
    known: Knowledge | None = None,
    progress: Watch | None = None,
    keep: Watch | None = None,
) -> Result:
    """Run a target in a child; where that dies or stops, the result says with which input.

    Parameters
    ----------
    known
        What earlier runs with this seed found out.
    progress, keep
        As `Fuzzer.run` has them; `keep` is called here, in the parent.
    """
    board, context = Board(target.largest), multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    last = Result(target.name, seed, known=known or Knowledge())

    def fuzz() -> None:
        os.setpgid(0, 0)  # what is decoded may start processes, which end with this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # what is there already is no garbage
        logging.lastResort = logging.NullHandler()  # type: ignore[assignment]  # a warning for each input
        try:
            fuzzer = Fuzzer(target, seed, board.write, last.known)
            theirs.send((True, fuzzer.run(cases, seconds, progress, lambda result: theirs.send((False, result)))))
        finally:
            if not board.is_read:
                shutil.rmtree(folder, ignore_errors=True)
                os.killpg(0, signal.SIGKILL)

    with scratch_folder() as folder:
        child = context.Process(target=fuzz)
        child.start()
        theirs.close()
        assert child.pid is not None
        stopped = _Stopped(child.pid, board)
        try:
            while True:
                if ours.poll(0.5):
                    is_over, last = ours.recv()
                    if is_over:
                        return last
                    if keep is not None:
                        keep(last)
                elif stopped.seconds() > LONGEST:
                    return _ended(last, board, f"no answer within {LONGEST:g} s")
        except EOFError:
            child.join()
            return _ended(last, board, f"the process ended with {child.exitcode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.join()


class _Stopped:
    """For how long a process has been decoding one input, without the time in which it got no processor."""

    def __init__(self, process: int, board: Board) -> None:
        self._process, self._board = process, board
        self._count, self._since, self._queued = 0, time.monotonic(), 0.0

    def seconds(self) -> float:
        """Since its newest input began, as far as this has been asked for."""
        count, _ = self._board.read()
        now, queued = time.monotonic(), queued_seconds(str(self._process))
        if count != self._count or not count:
            self._count, self._since, self._queued = count, now, queued
        return now - self._since - (queued - self._queued)


def _ended(last: Result, board: Board, what: str) -> Result:
    """What is known of a process that gave no last result, with the input that it had."""
    count, data = board.read()
    known = replace(last.known, cases=last.known.cases + count - last.cases)
    found = {**last.findings, what: Finding(what, data, "")}
    return replace(last, cases=count, findings=found, known=known)
