"""`auricle flash push`: a bundle onto boards that already run, over SSH."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column as TableColumn

from auricle.errors import SettingsError
from auricle.process.table import Column, print_grid
from auricle_export.flash.boards import board_names, load_board
from auricle_export.flash.push.crowd import Heard, push_all
from auricle_export.flash.push.hosts import Host, read_host, read_hosts, require_each_once
from auricle_export.flash.push.installation import Outcome, Step, open_parcel
from auricle_export.flash.push.session import Access, require_ssh

SUDO_PASSWORD = "AURICLE_SUDO_PASSWORD"
"""Environment variable with what sudo asks for, so that it stands on no command line."""
BESIDE_HOST = 60
"""Columns of a terminal for the step, its bar and its share; where there are fewer there is no bar."""
ORDER = ("bad", "doubtful", "good")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(push)


def push(
    host: str | None = typer.Argument(None, metavar="[USER@HOST]", help="The board, as ssh takes it; also HOST:PORT."),
    board: str = typer.Option(..., help="Name of its profile, or the profile's file.", autocompletion=board_names),
    bundle: Path = typer.Option(..., help="What auricle flash bundle made."),
    hosts: Path | None = typer.Option(None, help="File of boards: USER@HOST[:PORT] [TOKEN FILE] a line."),
    token: Path | None = typer.Option(None, help="File with the claim token for the board."),
    identity: Path | None = typer.Option(None, help="Private key to log in with [those of ssh]."),
    port: int | None = typer.Option(None, min=1, max=65535, help="Port where none is named [that of ssh]."),
    sudo: bool = typer.Option(
        False, "--sudo", help=f"Become root by sudo; its password from {SUDO_PASSWORD} or asked."
    ),
    accept_new: bool = typer.Option(False, "--accept-new", help="Trust host keys that were never seen before."),
    ssh_config: Path | None = typer.Option(None, help="SSH configuration in place of yours."),
    at_once: int = typer.Option(8, min=1, max=64, help="Boards at a time."),
    root: str = typer.Option("", help="Install below this folder of the board; nothing is started."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> int:
    """Install a bundle over SSH. If it was interrupted, run it again; exit code 1 if a board failed."""
    require_ssh()
    wanted = _hosts_to_reach(host, hosts, token, port)
    profile = load_board(board)
    parcel = open_parcel(bundle, profile)
    if identity is not None and not identity.is_file():
        raise SettingsError(f"There is no key {identity}.")
    alone = len(wanted) == 1 and sys.stdin.isatty() and not as_json
    access = Access(identity, ssh_config, accept_new, ask=alone)
    with _bars(wanted, hidden=as_json) as heard:
        outcomes = push_all(
            wanted,
            access,
            parcel,
            profile,
            heard,
            root=root,
            sudo=sudo,
            password=_password(sudo and alone),
            at_once=at_once,
        )
    _tell(outcomes, as_json)
    if any(outcome.state == "interrupted" for outcome in outcomes):
        return 130
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _hosts_to_reach(host: str | None, file: Path | None, token: Path | None, port: int | None) -> list[Host]:
    if (host is None) is (file is None):
        raise SettingsError("Name one board as USER@HOST, or a file of boards with --hosts.")
    if host is not None:
        return [read_host(host, port=port, token=token)]
    if token is not None:
        raise SettingsError("A token is for one device: name it in the file of boards, behind the board.")
    found = read_hosts(file, port=port) if file is not None else []
    if not found:
        raise SettingsError(f"{file} names no board.")
    require_each_once(found)
    return found


def _password(ask: bool) -> str | None:
    """What sudo wants, if it wants anything; asked before the first connection."""
    given = os.environ.get(SUDO_PASSWORD)
    if given is not None or not ask:
        return given
    return getpass.getpass("Password for sudo on the board [none]: ") or None


@contextmanager
def _bars(hosts: list[Host], *, hidden: bool) -> Iterator[Heard]:
    """A bar for each board on standard error, once nobody is asked for a password any more."""
    console = Console(stderr=True)
    longest = max(cell_len(str(host)) for host in hosts)
    whole = TableColumn(no_wrap=True, min_width=longest)  # or rich would cut what may have to be typed again
    host_column = TextColumn("{task.fields[host]}", markup=False, table_column=whole)
    bar = (BarColumn(),) if longest + BESIDE_HOST <= console.width else ()
    columns = (host_column, TextColumn("{task.description}"), *bar, TaskProgressColumn())
    bars = Progress(*columns, console=console, disable=hidden)
    tasks = {host: bars.add_task("waiting", total=None, host=str(host)) for host in hosts}

    def heard(host: Host) -> Step:
        def step(what: str, done: int, all_: int) -> None:
            if what != "looking":
                bars.start()
            bars.update(tasks[host], description=what, completed=done, total=all_ or None)

        return step

    try:
        yield heard
    finally:
        bars.stop()


def _tell(outcomes: list[Outcome], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"hosts": msgspec.to_builtins(outcomes)}))
        return
    columns = (
        Column("board", 0),
        Column("", 0),
        Column("version", 2),
        Column("slot", 3),
        Column("agent", 2),
        Column("what was found", 1, is_sentence=True),
    )
    print_grid(columns, [(e.host, e.state, e.version, e.slot, e.service, _worst_finding(e)) for e in outcomes])


def _worst_finding(outcome: Outcome) -> str:
    """Why it failed, or the worst that the board's own check found."""
    if outcome.reason or not outcome.findings:
        return outcome.reason
    worst = min(outcome.findings, key=lambda each: ORDER.index(each.verdict))
    return "all is well" if worst.verdict == "good" else f"{worst.check}: {worst.sentence}"
