"""Runs of a suite, several at a time, in processes that make one after the other; what has ended is not run again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from auricle.wire.kinds import UNDECODABLE
from auricle_fleet.results.live import View
from auricle_fleet.settings.units import duration, percent
from auricle_fleet.suite.folder import Ended, SuiteFolder
from auricle_fleet.suite.plan import Cell
from auricle_fleet.suite.worker import Order, Report

PATIENCE_SECONDS = 60.0
"""Seconds that a run has to end after it was asked to."""


class SuiteRunner:
    """Runs cells.

    Parameters
    ----------
    folder
        Where they lie.
    jobs
        How many run at a time, 1 or more.
    view
        Where progress is shown.
    """

    def __init__(self, folder: SuiteFolder, jobs: int, view: View) -> None:
        self._folder, self._jobs, self._view = folder, jobs, view
        self.failed: dict[str, str] = {}
        """Why a run failed, by its name."""

    async def run(self, wanted: Sequence[Cell]) -> list[Ended]:
        """Run what has not ended yet; everything that has ended by then, in the order given.

        A run that fails is named in `failed`, and the others go on. Cancelled, all runs end cleanly first.
        """
        ended: dict[str, Ended] = {}
        for cell in wanted:
            before = self._folder.ended(cell)
            if before is not None:
                ended[cell.name] = before
        waiting = [cell for cell in wanted if cell.name not in ended]
        if ended:
            self._view.say(f"{len(ended)} of {len(wanted)} runs have ended before")
        self._total = sum(cell.settings.rounds for cell in waiting)
        self._done, self._began = 0, time.monotonic()
        queue = iter(waiting)
        workers = [asyncio.create_task(self._work(queue, ended, len(wanted))) for _ in range(self._jobs)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [ended[cell.name] for cell in wanted if cell.name in ended]

    async def _work(self, queue: Iterator[Cell], ended: dict[str, Ended], total: int) -> None:
        worker = WorkerProcess()
        try:
            for cell in queue:
                why = await self._one(worker, cell)
                result = self._folder.ended(cell) if why is None else None
                if result is None:
                    self.failed[cell.name] = why or "it ended early"
                    self._view.say(f"{cell.name}: {self.failed[cell.name]}")
                    continue
                self._folder.tidy(result)
                ended[cell.name] = result
                left = (time.monotonic() - self._began) * (self._total - self._done) / max(self._done, 1)
                self._view.say(
                    f"{len(ended)}/{total}  {cell.name}  unseen {percent(result.summary.plugin_accuracy_unseen)}  "
                    f"personal {percent(result.summary.personal_accuracy)}  {duration(result.summary.seconds)}  "
                    f"left {duration(left)}"
                )
        finally:
            await worker.end()

    async def _one(self, worker: WorkerProcess, cell: Cell) -> str | None:
        """Run or go on with one; why it failed, None where it did not."""
        place, log = self._folder.place(cell), self._folder.log(cell)
        told = None if self._folder.is_begun(cell) else str(self._folder.told(cell))
        seen = 0

        def count() -> None:
            nonlocal seen
            seen += 1
            self._done += 1
            self._view.step("rounds", self._done, self._total)

        why = await worker.run(Order(out=str(place), settings=told, log=str(log)), count)
        self._done += cell.settings.rounds - seen  # those of before an interruption, or that a failure left out
        return why


class WorkerProcess:
    """A process that makes runs (`suite.worker`); it begins with the first one, and again after it was lost."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, order: Order, on_round: Callable[[], None]) -> str | None:
        """Make a run; why it failed, None where it did not."""
        process = await self._running(Path(order.log))
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has ended: no answer comes
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            with contextlib.suppress(*UNDECODABLE):
                told = msgspec.json.decode(line, type=Report)
                if told.ended:
                    return told.why
                on_round()
        return f"its process ended with exit code {await process.wait()}: {order.log} has what it said"

    async def _running(self, log: Path) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            await self.end()
            pipe = asyncio.subprocess.PIPE
            with log.open("ab") as errors:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "auricle_fleet.suite.worker"),
                    stdin=pipe,
                    stdout=pipe,
                    stderr=errors,
                    start_new_session=True,
                )
        return self._process

    async def end(self) -> None:
        """Ask it to end the run under way cleanly, and wait until it has."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        rest = asyncio.ensure_future(process.communicate())  # closes its pipes, too, while there is a loop to do it
        try:
            await asyncio.wait_for(asyncio.shield(rest), PATIENCE_SECONDS)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await rest
