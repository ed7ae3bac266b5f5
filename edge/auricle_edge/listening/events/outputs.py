"""Outputs for events, and their settings: one that fails or hangs holds up neither the listening nor the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError, SettingsError
from auricle.wire.kinds import plain
from auricle_edge.listening.sound import Detection, Event

Topic = Annotated[str, Meta(pattern=r"^[^\x00#+]{1,200}\Z")]


class EventSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who is told of what was heard. Nothing here goes over the fleet's link."""

    stdout: bool = True
    """A line an event on standard output: JSON, or for a person at a terminal."""
    hook: Annotated[tuple[Annotated[str, Meta(pattern=r"^[^\x00]+\Z")], ...], Meta(max_length=64)] = ()
    """Command and arguments, run without a shell for each event; the event is its standard input."""
    hook_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """A hook that runs longer is ended."""
    mqtt: str | None = None
    """URL of the home's broker, `mqtts://user:password@host:port`; `mqtt://` on this machine."""
    mqtt_ca: str | None = None
    """PEM file with the authority of the home's broker; without, the system's authorities are trusted."""
    mqtt_plain: bool = False
    """Also take `mqtt://` to another machine: everybody between reads the password and what was heard."""
    mqtt_feedback: bool = False
    """Take answers from the home's broker that carry the token in the state folder's `feedback.token`."""
    mqtt_discovery: bool = False
    """Tell Home Assistant of this device at the home's broker: switch, thresholds, sensors, events and version."""
    mqtt_buttons: bool = False
    """Take answers from Home Assistant's buttons, too: whoever may publish to their topic needs no token."""
    mqtt_install: bool = False
    """Have Home Assistant install newer bundles, whose signatures are checked as always."""
    mqtt_discovery_prefix: Topic = "homeassistant"
    """Home Assistant's discovery prefix, under which it says at `/status` that it has started, too."""
    mqtt_one_answer: bool = False
    """Settle at the home's broker which device answers where several hear the same word."""
    mqtt_one_answer_topic: Topic = "auricle-bids"
    """Devices that settle with each other have the same."""
    mqtt_one_answer_key_file: str | None = None
    """File with a secret that these devices share: nobody else's bids count. `openssl rand -hex 32` makes one."""
    mqtt_topic: Topic = "auricle-events/{device}"
    """Events are published here; `{device}` is the device's name. Answers, with `mqtt_feedback`, under `/feedback`."""
    wyoming: str | None = None
    """`tcp://127.0.0.1:10400`: be a Wyoming wake-word service, for Home Assistant."""
    wyoming_network: bool = False
    """Also listen on an address that other machines reach: the protocol knows neither passwords nor TLS."""
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Events that may wait for an output; beyond, the oldest is dropped and counted."""


def event_of(event: Event, device: str) -> dict[str, object]:
    """An event as names and values for JSON; no sound and no posteriors but its score."""
    if not isinstance(event, Detection):
        said = {"wake": event.wake, "wake_word": event.wake_word, "at": round(event.at, 3)}
        return {"type": "timeout", "device": device, **said}
    opened = {} if event.wake is None else {"wake": event.wake, "wake_word": event.wake_word}
    return {
        "type": event.kind,
        "device": device,
        "id": event.id,
        "word": event.word,
        "score": round(event.score, 4),
        "model": event.model,
        "at": round(event.at, 3),
        "latency": round(event.latency, 3),
        **({} if event.level is None else {"level": event.level, "over_noise": event.over_noise}),
        **opened,
    }


def line_of(event: Event, device: str) -> str:
    """The event as one line of JSON."""
    return json.dumps(event_of(event, device))


def sentence_of(event: Event) -> str:
    """The event for a person, such as `10:53:44  computer -> stop  0.96`: local time, what was heard, score 0 to 1."""
    at = time.strftime("%H:%M:%S", time.localtime(event.at))
    if not isinstance(event, Detection):
        return f"{at}  {plain(event.wake_word)} -> (no command)"
    words = event.word if event.wake_word is None else f"{event.wake_word} -> {event.word}"
    return f"{at}  {plain(words)}  {event.score:.2f}"


def tcp_place(url: str, setting: str, port: int) -> tuple[str, int]:
    """Host and port of `tcp://host:port`; SettingsError for anything else, with the usual port as an example."""
    parts = urlsplit(url)
    try:
        given = parts.port
    except ValueError:
        given = None
    if parts.scheme != "tcp" or not parts.hostname or given is None:
        raise SettingsError(f"{setting} is tcp://host:port, such as tcp://127.0.0.1:{port}, not {url}.")
    return parts.hostname, given


log = logging.getLogger("auricle.events")


class Output(Protocol):
    """Somebody who is told what was heard."""

    @property
    def name(self) -> str:
        """For messages and counts."""

    async def open(self) -> None:
        """Get ready; AuricleError when its settings cannot work."""

    async def deliver(self, event: Event) -> None:
        """Pass one on; AuricleError or OSError when that failed."""

    async def close(self) -> None:
        """Let go of everything."""


@dataclass
class Delivered:
    """What became of the events for one output."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    """Those that found its queue full."""


class Outputs:
    """All outputs of a device, each with a bounded queue and a task of its own.

    Parameters
    ----------
    outputs
        Who is told.
    waiting
        Events that may wait for one of them.
    answers
        Whether this device answers an event, asked of one after the other; None: it answers all.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        waiting: int = 64,
        answers: Callable[[Event], Awaitable[bool]] | None = None,
    ) -> None:
        self._outputs, self._answers = tuple(outputs), answers
        self._judged: asyncio.Queue[Event] = asyncio.Queue(waiting)
        self.delivered = {output.name: Delivered() for output in outputs}
        self._queues: dict[str, asyncio.Queue[Event]] = {o.name: asyncio.Queue(waiting) for o in outputs}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open every output; AuricleError when one cannot work."""
        self._loop = asyncio.get_running_loop()
        for output in self._outputs:
            await output.open()
            self._tasks.append(asyncio.create_task(self._serve(output)))
        if self._answers is not None:
            self._tasks.append(asyncio.create_task(self._judge(self._answers)))

    def emit(self, event: Event) -> None:
        """Queue an event for every output; from any thread, never blocks."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everybody who would listen
                loop.call_soon_threadsafe(self._spread if self._answers is None else self._ask, event)

    async def stop(self) -> None:
        """End the tasks and close every output."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for output in self._outputs:
            await output.close()

    def _ask(self, event: Event) -> None:
        if not self._judged.full():  # beyond that, nobody has been answered for a long time
            self._judged.put_nowait(event)

    async def _judge(self, answers: Callable[[Event], Awaitable[bool]]) -> None:
        while True:
            event = await self._judged.get()
            if await answers(event):
                self._spread(event)

    def _spread(self, event: Event) -> None:
        for name, queue in self._queues.items():
            if queue.full():
                queue.get_nowait()
                self.delivered[name].dropped += 1
            queue.put_nowait(event)

    async def _serve(self, output: Output) -> None:
        queue, counts = self._queues[output.name], self.delivered[output.name]
        while True:
            event = await queue.get()
            try:
                await output.deliver(event)
                counts.sent += 1
            except (AuricleError, OSError, asyncio.TimeoutError) as error:
                counts.failed += 1
                log.warning("%s was not told of an event: %s", output.name, error or "it took too long")
