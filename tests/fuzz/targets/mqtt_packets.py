"""What a broker sends to a link, read packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from auricle.mqtt_link.packet_socket import PacketSocket
from auricle.mqtt_link.packets import (
    PUBACK,
    PUBLISH,
    MalformedPacketError,
    Published,
    puback,
    publish_head,
    read_puback,
    read_publish,
)
from tests.fuzz.target import target

LARGEST = 1 << 9
"""Bytes that a packet may have here."""
FIVE = 0x80
"""In an input's first byte: the packets have properties, as in MQTT 5. The rest of it are the bytes of each piece."""
LENGTHS = (b"\x30\xff\xff\xff\x7f", b"\x32\x80\x80\x80\x00", b"\x40\xff\xff\xff\xff")
"""Heads of packets: of 256 MB, of none in more bytes than it takes, and of no length at all."""
LONGEST = 4 * LARGEST
"""Bytes of an input that are looked at."""
MOST = 100
"""Pieces in which an input comes: a long one byte by byte would take the time of a hundred others."""
TOPIC = b"auricle/1/home/d/kitchen/up/upd"
REFUSAL = b"\x87\x00\x00"
"""Reason "not authorized", and no properties (MQTT 5, 3.4.2)."""


class _Pieces:
    """A socket on which bytes come in pieces of one size, and nothing at its end."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size, self.place = data, size, 0

    def recv_into(self, view: memoryview) -> int:
        piece = self._data[self.place : self.place + min(self._size, len(view))]
        view[: len(piece)] = piece
        self.place += len(piece)
        return len(piece)


def _head(length: int, *, qos: int = 1, properties: bool = True, expiry: int | None = None) -> bytes:
    return publish_head(TOPIC, length, qos=qos, retain=False, mid=7, properties=properties, expiry=expiry)


def _examples() -> dict[str, bytes]:
    """A way of reading, and what comes."""
    many = _head(3) + b"one" + puback(9) + b"\x40\x05\x00\x09" + REFUSAL + _head(200, expiry=60) + b"x" * 200
    return {
        "many-in-one": bytes([FIVE | 0x7F]) + many,
        "byte-by-byte": bytes([FIVE | 1]) + many,
        "protocol-3": b"\x05" + _head(4, qos=0, properties=False) + b"four" + puback(1) + b"\xd0\x00",
        "left-to-paho": bytes([FIVE | 3])
        + b"\x20\x06\x00\x00\x03\x22\x00\x0a"
        + b"\x90\x04\x00\x01\x00\x01"
        + puback(2),
        "largest": bytes([FIVE | 0x70]) + _head(464) + b"y" * 464,
        "no-end-yet": bytes([FIVE | 0x10]) + puback(3) + _head(400) + b"z" * 90,
    }


def _read(data: bytes, size: int, *, properties: bool) -> Iterator[object]:
    """All packets of a stream that comes in pieces, as `LoopSocket` takes them, and what is left to the library."""
    pieces: Any = _Pieces(data, size)
    near = PacketSocket(pieces, LARGEST)
    while not near.ended:
        near.fill()
        while (packet := near.packet()) is not None:
            first, held, start, stop = packet
            assert start <= stop <= len(held) <= LARGEST + size
            match first & 0xF0:
                case kind if kind == PUBLISH:
                    yield read_publish(held, first, start, stop, properties=properties)
                case kind if kind == PUBACK:
                    yield read_puback(held, start, stop)
                case _:
                    near.leave()
                    yield near.recv(LARGEST)
        assert len(near._came) <= LARGEST + size, "what no packet can need is kept"


def _outcome(data: bytes, size: int, *, properties: bool) -> tuple[list[object], MalformedPacketError | None]:
    """What was read, and why no more was."""
    found: list[object] = []
    try:
        for each in _read(data, size, properties=properties):
            found.append(each)
    except MalformedPacketError as error:
        return found, error
    return found, None


@target(
    "mqtt-packets",
    "auricle.mqtt_link.packets auricle.mqtt_link.packet_socket",
    examples=_examples,
    refusals=(MalformedPacketError,),
    tokens=(TOPIC, puback(5), *LENGTHS, b"\x34\x03\x00\x01a"),
    largest=LONGEST,
    megabytes=8,
)
def mqtt_packets(data: bytes) -> object:
    """A stream of packets, the same whatever the pieces are in which it comes; what was read can be written again."""
    told, stream = (data[0], data[1 : 1 + LONGEST]) if data else (1, b"")
    five, size = bool(told & FIVE), max(1, told & 0x7F, len(stream) // MOST)
    found, error = _outcome(stream, size, properties=five)
    whole, refusal = _outcome(stream, len(stream) + 1, properties=five)
    assert (found, str(error)) == (whole, str(refusal)), "it depends on where it was split"
    for each in found:
        if isinstance(each, Published):
            _written_again(each, properties=five)
    if error is not None:
        raise error
    return len(found)


def _written_again(read: Published, *, properties: bool) -> None:
    about: dict[str, Any] = {"qos": read.qos, "retain": read.retain, "mid": read.mid, "properties": properties}
    try:
        head = publish_head(read.topic, len(read.payload), **about)
    except ValueError:  # a topic on which nothing can be published may still come
        return
    (again,) = _read(head + read.payload, LONGEST, properties=properties)
    assert again == read._replace(duplicate=False)
