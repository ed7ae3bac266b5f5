"""A client that does as a check says and nothing else: acknowledges or not, takes the limits it is told, dies at once.

Auricle's own client hides what a broker does (it reconnects, subscribes again, acknowledges last); a check needs to see
it. PUBLISH and PUBACK are those of `auricle.mqtt_link.packets`, properties those of paho; ten thousand of these fit in
one process.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from auricle.mqtt_link.packets import Published, extent, puback, publish_head, read_puback, read_publish
from auricle.mqtt_link.settings import BrokerAddress, Will

PATIENCE = 10.0
"""Seconds for an answer of a broker."""
CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PING, PONG, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14


class RefusalError(Exception):
    """The broker's CONNACK said no."""


class EndError(Exception):
    """The connection is over."""


@dataclass(frozen=True)
class Wishes:
    """How a session is opened."""

    clean: bool = True
    """Forget what the broker has of this session."""
    expiry: int = 0
    """Seconds that the broker keeps it afterwards; by MQTT 3.1.1 above 0 means for as long as it likes."""
    will: Will | None = None
    properties: Mapping[str, int] = field(default_factory=dict)
    """Of MQTT 5's CONNECT, by paho's names, e.g. `ReceiveMaximum`."""


class Session:
    """One connection of one user; `async with` opens it and ends it with DISCONNECT.

    Parameters
    ----------
    address
        The broker as this user sees it; `address.protocol` is what is spoken.
    name
        Client id.
    wishes
        How it is opened.
    """

    def __init__(self, address: BrokerAddress, name: str, wishes: Wishes | None = None) -> None:
        self.name = name
        self.address = address
        self.wishes = wishes or Wishes()
        self.five = address.protocol == "5"
        self.heard: list[Published] = []
        self.acknowledges = True
        self.present = False
        """Whether the broker had the session."""
        self.properties: Any = None
        """What the broker's CONNACK says, in MQTT 5."""
        self.ended = asyncio.Event()
        self.code: int | None = None
        """Why the broker ended it, where it says so."""
        self._mid = 0
        self._answers: dict[tuple[int, int], asyncio.Future[bytes]] = {}
        self._news = asyncio.Condition()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Session:
        """Connect; `RefusalError` where the broker says no, `EndError` where it hangs up without a word."""
        try:
            self._reader, self._writer = await asyncio.wait_for(
                asyncio.open_connection(self.address.host, self.address.port, ssl=self.address.tls_context()), PATIENCE
            )
            self._writer.write(_connect(self))
            kind, body = await asyncio.wait_for(self._packet(), PATIENCE)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, TimeoutError) as error:
            self.kill()
            raise EndError(f"{self.name}: {error or 'no answer'}") from error
        if kind >> 4 != CONNACK or body[1]:
            self.kill()
            raise RefusalError(f"{self.name}: code {body[1]}")
        self.present = bool(body[0] & 1)
        if self.five:
            self.properties = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call]
            self.properties.unpack(body[2:])
        self._task = asyncio.create_task(self._listen())
        return self

    async def __aenter__(self) -> Session:
        """Open it, unless it is."""
        return self if self._task is not None else await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Say goodbye."""
        await self.close()

    async def close(self) -> None:
        """End it with DISCONNECT: no will, and the session stays as long as was agreed."""
        if self._task is not None and not self.ended.is_set():
            with suppress(OSError):
                self._writer.write(b"\xe0\x00")
                await self._writer.drain()
                self._writer.write_eof() if self._writer.can_write_eof() else None
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self.ended.wait(), 2)
        self.kill()

    def kill(self) -> None:
        """End it without a word, as a process that dies."""
        if self._task is not None:
            self._task.cancel()
        if hasattr(self, "_writer"):
            self._writer.transport.abort()
        self.ended.set()

    async def publish(
        self, topic: str, payload: bytes = b"", *, retain: bool = False, qos: int = 1, expiry: int | None = None
    ) -> int:
        """Publish and wait for the PUBACK; its reason code, from 128 on a refusal (MQTT 3.1.1 has none)."""
        mid = self._next()
        about = {"retain": retain, "mid": mid, "properties": self.five, "expiry": expiry if self.five else None}
        packet = publish_head(topic.encode(), len(payload), qos=qos, **about) + payload
        if not qos:
            self._writer.write(packet)
            return 0
        answer = await self._ask((PUBACK, mid), packet)
        return read_puback(answer, 0, len(answer))[1]

    def send(self, topic: str, payload: bytes = b"", *, retain: bool = False) -> None:
        """Publish with QoS 1 and wait for nothing."""
        about = {"retain": retain, "mid": self._next(), "properties": self.five}
        self._writer.write(publish_head(topic.encode(), len(payload), qos=1, **about) + payload)

    async def subscribe(self, *filters: str) -> list[int]:
        """Subscribe with QoS 1; the broker's code for each."""
        mid = self._next()
        body = struct.pack("!H", mid) + (b"\0" if self.five else b"")
        body += b"".join(_text(each) + b"\1" for each in filters)
        answer = await self._ask((SUBACK, mid), bytes([0x82]) + _length(len(body)) + body)
        return list(answer[-len(filters) :])

    async def ping(self) -> None:
        """Return once the broker has handled all that was sent before; `EndError` where that ended the connection."""
        await self._ask((PONG, 0), b"\xc0\x00")

    async def until(self, enough: Callable[[list[str]], bool], seconds: float = PATIENCE) -> bool:
        """Wait until what was heard (`topic payload`, in order) is enough; whether it became so in time."""
        try:
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(lambda: enough(self.texts())), seconds)
        except (asyncio.TimeoutError, TimeoutError):
            return False
        return True

    def texts(self) -> list[str]:
        """What was heard, each as `topic payload`."""
        return [f"{each.topic.decode()} {each.payload[:200].decode(errors='replace')}" for each in self.heard]

    def _next(self) -> int:
        self._mid = self._mid % 0xFFFF + 1
        return self._mid

    async def _ask(self, key: tuple[int, int], packet: bytes) -> bytes:
        if self.ended.is_set():
            raise EndError(f"{self.name}: the connection is over")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        self._writer.write(packet)
        try:
            return await asyncio.wait_for(answer, PATIENCE)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise EndError(f"{self.name}: no answer within {PATIENCE:.0f} s") from error
        finally:
            self._answers.pop(key, None)

    async def _packet(self) -> tuple[int, bytes]:
        head = await self._reader.readexactly(2)
        while (place := extent(head)) is None:
            head += await self._reader.readexactly(1)
        return head[0], await self._reader.readexactly(place[1] - place[0])

    async def _listen(self) -> None:
        try:
            while True:
                await self._take(*await self._packet())
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended.set()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(EndError(f"{self.name}: the broker ended the connection"))

    async def _take(self, first: int, body: bytes) -> None:
        kind = first >> 4
        if kind == PUBLISH:
            message = read_publish(body, first, 0, len(body), properties=self.five)
            if message.qos and self.acknowledges:
                self._writer.write(puback(message.mid))
            async with self._news:
                self.heard.append(message)
                self._news.notify_all()
        elif kind == DISCONNECT:
            self.code = body[0] if body else 0
        else:
            key = (kind, 0 if kind == PONG else struct.unpack_from("!H", body)[0])
            if (answer := self._answers.get(key)) is not None and not answer.done():
                answer.set_result(body)


