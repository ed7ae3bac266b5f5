"""`auricle flash boards`: the boards that there are profiles for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer

from auricle.process.table import Column, print_grid
from auricle.process.times import how_many
from auricle_export.flash.board import Board, Microphone, Sensors, System
from auricle_export.flash.boards import (
    BoardError,
    board_names,
    load_board,
    load_boards,
    profile_path,
    read_profile,
    write_profile,
)
from auricle_export.flash.device_files import drop_in, edge_toml, extras

app = typer.Typer(no_args_is_help=True, help="Profiles of boards: list, show, validate, new.")

AS_JSON = typer.Option(False, "--json", help="Print a JSON object, nothing else.")


def _names() -> list[str]:
    """What a shell's completion offers."""
    return board_names()


BOARD = typer.Argument(..., metavar="BOARD", help="Name of a board, or a profile's file.", autocompletion=_names)


@app.command("list")
def list_(as_json: bool = AS_JSON) -> None:
    """List the boards that there are profiles for."""
    boards = list(load_boards())
    if as_json:
        typer.echo(json.dumps({"boards": [_summary(board) for board in boards]}))
        return
    columns = (
        Column("board", 0),
        Column("title", 1, is_sentence=True),
        Column("architecture", 3),
        Column("memory", 2),
        Column("systems", 1, is_sentence=True),
        Column("model, threads", 4),
    )
    rows = []
    for board in boards:
        systems = ", ".join(f"{s.id}{' (container)' if s.container else ''}" for s in board.os)
        agent = f"{board.agent.local}, {board.agent.threads}"
        rows.append((board.name, board.title, board.architecture, _memory(board), systems, agent))
    print_grid(columns, rows)


@app.command()
def show(
    board: str = BOARD,
    files: bool = typer.Option(False, "--files", help="Also the edge.toml and the systemd drop-in that it leads to."),
    microphone: str | None = typer.Option(None, help="With --files: a microphone of the profile, by id."),
    wired: bool = typer.Option(False, "--wired", help="With --files: buttons and mute switch are connected."),
    as_json: bool = AS_JSON,
) -> None:
    """Show all that a profile says of a board."""
    path = profile_path(board)
    shown = load_board(path)
    written = dict(_files(shown, microphone, wired)) if files or microphone or wired else {}
    if as_json:
        facts = {"file": str(path), **msgspec.to_builtins(shown)}
        typer.echo(json.dumps({**facts, "files": written} if written else facts))
        return
    if not written:
        typer.echo(f"{shown.name}: {shown.title}")
        print_grid((Column("", 0), Column("", 0, is_sentence=True)), list(_facts(shown)))
    for name, text in written.items():
        typer.echo(f"--- {name}\n{text}")


