"""A process that makes one run of a suite after the other: what runs have in common is imported and read once.

`python -m auricle_fleet.suite.worker` takes a line of JSON for each run (`Order`) on standard input, and answers with a
line for each round and one for the run's end (`Report`) on standard output.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import TextIO

import msgspec

from auricle.errors import AuricleError
from auricle_fleet.population.speech_cache import SpeechCache
from auricle_fleet.results.live import Silent
from auricle_fleet.results.result import FleetResult, RoundRow
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to be made."""

    out: str
    """Its folder."""
    settings: str | None
    """File of its settings; None: go on with what is in the folder."""
    log: str
    """File for what the run says."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A round that is over, or with `ended` the run."""

    round: int = 0
    ended: bool = False
    interrupted: bool = False
    why: str | None = None
    """Why it failed, a sentence; None where it did not."""


class Log(Silent):
    """Writes what a run says into a file, and reports its rounds.

    Parameters
    ----------
    log
        The file.
    answers
        Where rounds are reported.
    """

    def __init__(self, log: TextIO, answers: TextIO) -> None:
        self._log, self._answers = log, answers

    def say(self, text: str) -> None:
        """Write a sentence."""
        print(text, file=self._log, flush=True)

    def round(self, row: RoundRow) -> None:
        """Report a round."""
        report(self._answers, Report(round=row.round))


def report(answers: TextIO, what: Report) -> None:
    """Write a line to the process that gave the order."""
    print(msgspec.json.encode(what).decode(), file=answers, flush=True)


class SuiteWorker:
    """Makes runs one after the other.

    Parameters
    ----------
    answers
        Where rounds and ends are reported.
    """

    def __init__(self, answers: TextIO) -> None:
        self._answers, self._speech = answers, SpeechCache()

    def make(self, order: Order) -> Report:
        """Make a run, or go on with it; what it came to. A run that fails leaves its sentence in its log, too."""
        with Path(order.log).open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            try:
                interrupted = self._make(order, Log(log, self._answers)).interrupted
            except KeyboardInterrupt:  # before the first round
                return Report(ended=True, interrupted=True)
            except AuricleError as error:
                print(f"auricle: {error}", file=log)
                return Report(ended=True, why=str(error))
            except Exception as error:  # noqa: BLE001  # the other runs go on; the log has all of it
                traceback.print_exc(file=log)
                return Report(ended=True, why=f"unexpected {type(error).__name__}: its log says where")
        return Report(ended=True, interrupted=interrupted)

    def _make(self, order: Order, view: Silent) -> FleetResult:
        out = Path(order.out)
        if order.settings is None:
            return FleetRun.resume(out, view=view, load=self._speech).run()
        settings = FleetSettings.read(Path(order.settings))
        if not settings.processes and settings.ray is None:  # runs are in processes of their own already
            settings = msgspec.structs.replace(settings, processes=1)
        return FleetRun(settings, out, view=view, load=self._speech).run()


def main() -> None:
    """Take orders until there are no more, or a run was interrupted."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    worker = SuiteWorker(answers)
    for line in sys.stdin:
        done = worker.make(msgspec.json.decode(line, type=Order))
        report(answers, done)
        if done.interrupted:
            return


if __name__ == "__main__":
    main()
