"""A suite from its file to its page: what is tuned first, then every run, then tables and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle.errors import DataError
from auricle_fleet.emulation.traces import require_traces
from auricle_fleet.results.live import View
from auricle_fleet.results.png import why_not
from auricle_fleet.suite.folder import SuiteFolder
from auricle_fleet.suite.page import Shown, write_shown
from auricle_fleet.suite.plan import Condition, Method, Suite, cells, tuning_cells
from auricle_fleet.suite.record import SuiteRecord, Tuned
from auricle_fleet.suite.running import SuiteRunner
from auricle_fleet.suite.tables import Results, results
from auricle_fleet.units import percent

_Table = TypeVar("_Table", Method, Condition)


@dataclass(frozen=True)
class SuiteResult:
    """What a suite came to."""

    results: Results
    failed: Mapping[str, str]
    page: Path
    record: SuiteRecord
    """What `results.json` says."""


class SuiteRun:
    """Runs a suite; what an earlier run of it has ended is taken over.

    Parameters
    ----------
    suite
        What to run.
    name
        For its page.
    where
        Its file, for messages.
    out
        Its folder.
    jobs
        Runs at a time, 1 or more.
    view
        Where progress is shown.
    command
        That repeats it, for the page.

    Raises
    ------
    SettingsError
        A run of it would be refused.
    DataError
        A trace that a group follows cannot be followed.
    StorageError
        The folder cannot be made.
    """

    def __init__(self, suite: Suite, *, name: str, where: str, out: Path, jobs: int, view: View, command: str) -> None:
        self._suite, self._name, self._where, self._view, self._command = suite, name, where, view, command
        self._tries = list(tuning_cells(suite, where))
        found = [*cells(suite, where), *(cell for _, _, cell in self._tries)]  # what would be refused is refused here
        require_traces({group for cell in found for group in cell.settings.groups})
        self._folder = SuiteFolder(out)
        self._runner = SuiteRunner(self._folder, jobs, view)
        self._tuned: list[Tuned] = []

    async def run(self) -> SuiteResult:
        """Run everything, and write tables and page; cancelled, the runs under way end and can go on later.

        Raises
        ------
        DataError
            No run ended.
        """
        best = await self._tune()
        ended = await self._runner.run(cells(self._suite, self._where, best))
        if not ended:
            raise DataError("No run of the suite has ended: there is nothing to compare.")
        found = results(self._suite, ended)
        shown = Shown(self._name, self._suite, ended, found, self._runner.failed, self._tuned, self._command)
        page = write_shown(self._folder.folder, shown)
        if why_not():
            self._view.say(why_not())
        return SuiteResult(found, self._runner.failed, page, shown.record)

    async def _tune(self) -> dict[str, object] | None:
        """The best value of the tuned setting by method; None where nothing is tuned."""
        if not self._tries:
            return None
        tuning = self._suite.tuning
        self._view.say(f"tunes {'' if tuning is None else tuning.setting} on {len(self._tries)} runs")
        ended = {each.cell.name: each for each in await self._runner.run([cell for _, _, cell in self._tries])}
        best: dict[str, object] = {}
        for method in self._suite.methods:
            reached = [
                (ended[cell.name].summary.plugin_accuracy_unseen, value)
                for name, value, cell in self._tries
                if name == method.name and cell.name in ended
            ]
            known = [(accuracy, value) for accuracy, value in reached if accuracy is not None]
            if known:
                best[method.name] = max(known, key=lambda pair: pair[0])[1]
                tried = ", ".join(f"{value}: {percent(accuracy)}" for accuracy, value in known)
                values = tuple((value, accuracy) for accuracy, value in known)
                self._tuned.append(Tuned(method=method.name, tried=values, kept=best[method.name]))
                self._view.say(f"{method.name}: {tried}; keeps {best[method.name]}")
        return best


def _without(table: _Table, over: Mapping[str, object]) -> _Table:
    """A method or condition that leaves to the command line what that says."""
    settings = {name: value for name, value in table.settings.items() if name not in over}
    return msgspec.structs.replace(table, settings=settings)


def narrowed(suite: Suite, *, data: str | None, rounds: int | None, seeds: Sequence[int] | None) -> Suite:
    """The suite with what a command line changes in it."""
    over: dict[str, object] = {}
    tuning = suite.tuning
    if data is not None:
        over["data"] = data
    if rounds is not None:
        over["rounds"] = rounds
        if tuning is not None:
            tuning = msgspec.structs.replace(tuning, rounds=min(rounds, tuning.rounds or rounds))
    changed = msgspec.structs.replace(
        suite,
        settings={**suite.settings, **over},
        methods=tuple(_without(method, over) for method in suite.methods),
        conditions=tuple(_without(condition, over) for condition in suite.conditions),
        tuning=tuning,
    )
    return changed if seeds is None else msgspec.structs.replace(changed, seeds=tuple(seeds))
