"""Commands for the running service: how it is, what it hears, and what a person says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from auricle.process.ending import fit_to_terminal
from auricle.process.times import iso_time
from auricle_edge.commands.place import AsJson, Config, State, state_folder, why_absent
from auricle_edge.commands.status_sentences import FLOOR_DBFS, sentences
from auricle_edge.control.client import ControlClient
from auricle_edge.service.answers import (
    LiveLine,
    TrainingStatus,
    read_live,
    read_status,
)

BAR_COLUMNS = 40
SHOWN_POSTERIORS = 5
"""Posteriors in the live view."""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, listen, confirm, deny, missed, mute, unmute, record):
        app.command()(command)
    app.command(hidden=True)(enroll)


def _client(state: Path | None, config: Path | None) -> ControlClient:
    folder = state_folder(state, config)
    return ControlClient(folder, why_absent(folder))


def status(state: State = None, config: Config = None, as_json: AsJson = False) -> int:
    """How the running service is; exit code 1 when it hears nothing though it should."""
    told = _client(state, config).get("/v1/status")
    if as_json:
        typer.echo(json.dumps(with_times(told)))
    read = read_status(told)
    for line in () if as_json else sentences(read):
        typer.echo(fit_to_terminal(line))
    if isinstance(read, TrainingStatus):
        return 0
    return 0 if read.capture.running or read.capture.muted else 1


def with_times(told: Mapping[str, object]) -> dict[str, object]:
    """What the service told, in which events say their `at` in ISO 8601: the service itself says seconds."""
    return {
        name: value | {"at": iso_time(value["at"])} if isinstance(value, dict) and "at" in value else value
        for name, value in told.items()
    }


def listen(state: State = None, config: Config = None, as_json: AsJson = False) -> int:
    """Show what the running service hears: level, state, posteriors, detections; until interrupted."""
    answers = _client(state, config).stream("GET", "/v1/live")
    if as_json:
        for answer in answers:
            typer.echo(json.dumps(with_times(answer)))
        return 0
    last = ""
    with Live(console=Console(stderr=not sys.stdout.isatty()), auto_refresh=False, transient=False) as view:
        for answer in answers:
            line = read_live(answer)
            last = describe_change(line) or last
            view.update(meter(line, last), refresh=True)
    return 0


def describe_change(line: LiveLine) -> str:
    """What happened since the last picture; empty for nothing."""
    if line.timeout:
        return f"no command after {line.timeout.wake_word}"
    found = line.detection
    if not found:
        return ""
    after = f", after {found.wake_word}" if found.wake_word else ""
    kind = "wake word, " if found.kind == "wake" else ""
    return f"{found.word} ({kind}{found.score:.2f}, {found.model}{after})"


def meter(line: LiveLine, last: str) -> Table:
    """One picture of the live view."""
    table = Table(show_header=False, box=None, pad_edge=False)
    level = line.level_dbfs
    if line.muted:
        table.add_row("level", Text("muted"))
    elif level is None or not line.running:
        table.add_row("level", Text(line.problem or "no sound"))
    else:
        filled = round(BAR_COLUMNS * min(1.0, max(0.0, 1 - level / FLOOR_DBFS)))
        colour = "red" if line.clipping > 0.001 else "green" if line.speaking else "blue"
        bar = Text("█" * filled, style=colour) + Text("░" * (BAR_COLUMNS - filled))
        table.add_row("level", bar, f"{level:.0f} dBFS" + (" speech" if line.speaking else ""))
        if line.problem is not None:
            table.add_row("", Text(line.problem))
    if line.state != "open":
        table.add_row("state", Text(line.state, style="green" if line.state == "awake" else "blue"))
    best = sorted(line.posteriors.items(), key=lambda item: -item[1])[:SHOWN_POSTERIORS]
    for word, posterior in best:
        filled = round(BAR_COLUMNS * posterior)
        table.add_row(word, Text("█" * filled, style="cyan") + Text("░" * (BAR_COLUMNS - filled)), f"{posterior:.2f}")
    table.add_row("heard", last or "nothing yet")
    return table


def _feedback(client: ControlClient, answer: Mapping[str, object], as_json: bool) -> int:
    told = client.post("/v1/feedback", {name: value for name, value in answer.items() if value is not None})
    typer.echo(json.dumps(told) if as_json else told["said"])
    return 0


def confirm(
    detection: str | None = typer.Argument(None, help="Id of the detection [the newest one]."),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Say that a detection was right: its clip is kept."""
    return _feedback(_client(state, config), {"verdict": "confirm", "id": detection}, as_json)


def deny(
    detection: str | None = typer.Argument(None, help="Id of the detection [the newest one]."),
    word: str | None = typer.Option(None, help="Which keyword it was instead [none]."),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Say that a detection was wrong: its clip is kept as what it was not."""
    return _feedback(_client(state, config), {"verdict": "deny", "id": detection, "word": word}, as_json)


def missed(
    word: str = typer.Argument(help="The word that was said and not heard."),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Say that a word was said in the last seconds and not heard: its sound is kept."""
    return _feedback(_client(state, config), {"verdict": "missed", "word": word}, as_json)


def _mute(client: ControlClient, muted: bool, as_json: bool) -> int:
    told = client.post("/v1/mute", {"muted": muted})
    typer.echo(json.dumps(told) if as_json else "The microphone is closed." if told["muted"] else "It listens again.")
    return 0


def mute(state: State = None, config: Config = None, as_json: AsJson = False) -> int:
    """Close the microphone: nothing reads it until `unmute`."""
    return _mute(_client(state, config), True, as_json)


def unmute(state: State = None, config: Config = None, as_json: AsJson = False) -> int:
    """Open the microphone again."""
    return _mute(_client(state, config), False, as_json)


Spoken = Annotated[str, typer.Argument(help="The word to record.")]
Takes = Annotated[int, typer.Option(min=1, max=100, help="How many good takes.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep takes that do not sound like the word, too.")]


def record(
    word: Spoken,
    takes: Takes = 5,
    keep: Keep = False,
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Record takes of a word with the running service's microphone; a take that is no good is asked for again."""
    asked = {"word": word, "takes": takes, "keep": keep}
    for step in _client(state, config).stream("POST", "/v1/record", asked):
        typer.echo(json.dumps(step) if as_json else step["said"])
    return 0


def enroll(
    word: Spoken,
    takes: Takes = 5,
    keep: Keep = False,
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """The old name of `record`."""
    typer.echo("auricle edge enroll is now auricle edge record; the old name goes with the next version.", err=True)
    return record(word, takes, keep, state, config, as_json)
