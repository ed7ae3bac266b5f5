"""Protocol buffers as trees of fields, so that a changed one still has the right lengths around it."""

from __future__ import annotations

import random
from dataclasses import dataclass

MOST_DEPTH = 6
INTEGERS = [0, 1, 2, 3, 7, 16, 127, 128, 255, 1 << 16, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


class NotProtobufError(ValueError):
    """Bytes that are not fields, one after the other."""


@dataclass
class Field:
    """One field."""

    number: int
    wire: int
    value: int | bytes | list[Field]
    """A number, bytes, or the fields of a message."""


def parse(data: bytes, depth: int = 0) -> list[Field]:
    """The fields of a message; what in it can be a message is taken for one."""
    fields, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes | list[Field]
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
        if wire == 2 and isinstance(value, bytes) and depth < MOST_DEPTH and not (value.isascii() and value.isalnum()):
            try:
                value = parse(value, depth + 1) or value
            except NotProtobufError:
                """Bytes."""
        fields.append(Field(number, wire, value))
    return fields


def encode(fields: list[Field]) -> bytes:
    """The bytes of a message, every length as it is now."""
    out = bytearray()
    for field in fields:
        out += _encoded(field.number << 3 | field.wire)
        if isinstance(field.value, int):
            out += _encoded(field.value)
            continue
        value = encode(field.value) if isinstance(field.value, list) else field.value
        out += (_encoded(len(value)) if field.wire == 2 else b"") + value
    return bytes(out)


def changed(data: bytes, draw: random.Random) -> bytes:
    """The same message with one or a few fields changed, doubled, moved or left out; NotProtobufError: it is none."""
    fields = parse(data)
    for _ in range(1 + int(draw.expovariate(1))):
        _change(fields, draw)
    return encode(fields)


def _change(fields: list[Field], draw: random.Random) -> None:
    inside = fields
    while True:
        if not inside:
            return
        at = draw.randrange(len(inside))
        field = inside[at]
        if isinstance(field.value, list) and draw.random() < 0.85:
            inside = field.value
            continue
        break
    kind = draw.random()
    if kind < 0.12:
        del inside[at]
    elif kind < 0.24:
        inside.insert(draw.randint(0, len(inside)), field)
    elif kind < 0.32:
        inside[at] = Field(draw.choice(inside).number, field.wire, field.value)
    elif kind < 0.4:
        inside[at] = Field(draw.choice((field.number + 1, 15, 1 << 20)), field.wire, field.value)
    elif kind < 0.55:
        inside[at] = Field(field.number, field.wire, draw.choice(inside).value) if field.wire == 2 else field
    else:
        inside[at] = Field(field.number, field.wire, _other(field, inside, draw))


def _other(field: Field, beside: list[Field], draw: random.Random) -> int | bytes | list[Field]:
    value = field.value
    if isinstance(value, int):
        return draw.choice((value + 1, max(0, value - 1), draw.choice(INTEGERS)))
    if isinstance(value, list):
        return b"" if draw.random() < 0.3 else [*value, *value[: draw.randint(0, len(value))]]
    block = bytearray(value or b"\0")
    block[draw.randrange(len(block))] = draw.randrange(256)
    if field.wire == 2 and draw.random() < 0.3:
        return bytes(block) * draw.choice((0, 2, 50))
    return bytes(block)


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