@app.command()
def validate(
    profiles: list[str] | None = typer.Argument(
        None, metavar="[BOARD]...", help="Boards, or profiles' files [all boards].", autocompletion=_names
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Check profiles and name every mistake with file and line; exit code 2 for one that cannot be used."""
    paths = [profile_path(profile) for profile in profiles or board_names()]
    problems = {path: read_profile(path)[1] for path in paths}
    found = [problem for each in problems.values() for problem in each]
    if as_json:
        verdicts = [{"file": str(path), "ok": not each, "problems": each} for path, each in problems.items()]
        typer.echo(msgspec.json.encode({"ok": not found, "profiles": verdicts}).decode())
        if found:
            raise typer.Exit(BoardError.exit_code)
        return
    for path, each in problems.items():
        typer.echo(f"{'REFUSED' if each else 'ok':<8}{path}")
        for problem in each:
            typer.echo(f"        line {problem.line}: {problem.sentence}")
    if found:
        bad = sum(1 for each in problems.values() if each)
        where = f"{bad} of {how_many(len(paths), 'profile')}"
        raise BoardError(f"{how_many(len(found), 'mistake')} in {where}.", tuple(found))


@app.command()
def new(
    name: str = typer.Argument(..., metavar="NAME", help="Name of the board, and of its file."),
    like: str = typer.Option("generic-arm64", "--like", help="Board or file to start from.", autocompletion=_names),
    title: str | None = typer.Option(None, help="What people call the board [NAME]."),
    out: Path = typer.Option(Path(), help="Folder for NAME.toml."),
    as_json: bool = AS_JSON,
) -> None:
    """Write a commented profile to change: a copy of another one."""
    place = write_profile(name, like, out, title)
    if as_json:
        typer.echo(json.dumps({"file": str(place)}))
    else:
        typer.echo(f"{place} is a copy of {like}: change it, then auricle flash boards validate {place}")


def _summary(board: Board) -> dict[str, object]:
    return {
        "name": board.name,
        "title": board.title,
        "architecture": board.architecture,
        "memory_mib": list(board.memory_mib),
        "os": [system.id for system in board.os],
        "container_only": board.container_only,
        "local": board.agent.local,
        "threads": board.agent.threads,
    }


def _memory(board: Board) -> str:
    return ", ".join(f"{mib / 1024:g}" for mib in board.memory_mib) + " GiB"


def _files(board: Board, microphone: str | None, wired: bool) -> Iterator[tuple[str, str]]:
    yield "edge.toml", edge_toml(board, "my-device", microphone=microphone, wired=wired)
    if not board.container_only:
        yield "auricle-edge.service.d/board.conf", drop_in(board, microphone=microphone, wired=wired)
    yield "package", f"auricle[{','.join(extras(board, microphone=microphone, wired=wired))}]\n"


def _facts(board: Board) -> Iterator[tuple[str, str]]:
    """What `show` tells, in lines of a name and a text."""
    yield "processor", f"{board.soc}, {board.cores} x {board.processor}, {board.architecture}"
    yield "memory", _memory(board)
    for system in board.os:
        yield f"os {system.id}", _system(system)
    yield "agent", f"pack {board.agent.pack}, own model {board.agent.local}, {board.agent.threads} threads"
    limits = board.service
    memory = f"slowed from {limits.memory_high_mib} MiB, ended from {limits.memory_max_mib} MiB"
    yield "limits", f"{memory}, {limits.tasks_max} tasks"
    yield "sound", f"{board.sound.source}; apt install {' '.join(board.sound.packages)}"
    for microphone in board.microphone:
        yield f"microphone {microphone.id}", _microphone(microphone)
    yield "sensors", _sensors(board.sensors)
    if board.gpio is not None:
        names = {name: getattr(board.gpio, name) for name in ("confirm", "deny", "mute", "led")}
        lines = ", ".join(f"{name} {line}" for name, line in names.items() if line)
        yield "gpio", f"{board.gpio.chip} [{board.gpio.label}], {board.gpio.lines} lines; {lines or 'none named'}"
    if board.boot is not None:
        yield "boot", f"{board.boot.partition}: {' '.join((*board.boot.cmdline, *board.boot.config)) or 'as it is'}"
    for note in board.notes:
        yield "note", note


def _system(system: System) -> str:
    inside = f", in a container of {system.container}" if system.container else f", {system.base}"
    return f"{system.title}{inside}: Python {system.python}, {system.wheel_tag}, {system.first_boot}"


def _sensors(sensors: Sensors) -> str:
    zones = ", ".join(sensors.zones) or "those of the processor"
    heat = f"zones {zones}; waits from {sensors.hot:g} °C, declines from {sensors.too_hot:g} °C"
    required = f"; required: {', '.join(sensors.required)}" if sensors.required else ""
    return f"{heat}; throttling by {sensors.throttling}; supply {sensors.supply}{required}"


def _microphone(microphone: Microphone) -> str:
    given = {"button": microphone.button, "light": microphone.led, "config.txt": microphone.overlay}
    told = "".join(f"; {name} {value}" for name, value in given.items() if value)
    return f"{microphone.title}: {microphone.source}{told}{f'; needs {microphone.needs}' if microphone.needs else ''}"
