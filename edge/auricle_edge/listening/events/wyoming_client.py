"""One client of the Wyoming service: what it asked for, within bounds, and the keywords in the sound that it sends.

The format (https://github.com/rhasspy/wyoming): a line of JSON with `type`, `data_length` and `payload_length`, then as
many bytes of JSON that extend `data`, then as many of payload.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec
import numpy as np
from msgspec import Meta

from auricle.errors import WireError
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.listening.sound import RATE, Block, Detection

LARGEST_LINE = 1 << 16
"""Bytes of an event's line, and of its data."""
LARGEST_PAYLOAD = 1 << 20
"""Bytes of an event's payload: half a minute of sound."""


class Header(msgspec.Struct, frozen=True):
    """The line that begins an event; keys that are not known are passed over."""

    type: Annotated[str, Meta(max_length=64)]
    data: dict[str, object] = msgspec.field(default_factory=dict)
    data_length: Annotated[int, Meta(ge=0, le=LARGEST_LINE)] | None = None
    payload_length: Annotated[int, Meta(ge=0, le=LARGEST_PAYLOAD)] | None = None


async def read_event(
    reader: asyncio.StreamReader, seconds: float, *, begins: float | None
) -> tuple[str, dict[str, object], bytes] | None:
    """The next event's type, data and payload; None at the end.

    Parameters
    ----------
    seconds
        How long an event may take to come whole.
    begins
        And to begin; None: at any time.

    Raises
    ------
    WireError
        What came is not an event, too long for one, or too slow.
    OSError
        The connection is gone.
    """
    try:
        first = await asyncio.wait_for(reader.read(1), begins)
        return await asyncio.wait_for(_read_from(reader, first), seconds) if first else None
    except asyncio.TimeoutError as error:
        if getattr(error, "errno", None) is not None:
            raise  # the kernel's: the other side does not answer any more
        raise WireError(f"The Wyoming client said nothing for {begins if begins else seconds:g} s.") from error


async def _read_from(reader: asyncio.StreamReader, first: bytes) -> tuple[str, dict[str, object], bytes]:
    try:
        line = first + (b"" if first == b"\n" else await reader.readuntil(b"\n"))
        header = msgspec.json.decode(line, type=Header)
        data = dict(header.data)
        if header.data_length:
            data |= msgspec.json.decode(await reader.readexactly(header.data_length), type=dict[str, object])
        payload = await reader.readexactly(header.payload_length) if header.payload_length else b""
    except asyncio.IncompleteReadError as error:
        raise WireError("The Wyoming connection ended inside an event.") from error
    except (asyncio.LimitOverrunError, *UNDECODABLE) as error:
        raise WireError(f"What came is not a Wyoming event: {error}.") from error
    return header.type, data, payload


LEAVING_SECONDS = 2.0
"""Seconds for what was sent last to be taken, when a connection is closed."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A client that waits and is gone without a word gives its place back after two minutes."""


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


@dataclass(frozen=True)
class Offer:
    """What every client is offered."""

    words: tuple[str, ...]
    """That a client gets which names none."""
    info: Callable[[], dict[str, object]]
    """The answer to `describe`: a JSON document of the protocol."""
    spotter: Callable[[], Spotter]
    """Makes a detector for the sound of one client."""
    silence: float
    """Seconds after which a client that sends nothing is hung up on, see `wyoming.SILENCE_SECONDS`."""
    pause: float
    """The same for one that asked to detect and has begun to send sound."""


class Client:
    """One connection: what it asked for, and the detector of its sound."""

    def __init__(self, offer: Offer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._offer, self._reader, self._writer = offer, reader, writer
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
        while (event := await read_event(self._reader, self._offer.silence, begins=self._begins())) is not None:
            self.last = time.monotonic()
            await self._answer(*event)

    def _begins(self) -> float | None:
        """Seconds within which its next event has to begin."""
        if self.waits:
            return None
        return self._offer.pause if self._asked else self._offer.silence

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
            await asyncio.wait_for(self._writer.wait_closed(), min(LEAVING_SECONDS, self._offer.silence))
        except (OSError, asyncio.TimeoutError):
            self._writer.transport.abort()

    async def _answer(self, kind: str, data: dict[str, object], payload: bytes) -> None:
        if kind == "describe":
            await self._send("info", self._offer.info())
        elif kind == "ping":
            await self._send("pong", {"text": str(data.get("text") or "")[:200]})
        elif kind == "detect":
            names = msgspec.convert(data, _Detect).names
            self._names, self._asked = frozenset(names or self._offer.words), True
        elif kind == "audio-start":
            self._begin(data)
        elif kind == "audio-chunk":
            await self._listen(data, payload)
        elif kind == "audio-stop":
            if self._spotter is not None and not self._found:
                await self._send("not-detected", {})
            self._spotter = None

    def _begin(self, data: dict[str, object]) -> None:
        sound = msgspec.convert(data, _Format)
        if sound != SOUND:
            raise WireError(f"The sound has to be {RATE} Hz, 16 bits, one channel")
        self._names = frozenset(self._offer.words) if self._names is None else self._names
        self._spotter, self._position, self._found = self._offer.spotter(), 0, False

    async def _listen(self, data: dict[str, object], payload: bytes) -> None:
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

    async def _send(self, kind: str, data: dict[str, object]) -> None:
        from wyoming.event import Event, async_write_event

        try:
            await asyncio.wait_for(async_write_event(Event(kind, data), self._writer), self._offer.silence)
        except asyncio.TimeoutError as error:
            self._writer.transport.abort()
            raise TimeoutError(f"it took nothing for {self._offer.silence:g} s") from error
