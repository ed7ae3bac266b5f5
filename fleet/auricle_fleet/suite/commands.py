"""`auricle fleet suite`: run many methods in many conditions with many seeds, and compare them."""

from __future__ import annotations

from pathlib import Path

import typer

from auricle.errors import SettingsError

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
    from auricle_fleet.suite.terminal import Request, list_suites, run_suite

    request = Request(named=named, out=out, jobs=jobs, data=data, rounds=rounds, full=full, seeds=seeds)
    return list_suites(request.suites(), as_json) if listed else run_suite(request, as_json)
