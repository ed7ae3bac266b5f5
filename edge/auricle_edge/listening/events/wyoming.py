"""A Wyoming wake-word service (https://github.com/rhasspy/wyoming), as Home Assistant and satellites look for one.

A client that sends sound gets the keywords in it; one that asks to detect and sends none gets those of the device's own
microphone. Where there are wake words, they are what is offered: a client streams on after its `detection`, to somebody
who understands speech. A client that names a command gets its detections too. The protocol has no word for a window
that closed without a command, so nobody is told.

The wyoming package writes our events, but its `AsyncServer` is not used: `async_read_event` takes as many bytes into
memory as a client announces, ends with an AttributeError or a KeyError where the JSON is not an event, and waits for
ever; the server has no limit of clients and does not say which port it got. What is left of it is not worth a subclass.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec
import numpy as np

from auricle import __version__
from auricle.errors import SettingsError, WireError, because
from auricle_edge.listening.events.wyoming_events import LARGEST_LINE, read_event
from auricle_edge.listening.sound import RATE, Block, Detection, Event

log = logging.getLogger("auricle.events")

MOST_CLIENTS = 8
SPEAKING = 2.0
"""Seconds since its last sound within which a client keeps its place; of the others the newest come first: who waits
for a word of the device's microphone asks again when it is hung up on, and who only holds a place loses it."""
SILENCE = 30.0
"""Seconds after which a client that sends nothing is hung up on, unless it waits for the device's own microphone; also
what an event may take to come whole, and an answer to be taken."""
PAUSE = 600.0
"""The same for one that asked to detect and has begun to send sound: a satellite that is muted, or streams a command to
somebody else, sends nothing meanwhile."""
LEAVING = 2.0
"""Seconds for what was sent last to be taken, when a connection is closed."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A client that waits and is gone without a word gives its place back after two minutes."""
HOME = "https://github.com/auricle-kws/auricle"


class Spotter(Protocol):
    """Finds keywords in blocks of sound, as `detect.Detector` does."""

    def feed(self, block: Block) -> Sequence[Detection]:
        """The keywords that this block completes."""


class _Format(msgspec.Struct, frozen=True):
    rate: int
    width: int
    channels: int


class _Detect(msgspec.Struct, frozen=True):
    names: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=256)] | None = (
        None
    )


SOUND = _Format(RATE, 2, 1)


def require_wyoming() -> None:
    """SettingsError where the protocol's package is not installed."""
    try:
        import wyoming.info  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError('events.wyoming needs wyoming: pip install "auricle[wyoming]".') from error


