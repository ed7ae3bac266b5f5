"""Rounds as they happen: on a live table, as JSON lines, or waited for."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from auricle.errors import ENDED_OTHERWISE, OUT_OF_TIME, AuricleError, SettingsError
from auricle.process.table import console
from auricle.process.times import read_duration, to_json
from auricle_cloud.api.remote import Remote
from auricle_cloud.commands.answer_tables import EVENT, ROUND, cell, plain, table
from auricle_cloud.commands.answers import say, waiting_lines
from auricle_cloud.commands.target import Place
from auricle_cloud.operations.operating import NotFoundError
from auricle_cloud.operations.operations import Operations, Overview
from auricle_cloud.operations.round_answers import RoundPage, RoundRow
from auricle_cloud.states.round import FINISHED, counted_words

POLL_SECONDS = 1.0
"""Seconds between looks at the database; an event of a server comes at once."""
WAITING_LINES = 8
"""Lines of a live view that say what a round waits for."""


def seconds_to_wait(text: str | None) -> float | None:
    """What `--timeout` says: a number of seconds, or a time as `90s`, `10m` and `2h` are; None: for ever."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return read_duration(text)
    if not 0 <= seconds < 1e9:
        raise SettingsError("A timeout is a number of seconds, 0 or more, or a time such as 90s, 10m or 2h.")
    return seconds


def wait_for(do: Operations, number: int | None, timeout: float | None, *, as_json: bool) -> int:
    """Wait until a round is finished; the exit code."""
    until = None if timeout is None else time.monotonic() + timeout
    number = _under_way(do) if number is None else number
    while True:
        row = do.show_round(number, 1).row
        left = POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
        if row.state in FINISHED or left <= 0:
            break
        time.sleep(left)
    typer.echo(to_json(row)) if as_json else say(sentence(row))
    if row.state == "aborted" and not as_json:
        for line in do.why_round(row.round, limit=1).sentences[1:]:
            say(line)
    if row.state not in FINISHED and not as_json:
        waiting = do.show_round(number, 1).waiting
        for line in [] if waiting is None else waiting_lines(waiting):
            say(line)
    return {"published": 0, "aborted": ENDED_OTHERWISE}.get(row.state, OUT_OF_TIME)


def _under_way(do: Operations) -> int:
    """The round under way, else the first that is planned."""
    seen = do.overview()
    if seen.under_way is not None:
        return seen.under_way.round
    if seen.waiting is None:
        none = "No round is under way or planned: name one, or start one with auricle cloud rounds start"
        raise NotFoundError(" ".join(seen.why_none) or none)
    return seen.waiting.round


def newest(do: Operations) -> int:
    """The round under way, else the first that is planned, else the last one."""
    seen = do.overview()
    if seen.under_way is None and seen.waiting is None and seen.last is not None:
        return seen.last.round
    return _under_way(do)


def sentence(row: RoundRow) -> str:
    """A round in one sentence."""
    request = f", asked to {row.request}" if row.request and row.state not in FINISHED else ""
    loss = "" if row.loss is None else f", loss {row.loss:.4g}"
    words = counted_words(row.counted, row.invited, row.left_out)
    return f"Round {row.round} is {row.state}{request}: {words}{loss}."


def watch_rounds(place: Place, number: int | None, *, as_json: bool) -> int:
    """Show rounds until interrupted, or until one is finished; the exit code."""
    with place.operations() as do, looks(place.remote()) as ticks:
        known: dict[int, RoundRow] = {}
        out = console()
        is_live = out.is_terminal and not as_json
        with Live(console=out, auto_refresh=False) if is_live else contextlib.nullcontext() as live:
            told: list[str] = []
            for _ in ticks:
                page = do.list_rounds(10)
                if live is not None:
                    live.update(_view(do.overview(), page), refresh=True)
                else:
                    _tell_changes(page, known, as_json=as_json)
                    told = told if as_json else _tell_waiting(do.overview(), told)
                watched = next((row for row in page.rounds if row.round == number), None)
                if number is not None and watched is None:
                    watched = do.show_round(number, 1).row
                if watched is not None and watched.state in FINISHED:
                    return 0 if watched.state == "published" else ENDED_OTHERWISE
    return 0


def _tell_changes(page: RoundPage, known: dict[int, RoundRow], *, as_json: bool) -> None:
    for row in reversed(page.rounds):
        if known.get(row.round) != row:
            known[row.round] = row
            typer.echo(to_json(row)) if as_json else say(sentence(row))


def _tell_waiting(seen: Overview, told: list[str]) -> list[str]:
    """Say what a planned round waits for, once; what was said."""
    waits = [] if seen.waiting is None or seen.under_way is not None else waiting_lines(seen.waiting)
    if waits != told:
        for line in waits:
            say(line)
    return waits


def _view(seen: Overview, page: RoundPage) -> Group:
    head = f"{seen.online} of {seen.devices} online, {seen.ready} ready, {seen.planned} rounds planned"
    if seen.model is not None:
        head += f", version {seen.model.version}, accuracy {cell('accuracy', seen.model.accuracy)}"
    parts: list[RenderableType] = [Text(head), Text(""), table(page.rounds, ROUND)]
    if seen.waiting is not None:
        parts += [Text(""), *(Text(plain(line)) for line in waiting_lines(seen.waiting)[:WAITING_LINES])]
    if seen.alarms:
        parts += [Text(""), table(seen.alarms[:3], EVENT)]
    return Group(*parts)


@contextlib.contextmanager
def looks(remote: Remote | None) -> Iterator[Iterator[None]]:
    """Whenever it is time to look again: at an event of the server, and regularly."""
    woken: queue.Queue[None] = queue.Queue(1)
    stop = threading.Event()
    if remote is not None:
        threading.Thread(target=_listen, args=(remote, woken, stop), daemon=True).start()

    def ticks() -> Iterator[None]:
        while True:
            yield
            with contextlib.suppress(queue.Empty):
                woken.get(timeout=POLL_SECONDS if remote is None else 5 * POLL_SECONDS)

    try:
        yield ticks()
    finally:
        stop.set()


def _listen(remote: Remote, woken: queue.Queue[None], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            for event in remote.events():
                if stop.is_set():
                    return
                if event is not None:
                    with contextlib.suppress(queue.Full):
                        woken.put_nowait(None)
        except (AuricleError, OSError):
            stop.wait(5 * POLL_SECONDS)