def _text(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("!H", len(raw)) + raw


def _length(value: int) -> bytes:
    return b"".join(
        bytes([value >> 7 * place & 0x7F | (0x80 if value >> 7 * place + 7 else 0)])
        for place in range(max(1, -(-value.bit_length() // 7)))
    )


def _properties(kind: int, values: Mapping[str, int]) -> bytes:
    properties = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return bytes(properties.pack())


def _connect(session: Session) -> bytes:
    """The CONNECT of a session (MQTT 5, 3.1)."""
    wishes, (user, password) = session.wishes, session.address.credentials()
    will = wishes.will
    flags = (2 if wishes.clean else 0) | (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    # By 3.1.1 one flag says both: begin without a session, and end without one.
    if not session.five:
        flags = flags & ~2 | (0 if wishes.expiry else 2)
    if will is not None:
        flags |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
    head = _text("MQTT") + bytes([5 if session.five else 4, flags]) + struct.pack("!H", 60)
    if session.five:
        head += _properties(PacketTypes.CONNECT, {"SessionExpiryInterval": wishes.expiry, **wishes.properties})
    body = _text(session.name)
    if will is not None:
        if session.five:
            body += _properties(PacketTypes.WILLMESSAGE, {"WillDelayInterval": will.delay})
        body += _text(will.topic) + _text(will.payload)
    for each in (user, password):
        body += b"" if each is None else _text(each)
    return bytes([CONNECT << 4]) + _length(len(head + body)) + head + body
