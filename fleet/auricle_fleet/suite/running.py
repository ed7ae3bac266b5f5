"""Runs of a suite, several at a time, each in a process of its own; what has ended is not run again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from auricle_fleet.results.live import View
from auricle_fleet.suite.folder import Ended, SuiteFolder
from auricle_fleet.suite.plan import Cell
from auricle_fleet.units import duration, percent

PATIENCE = 60.0
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

    async def _work(self, queue: Iterable[Cell], ended: dict[str, Ended], total: int) -> None:
        for cell in queue:
            why = await self._one(cell)
            result = self._folder.ended(cell) if why is None else None
            if result is None:
                self.failed[cell.name] = why or "it ended early"
                self._view.say(f"{cell.name}: {self.failed[cell.name]}")
                continue
            ended[cell.name] = result
            left = (time.monotonic() - self._began) * (self._total - self._done) / max(self._done, 1)
            self._view.say(
                f"{len(ended)}/{total}  {cell.name}  unseen {percent(result.summary.plugin_accuracy_unseen)}  "
                f"personal {percent(result.summary.personal_accuracy)}  {duration(result.summary.seconds)}  "
                f"left {duration(left)}"
            )

    async def _one(self, cell: Cell) -> str | None:
        """Run or go on with one; why it failed, None where it did not."""
        place = self._folder.place(cell)
        how = ["--resume"] if self._folder.is_begun(cell) else ["--config", str(self._folder.told(cell))]
        command = [sys.executable, "-m", "auricle", "fleet", "run", *how, "--out", str(place), "--json"]
        with self._folder.log(cell).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True, limit=1 << 24
            )
            seen = 0
            try:
                seen = await self._watch(process)
                code = await process.wait()
            finally:
                await _end(process)
        self._done += cell.settings.rounds - seen  # those of before an interruption, or that a failure left out
        return None if code == 0 else _why(self._folder.log(cell), code)

    async def _watch(self, process: asyncio.subprocess.Process) -> int:
        """Count the rounds of a run as it tells them, a line of JSON each."""
        assert process.stdout is not None
        seen = 0
        async for line in process.stdout:
            with contextlib.suppress(ValueError):
                told = json.loads(line)
                if isinstance(told, dict) and "state" in told:
                    seen += 1
                    self._done += 1
                    self._view.step("rounds", self._done, self._total)
        return seen


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a run that still goes to end, and wait until it has."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), PATIENCE)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _why(log: Path, code: int) -> str:
    """The last sentence that a run said."""
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return said[-1].removeprefix("auricle: ") if said else f"it ended with exit code {code} and said nothing"
