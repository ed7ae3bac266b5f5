"""A target in a process of its own: what kills or stops it is a finding, with the input that did."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable

from tests.fuzz.run import Finding, Fuzzer, Result
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


Progress = Callable[[Result], None] | None


def watched(target: Target, seed: int, cases: int, seconds: float | None, progress: Progress) -> Result:
    """Run a target in a child; where that dies or stops, the result says with which input."""
    board, context = Board(target.largest), multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def fuzzed() -> None:
        os.setpgid(0, 0)  # what is decoded may start processes, which end with this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            theirs.send(Fuzzer(target, seed, board.write).run(cases, seconds, progress))
        finally:
            if not board.is_read:
                shutil.rmtree(folder, ignore_errors=True)
                os.killpg(0, signal.SIGKILL)

    with scratch_folder() as folder:
        child = context.Process(target=fuzzed)
        child.start()
        theirs.close()
        last, since = 0, time.monotonic()
        try:
            while not ours.poll(0.5):
                count, _ = board.read()
                if count != last:
                    last, since = count, time.monotonic()
                elif time.monotonic() - since > LONGEST and count:
                    return _ended(target, seed, board, f"no answer within {LONGEST:g} s")
            result: Result = ours.recv()
            return result
        except EOFError:
            child.join()
            return _ended(target, seed, board, f"the process ended with {child.exitcode}")
        finally:
            assert child.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.join()


def _ended(target: Target, seed: int, board: Board, what: str) -> Result:
    count, data = board.read()
    return Result(target.name, seed, cases=count, findings={what: Finding(what, data, "")})
