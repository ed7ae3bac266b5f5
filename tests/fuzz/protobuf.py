"""Protocol buffers, changed in one field somewhere inside so that all lengths around it are still right.

Only the messages on the way to that field are parsed: a graph of thousands of fields is changed as fast as it is read.
"""

from __future__ import annotations

import random
from typing import NamedTuple

MOST_DEPTH = 6
INTEGERS = [0, 1, 2, 3, 7, 16, 127, 128, 255, 1 << 16, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


class NotProtobufError(ValueError):
    """Bytes that are not fields, one after the other."""


class Field(NamedTuple):
    """One field."""

    number: int
    wire: int
    value: int | bytes
    """A number, or bytes, which may be a message."""

    def encode(self) -> bytes:
        """Its key, its length where it has one, and its value."""
        key = _encoded(self.number << 3 | self.wire)
        if isinstance(self.value, int):
            return key + _encoded(self.value)
        return key + (_encoded(len(self.value)) if self.wire == 2 else b"") + self.value


def parse(data: bytes) -> list[tuple[int, int, Field]]:
    """The fields of a message, each after where it begins and ends; what is inside of them is left as it is."""
    fields, at = [], 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value, at = data[at : at + width], at + width
        else:
            raise NotProtobufError("a kind of field that is not used")
        if at > len(data) or not number:
            raise NotProtobufError("cut short")
        fields.append((begin, at, Field(number, wire, value)))
    return fields


def changed(data: bytes, draw: random.Random) -> bytes:
    """The same message with one or a few fields changed, doubled, moved or left out; NotProtobufError: it is none."""
    for _ in range(1 + int(draw.expovariate(1))):
        data = _change(data, draw, 0)
    return data


def _change(data: bytes, draw: random.Random, depth: int) -> bytes:
    """Change a field of a message, or of one that is inside of it; all others stay, byte by byte."""
    fields = parse(data)
    if not fields:
        return data
    at = draw.randrange(len(fields))
    begin, end, field = fields[at]
    inside = field.value if field.wire == 2 and depth < MOST_DEPTH else b""
    if isinstance(inside, bytes) and inside and not (inside.isascii() and inside.isalnum()) and draw.random() < 0.85:
        try:
            new = field._replace(value=_change(inside, draw, depth + 1)).encode()
        except NotProtobufError:
            """Bytes, not a message."""
        else:
            return data[:begin] + new + data[end:]
    kind = draw.random()
    other = draw.choice(fields)
    if kind < 0.12:
        new = b""
    elif kind < 0.24:
        place = other[0]
        return data[:place] + data[begin:end] + data[place:]
    elif kind < 0.32:
        new = field._replace(number=other[2].number).encode()
    elif kind < 0.4:
        new = field._replace(number=draw.choice((field.number + 1, 15, 1 << 20))).encode()
    elif kind < 0.55:
        new = Field(field.number, 2, other[2].value).encode() if field.wire == other[2].wire == 2 else data[begin:end]
    else:
        new = field._replace(value=_other(field, draw)).encode()
    return data[:begin] + new + data[end:]


def _other(field: Field, draw: random.Random) -> int | bytes:
    value = field.value
    if isinstance(value, int):
        return draw.choice((value + 1, max(0, value - 1), draw.choice(INTEGERS)))
    if field.wire == 2 and value and draw.random() < 0.3:
        return _repeated(value, draw)
    block = bytearray(value or b"\0")
    block[draw.randrange(len(block))] = draw.randrange(256)
    return bytes(block)


def _repeated(value: bytes, draw: random.Random) -> bytes:
    """Nothing of a value, or more of it: of a message its first fields again."""
    if draw.random() < 0.3:
        return b""
    try:
        begins = [begin for begin, _, _ in parse(value)]
    except NotProtobufError:
        return value * draw.choice((2, 50))
    return value + value[: draw.choice((*begins, len(value)))]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotProtobufError("no number")


def _encoded(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
