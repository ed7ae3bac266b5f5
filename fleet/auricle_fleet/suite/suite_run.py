"""A suite from its file to its page: what is tuned first, then every run, then tables and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError
from auricle_fleet.population.traces import require_traces
from auricle_fleet.results.live import View
from auricle_fleet.results.png import why_not
from auricle_fleet.suite.folder import Ended, SuiteFolder
from auricle_fleet.suite.packs import build_missing, own_packs, with_packs
from auricle_fleet.suite.page import Shown, write_shown
from auricle_fleet.suite.parts import Values
from auricle_fleet.suite.plan import Suite, cells
from auricle_fleet.suite.record import Size, SuiteRecord, Tuned
from auricle_fleet.suite.running import SuiteRunner
from auricle_fleet.suite.tables import Results, results
from auricle_fleet.suite.tuning import Try, best_tries, by_what, every_try, first_tries, second_tries, told


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
    size
        Which it has of those of its file.

    Raises
    ------
    SettingsError
        A run of it would be refused, or it names a pack that is not there.
    DataError
        A trace that a group follows cannot be followed.
    StorageError
        The folder cannot be made.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        name: str,
        where: str,
        out: Path,
        jobs: int,
        view: View,
        command: str,
        size: Size = "small",
    ) -> None:
        self._size: Size = size
        self._packs = own_packs(suite, out)
        suite = with_packs(suite, self._packs, where)
        self._suite, self._name, self._where, self._view, self._command = suite, name, where, view, command
        tries = [each.cell for each in every_try(suite, where)]
        found = [*cells(suite, where), *tries]  # what would be refused is refused here
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
        SettingsError
            A pack of its own cannot be built.
        """
        await build_missing(self._packs, self._view)
        best = await self._tune()
        ended = await self._runner.run(cells(self._suite, self._where, best))
        if not ended:
            raise DataError("No run of the suite has ended: there is nothing to compare.")
        found = results(self._suite, ended)
        packs = [pack.describe() for pack in self._packs]
        shown = Shown(
            self._name, self._suite, ended, found, self._runner.failed, self._tuned, self._command, self._size, packs
        )
        page = write_shown(self._folder.folder, shown)
        if why_not():
            self._view.say(why_not())
        return SuiteResult(found, self._runner.failed, page, shown.record)

    async def _tune(self) -> dict[str, Values] | None:
        """What each method keeps of what it tried; None where nothing is tuned."""
        tuning = self._suite.tuning
        if tuning is None:
            return None
        methods, budget = len(self._suite.methods), len(tuning.values)
        self._view.say(
            f"tunes {tuning.setting} and the methods' own constants {by_what(self._suite)}, seed {tuning.seed}: "
            f"{budget} tries a method, {methods * budget} runs"
        )
        tries = first_tries(self._suite, self._where)
        ended = await self._run_tries(tries)
        second = second_tries(self._suite, self._where, best_tries(self._suite, tries, ended))
        ended |= await self._run_tries(second)
        tries += second
        best = best_tries(self._suite, tries, ended)
        self._tuned = told(self._suite, tries, best, ended)
        for each in self._tuned:
            self._view.say(f"{each.method}: {each.tries()}; keeps {each.kept}")
        return {method: each.over for method, each in best.items()}

    async def _run_tries(self, tries: Sequence[Try]) -> dict[str, Ended]:
        return {each.cell.name: each for each in await self._runner.run([each.cell for each in tries])} if tries else {}