def wyoming_place(url: str) -> tuple[str, int]:
    """Host and port of `tcp://host:port`; SettingsError for anything else."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "tcp" or not parts.hostname or port is None:
        raise SettingsError(f"events.wyoming is tcp://host:port, such as tcp://127.0.0.1:10400, not {url}.")
    return parts.hostname, port


class WyomingService:
    """An output that is a server.

    Parameters
    ----------
    url
        `tcp://host:port`.
    words
        What it offers: the wake words, or every keyword where there are none.
    model
        Name of the pack, for the clients' lists.
    spotter
        Makes a detector for the sound of one client.
    silence, pause
        Seconds; see `SILENCE` and `PAUSE`.
    """

    name = "wyoming"

    def __init__(
        self,
        url: str,
        words: Sequence[str],
        model: str,
        spotter: Callable[[], Spotter],
        silence: float = SILENCE,
        pause: float = PAUSE,
    ) -> None:
        self._host, self._port = wyoming_place(url)
        self._words, self._model, self._spotter = tuple(words), model, spotter
        self.silence, self.pause = silence, pause
        self._clients: set[_Client] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens, also when it was asked for any free port (0)."""
        return self._port

    async def open(self) -> None:
        """Listen; SettingsError when the address cannot be had."""
        require_wyoming()
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=LARGEST_LINE)
        except OSError as error:
            raise SettingsError(
                f"events.wyoming cannot listen on {self._host}:{self._port}: {because(error)}."
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def deliver(self, event: Event) -> None:
        """Tell the clients that wait for the device's own microphone."""
        if isinstance(event, Detection):
            await asyncio.gather(*(client.heard(event) for client in tuple(self._clients) if client.waits))

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
            for client in tuple(self._clients):
                client.hang_up()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(self, reader, writer)
        if len(self._clients) >= MOST_CLIENTS and not self._make_room(client.address):
            log.warning("A Wyoming client was turned away: there are %d that send sound.", MOST_CLIENTS)
            client.hang_up()
            return
        self._clients.add(client)
        try:
            client.keep_alive()
            await client.run()
        except (WireError, msgspec.MsgspecError) as error:
            log.warning("A Wyoming client was hung up on: %s", error)
            with contextlib.suppress(OSError):
                await client.refuse(str(error))
        except OSError as error:
            log.info("A Wyoming client is gone: %s", error)
        finally:
            await client.leave()
            self._clients.discard(client)

    def _make_room(self, address: str) -> bool:
        """End the client that has been silent for longest, of the address that has the most.

        False where all send sound, and no address has two more than the one that asks.
        """
        now, held = time.monotonic(), Counter(client.address for client in self._clients)
        going = [
            client
            for client in self._clients
            if now - client.sounded > SPEAKING or held[client.address] > held[address] + 1
        ]
        if not going:
            return False
        gone = max(going, key=lambda client: (held[client.address], now - client.last))
        log.warning("A Wyoming client of %s made room for another: there are %d.", gone.address, MOST_CLIENTS)
        self._clients.discard(gone)
        gone.cut()
        return True

    def info(self) -> dict[str, Any]:
        """The answer to `describe`."""
        from wyoming.info import Attribution, Info, WakeModel, WakeProgram

        us = Attribution("Auricle", HOME)
        models = [
            WakeModel(word, us, True, f'The keyword "{word}" of {self._model}', __version__, [], word)
            for word in self._words
        ]
        program = WakeProgram("auricle", us, True, "Keyword spotting that learns on the device", __version__, models)
        return dict(Info(wake=[program]).event().data)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it offers, and that a client gets which names none."""
        return self._words

    def make_spotter(self) -> Spotter:
        """A detector for one client's sound."""
        return self._spotter()


class _Client:
    """One connection: what it asked for, and the detector of its sound."""

    def __init__(self, service: WyomingService, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._service, self._reader, self._writer = service, reader, writer
        self._names: frozenset[str] | None = None
        self._spotter: Spotter | None = None
        self._position = 0
        self._asked = False
        """It asked to detect: what it sends may pause."""
        self._found = False
        self.address = str((writer.get_extra_info("peername") or ("?",))[0])
        self.last = time.monotonic()
        """When it last said something, or came."""
        self.sounded = -math.inf
        """When it last sent sound."""

    @property
    def waits(self) -> bool:
        """Whether it asked to detect and sends no sound of its own."""
        return self._names is not None and self._spotter is None

    async def run(self) -> None:
        """Answer until it hangs up."""
        while (event := await read_event(self._reader, self._service.silence, begins=self._begins())) is not None:
            self.last = time.monotonic()
            await self._answer(*event)

    def _begins(self) -> float | None:
        """Seconds within which its next event has to begin."""
        if self.waits:
            return None
        return self._service.pause if self._asked else self._service.silence

    async def heard(self, detection: Detection) -> None:
        """Tell it of a keyword, if it asked for that one."""
        if self._names is not None and detection.word in self._names:
            self._found = True
            data = {"name": detection.word, "timestamp": int(detection.end * 1000 / RATE)}
            try:
                await self._send("detection", data)
            except OSError:
                self._writer.transport.abort()

    async def refuse(self, reason: str) -> None:
        """Say why it is hung up on."""
        await self._send("error", {"text": reason, "code": "invalid"})

    def keep_alive(self) -> None:
        """Ask the kernel to notice when the other side is gone."""
        ours = self._writer.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):  # not every system has all of them
                ours.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def cut(self) -> None:
        """End the connection now."""
        self._writer.transport.abort()

    def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def leave(self) -> None:
        """Close the connection, also to one that does not take what it was sent."""
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), min(LEAVING, self._service.silence))
        except (OSError, asyncio.TimeoutError):
            self._writer.transport.abort()

    async def _answer(self, kind: str, data: dict[str, Any], payload: bytes) -> None:
        if kind == "describe":
            await self._send("info", self._service.info())
        elif kind == "ping":
            await self._send("pong", {"text": str(data.get("text") or "")[:200]})
        elif kind == "detect":
            names = msgspec.convert(data, _Detect).names
            self._names, self._asked = frozenset(names or self._service.words), True
        elif kind == "audio-start":
            self._begin(data)
        elif kind == "audio-chunk":
            await self._listen(data, payload)
        elif kind == "audio-stop":
            if self._spotter is not None and not self._found:
                await self._send("not-detected", {})
            self._spotter = None

    def _begin(self, data: dict[str, Any]) -> None:
        sound = msgspec.convert(data, _Format)
        if sound != SOUND:
            raise WireError(f"The sound has to be {RATE} Hz, 16 bits, one channel")
        self._names = frozenset(self._service.words) if self._names is None else self._names
        self._spotter, self._position, self._found = self._service.make_spotter(), 0, False

    async def _listen(self, data: dict[str, Any], payload: bytes) -> None:
        if self._spotter is None:
            self._begin(data)
        self.sounded = time.monotonic()
        if msgspec.convert(data, _Format) != SOUND or len(payload) % 2:
            raise WireError(f"The sound has to be {RATE} Hz, 16 bits, one channel")
        samples = np.frombuffer(payload, "<i2")
        block = Block(samples, self._position, time.monotonic())
        self._position = block.end
        assert self._spotter is not None
        for detection in await asyncio.to_thread(self._spotter.feed, block):
            await self.heard(detection)

    async def _send(self, kind: str, data: dict[str, Any]) -> None:
        from wyoming.event import Event, async_write_event

        try:
            await asyncio.wait_for(async_write_event(Event(kind, data), self._writer), self._service.silence)
        except asyncio.TimeoutError as error:
            self._writer.transport.abort()
            raise TimeoutError(f"it took nothing for {self._service.silence:g} s") from error
