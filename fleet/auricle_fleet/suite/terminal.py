"""Suites on a terminal: which are asked for, their list, and one that runs, with its tables at the end."""

from __future__ import annotations

import asyncio
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.process.ending import fit_to_terminal
from auricle.process.table import Column, print_grid
from auricle.process.until_signal import until_signal
from auricle_fleet.results.live import View
from auricle_fleet.suite.claims import methods_alike
from auricle_fleet.suite.plan import Suite, read_suite, shipped
from auricle_fleet.suite.prints import find_item
from auricle_fleet.suite.sizes import full_size, narrowed
from auricle_fleet.suite.suite_run import SuiteResult, SuiteRun
from auricle_fleet.suite.written import tables
from auricle_learning.aggregation.compute.matrix import usable_threads


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked: a suite and how it is to run, as the command's options say it."""

    named: str
    """Name or file; empty: all that are shipped."""
    out: Path | None
    jobs: int | None
    data: str | None
    rounds: int | None
    seeds: str | None
    full: bool

    def suites(self) -> list[tuple[Suite, Path]]:
        """The suites with their files: of all that are shipped those that have a full size in it, where it is asked."""
        numbers = None if self.seeds is None else _numbers(self.seeds)
        found = [read_suite(name) for name in ([self.named] if self.named else shipped())]
        sized = [
            (full_size(read, str(path)) if self.full and (self.named or read.full) else read, path)
            for read, path in found
        ]
        return [(narrowed(read, data=self.data, rounds=self.rounds, seeds=numbers), path) for read, path in sized]

    @property
    def command(self) -> str:
        """The line that asks for it."""
        options = {
            "--out": self.out,
            "--jobs": self.jobs,
            "--data": self.data,
            "--rounds": self.rounds,
            "--seeds": self.seeds,
        }
        given = [part for name, value in options.items() if value is not None for part in (name, str(value))]
        return shlex.join(["auricle", "fleet", "suite", self.named, *["--full"] * self.full, *given])


def run_suite(request: Request, as_json: bool) -> int:
    """Run what has not ended of a suite, and show its tables; the exit code."""
    told, path = request.suites()[0]
    folder = Path("suites") / f"{path.stem}{'-full' * request.full}" if request.out is None else request.out
    with View(as_json=as_json) as view:
        run = SuiteRun(
            told,
            name=path.stem,
            where=str(path),
            out=folder,
            jobs=request.jobs or usable_threads(),
            view=view,
            command=request.command,
            size="full" if request.full else "small",
        )
        ends = "ends: the runs under way write what they did; Ctrl-C again does not wait for them"
        result = asyncio.run(until_signal(run.run(), lambda: view.say(ends), view.give_back))
    if result is None:
        if not as_json:
            typer.echo(f"Interrupted. Go on with:\n  {request.command}")
        return 130
    return _conclude(told, result, as_json)


def _conclude(told: Suite, result: SuiteResult, as_json: bool) -> int:
    if as_json:
        typer.echo(result.record.as_json().decode(), nl=False)
    else:
        context = find_item(result.record.name), methods_alike(result.record.tuned)
        for table in tables(told, result.results, context):
            typer.echo(f"\n{table.title}")
            claimed = table.model == "claims"  # a long sentence, which is to hide no verdict
            columns = [Column(name, i, is_sentence=claimed and not i) for i, name in enumerate(table.head)]
            print_grid(columns, table.rows)
        typer.echo(f"\nPage: {result.page}")
        for name, why in sorted(result.failed.items()):
            typer.echo(fit_to_terminal(f"Failed: {name}: {why}"))
    return 1 if result.failed else 0


def list_suites(suites: list[tuple[Suite, Path]], as_json: bool) -> int:
    """Say how many runs each suite has, and what it shows; the exit code."""
    found = [(path.stem, read) for read, path in suites]
    if as_json:
        plain = [
            {"name": name, "about": read.about, "runs": _runs(read), "packs": list(read.packs)} for name, read in found
        ]
        typer.echo(msgspec.json.encode(plain).decode())
    else:
        columns = [Column("suite", 0), Column("runs", 0), Column("what it shows", 0, is_sentence=True)]
        about = _about if len(found) == 1 else _subject
        print_grid(columns, [[name, str(_runs(read)), about(read)] for name, read in found])
    return 0


def _about(read: Suite) -> str:
    """What a suite shows, and which packs it builds for itself."""
    packs = ", ".join(f"{name} ({table.describe()})" for name, table in read.packs.items())
    return f"{read.about} Packs of its own: {packs}." if packs else read.about


def _subject(read: Suite) -> str:
    """What a suite shows, on two lines at the most."""
    return textwrap.shorten(read.about, 100, placeholder=" ...")


def _runs(read: Suite) -> int:
    tried = 0 if read.tuning is None else len(read.methods) * len(read.tuning.values)
    return tried + len(read.methods) * len(read.conditions) * len(read.seeds)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise SettingsError(f'--seeds is "{text}": name whole numbers with commas between them.') from error
    if any(number < 0 for number in found) or len(set(found)) < len(found):
        raise SettingsError(f'--seeds is "{text}": each from 0 on, and none twice.')
    return found
