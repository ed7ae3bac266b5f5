"""The two packets of MQTT that carry all traffic, read and written here: PUBLISH and PUBACK (MQTT 5, 3.3 and 3.4).

An MQTT library makes a handful of objects of each; a link that takes in a thousand updates a second spends a quarter of
its time there. Everything else that client and broker say to each other is left to the library.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

PUBLISH, PUBACK = 0x30, 0x40
"""The upper four bits of a packet's first byte."""
_EXPIRY = b"\x05\x02"
"""Length of the properties, and which one follows: MessageExpiryInterval (MQTT 5, 3.3.2.3.3)."""
_UINT16, _UINT32 = struct.Struct("!H"), struct.Struct("!I")


class MalformedPacketError(ValueError):
    """A broker sent what is not a packet."""


class Published(NamedTuple):
    """A PUBLISH that came."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    duplicate: bool
    mid: int
    """0 with QoS 0."""


def extent(data: bytes | bytearray, start: int = 0) -> tuple[int, int] | None:
    """Where a packet that begins at `start` has its contents, from and to; None where its length has not come yet.

    Raises
    ------
    MalformedPacketError
        Its length is not one (MQTT 5, 1.5.5).
    """
    length = _variable(data, start + 1, len(data))
    return None if length is None else (length[1], length[1] + length[0])


def _variable(data: bytes | bytearray, start: int, stop: int) -> tuple[int, int] | None:
    """A variable byte integer and where it ends; None where it goes on at `stop`."""
    value = 0
    for place in range(4):
        if start + place >= stop:
            return None
        byte = data[start + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise MalformedPacketError("a length of more than four bytes")


def read_publish(data: bytes | bytearray, first: int, start: int, stop: int, *, properties: bool) -> Published:
    """Read a PUBLISH.

    Parameters
    ----------
    data
        Has its contents from `start` to `stop`.
    first
        The packet's first byte.
    properties
        Whether there are any, as in MQTT 5; they are passed over, for none of them is asked for.

    Raises
    ------
    MalformedPacketError
        It is shorter than it says, has QoS 2, which is never asked for, or no topic.
    """
    qos = first >> 1 & 3
    place = start + 2
    if qos > 1 or place > stop:
        raise MalformedPacketError("a message of a quality of service that was not asked for, or without a topic")
    end = place + _UINT16.unpack_from(data, start)[0]
    with memoryview(data) as view:  # a slice of a bytearray would be copied twice
        topic = bytes(view[place : min(end, stop)])
    place = end
    mid = 0
    if qos and place + 2 <= stop:
        mid = _UINT16.unpack_from(data, place)[0]
        place += 2
    if properties:
        length = _variable(data, place, stop)
        place = stop + 1 if length is None else length[0] + length[1]
    if place > stop or not topic or bool(mid) != bool(qos):
        raise MalformedPacketError("a message that is shorter than it says")
    with memoryview(data) as view:
        payload = bytes(view[place:stop])
    return Published(topic, payload, qos, bool(first & 1), bool(first & 8), mid)


def read_puback(data: bytes | bytearray, start: int, stop: int) -> tuple[int, int]:
    """Packet id and reason of a PUBACK; a reason from 128 on is a refusal, and MQTT 3.1.1 has none.

    Raises
    ------
    MalformedPacketError
        It is too short.
    """
    if stop - start < 2:
        raise MalformedPacketError("an acknowledgement of nothing")
    return _UINT16.unpack_from(data, start)[0], data[start + 2] if stop - start > 2 else 0


def publish_head(
    topic: bytes, length: int, *, qos: int, retain: bool, mid: int, properties: bool, expiry: int | None = None
) -> bytes:
    """Everything of a PUBLISH but its payload.

    Parameters
    ----------
    topic
        UTF-8.
    length
        Bytes of the payload.
    mid
        Packet id, from 1 to 65535; not used with QoS 0.
    properties, expiry
        Of MQTT 5: whether there are any, and the seconds for which the message is of use.

    Raises
    ------
    ValueError
        Nothing can be published on this topic.
    """
    if not 0 < len(topic) < 1 << 16 or b"+" in topic or b"#" in topic or b"\0" in topic:
        raise ValueError("a topic has 1 to 65535 bytes, and none of +, # and NUL")
    rest = [_UINT16.pack(len(topic)), topic]
    if qos:
        rest.append(_UINT16.pack(mid))
    if properties:
        rest.append(b"\0" if expiry is None else _EXPIRY + _UINT32.pack(expiry))
    head = b"".join(rest)
    first = PUBLISH | qos << 1 | retain
    return bytes([first]) + _length(len(head) + length) + head


def _length(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def puback(mid: int) -> bytes:
    """A PUBACK without a word."""
    return b"\x40\x02" + _UINT16.pack(mid)
