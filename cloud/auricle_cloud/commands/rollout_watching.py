"""Rollouts as they happen: on a live table, or as sentences or JSON lines."""

from __future__ import annotations

import contextlib

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from auricle.process.table import console
from auricle.process.times import to_json
from auricle_cloud.commands.answer_tables import ROLLOUT, plain, table
from auricle_cloud.commands.answers import say
from auricle_cloud.commands.target import Place
from auricle_cloud.commands.watching import looks
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.rollout_answers import RolloutDetail, RolloutRow
from auricle_cloud.states.rollout import ENDED

PAUSED, OVER = 3, 4
"""Exit codes."""


def sentence(row: RolloutRow) -> str:
    """A rollout in one sentence."""
    errors = row.failed + row.refused + row.silent
    return (
        f"{row.rollout} is {row.state}, stage {row.stage} of {len(row.stages)}: {row.updated} updated, "
        f"{row.asked} asked, {row.waiting} waiting, {errors} errors." + (f" {row.reason}" if row.reason else "")
    )


def watch_rollouts(place: Place, rollout: str | None, *, as_json: bool) -> int:
    """Show rollouts until interrupted, or one until there is nothing more to see; the exit code."""
    with place.operations() as do, looks(place.remote()) as ticks:
        known: dict[str, RolloutRow] = {}
        out = console()
        is_live = out.is_terminal and not as_json
        with Live(console=out, auto_refresh=False) if is_live else contextlib.nullcontext() as live:
            for _ in ticks:
                rows = do.list_rollouts(10).rollouts if rollout is None else [do.show_rollout(rollout, 1).row]
                if live is not None:
                    live.update(_view(do, rows, rollout), refresh=True)
                else:
                    _tell_changes(rows, known, as_json=as_json)
                if rollout is not None and rows[0].state != "running":
                    return 0 if rows[0].state == "finished" else OVER if rows[0].state in ENDED else PAUSED
    return 0


def _tell_changes(rows: list[RolloutRow], known: dict[str, RolloutRow], *, as_json: bool) -> None:
    for row in reversed(rows):
        if known.get(row.rollout) != row:
            known[row.rollout] = row
            typer.echo(to_json(row)) if as_json else say(sentence(row))


def _view(do: Operations, rows: list[RolloutRow], rollout: str | None) -> Group:
    if rollout is None:
        return Group(table(rows, ROLLOUT) if rows else Text("Nothing to list."))
    seen: RolloutDetail = do.show_rollout(rollout, 30)
    said = [*seen.sentences, "", *(device.sentences[0] for device in seen.devices)]
    return Group(table(rows, ROLLOUT), Text(""), *(Text(plain(text)) for text in said))
