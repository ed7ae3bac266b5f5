"""`auricle fleet suite`: run many methods in many conditions with many seeds, and compare them."""

from __future__ import annotations

import asyncio
import shlex
import textwrap
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

MOST_JOBS = 256


def suite(
    named: str = typer.Argument(
        "", metavar="SUITE", help="A file in TOML (docs/suites.md), or the name of a shipped one."
    ),
    out: Path | None = typer.Option(None, help="Folder for runs, tables and page [suites/<name>]."),
    jobs: int | None = typer.Option(None, help="Runs at a time [one a core]."),
    data: str | None = typer.Option(None, help="What the runs hear, in place of the suite's, as --data of fleet run."),
    rounds: int | None = typer.Option(None, help="Rounds of each run, in place of the suite's."),
    full: bool = typer.Option(False, "--full", help="The size of the suite's table [full], in place of the small one."),
    seeds: str | None = typer.Option(None, help="a,b,c in place of the suite's seeds."),
    listed: bool = typer.Option(
        False, "--list", help="Say how many runs SUITE has, or each shipped one, and run nothing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print what results.json says, nothing else."),
) -> int:
    """Compare methods: run every method in every condition with every seed; what has ended is not run again."""
    if not named and not listed:
        raise SettingsError("Name a suite: a file, or one that auricle fleet suite --list shows.")
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise SettingsError(f"--jobs is {jobs}: it has to be from 1 to {MOST_JOBS}.")
    numbers = None if seeds is None else _numbers(seeds)
    chosen = [(narrowed(read, data=data, rounds=rounds, seeds=numbers), path) for read, path in _read(named, full=full)]
    if listed:
        return _list(chosen, as_json)
    told, path = chosen[0]
    folder = Path("suites") / f"{path.stem}{'-full' * full}" if out is None else out
    options = {"--out": out, "--jobs": jobs, "--data": data, "--rounds": rounds, "--seeds": seeds}
    given = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    command = shlex.join(["auricle", "fleet", "suite", named, *["--full"] * full, *given])
    with View(as_json=as_json) as view:
        run = SuiteRun(
            told,
            name=path.stem,
            where=str(path),
            out=folder,
            jobs=jobs or usable_threads(),
            view=view,
            command=command,
            size="full" if full else "small",
        )
        ends = "ends: the runs under way write what they did; Ctrl-C again does not wait for them"
        result = asyncio.run(until_signal(run.run(), lambda: view.say(ends), view.give_back))
    if result is None:
        if not as_json:
            typer.echo(f"Interrupted. Go on with:\n  {command}")
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


def _read(named: str, *, full: bool) -> list[tuple[Suite, Path]]:
    """The suite of a name or file; without one, all shipped ones, in their full size those that have one."""
    found = [read_suite(name) for name in ([named] if named else shipped())]
    return [(full_size(read, str(path)) if full and (named or read.full) else read, path) for read, path in found]


def _list(suites: list[tuple[Suite, Path]], as_json: bool) -> int:
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
