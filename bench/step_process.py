"""Measured processes, driven over pipes: one at a time works, the others wait for their turn and use no core."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")


class Failed(Exception):  # noqa: N818 - a reason, printed in the place of a row
    """A peer does not run here, something did not happen in time, or a program ended; says which."""


class Worker:
    """A process that takes steps when it is asked to.

    Parameters
    ----------
    python
        That of the peer's environment.
    module
        What it runs, such as `bench.step_ours`.
    spec
        What it is told, as JSON.
    core
        The core it is pinned to.
    """

    def __init__(self, python: Path, module: str, spec: Path, core: int, paths: tuple[Path, ...] = ()) -> None:
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        self._process = subprocess.Popen(
            [python, "-m", module, spec],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=surroundings(paths),
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        try:
            self.facts = self._answer()
        except BaseException:
            self.close()
            raise

    def block(self, steps: int, warm: int) -> dict[str, Any]:
        """Run steps; what `step_worker.block` and `memory` give."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"steps": steps, "warm": warm}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:]
            raise Failed(f"it ended with {self._process.returncode}: {' '.join(last)[:300]}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def surroundings(paths: tuple[Path, ...]) -> dict[str, str]:
    """This process's environment, with one thread everywhere and this checkout's `bench` to import."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    search = os.pathsep.join(str(path) for path in (ROOT, *paths))
    return {**own, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": search}


@contextlib.contextmanager
def workers() -> Iterator[list[Worker]]:
    """A list of processes that end with the block, whatever ends it."""
    started: list[Worker] = []
    try:
        yield started
    finally:
        for worker in started:
            worker.close()


def say(line: str) -> None:
    """Progress, on standard error: one line that the next one replaces, on a terminal."""
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{line:<100}", end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """While nobody else holds the lock."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
