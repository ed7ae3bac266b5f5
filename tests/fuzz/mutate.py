"""Changes of an example: of its bytes, and of the values in it where it is JSON or MessagePack."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.fuzz import protobuf
from tests.fuzz.target import Form

INTEGERS = [0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 1000, 4096, 32767, 32768, 65535, 65536, 1 << 20, (1 << 31) - 1]
INTEGERS += [1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1]
TEXTS = ["", "\0", "a" * 300, "../../x", "/etc/passwd", "\u202eabc", "é" * 70, "\ud7ff", "-1", "1e999", "nan", "null"]
TEXTS += ["%s%n{0}", "\r\nX: y", "a\nb", "0" * 64, "f" * 64, "C:\\x", "http://[::1", "\x7f\x1b[2J", "NaN", "१२३", "²"]
FLOATS = [0.0, -0.0, 1e-310, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), 0.1, 1e22]
TOKENS: dict[Form, tuple[bytes, ...]] = {
    "binary": (b"\0" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80\0\0\0"),
    "text": (b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"=", b":", b"[", b'"', b"'", b"\\", b"%00", b"\t"),
    "json": (
        *(b"[" * 2000, b'{"a":' * 2000, b"1e999", b"-0", b"NaN", b'"\\ud800"', b"\xed\xa0\x80", b"\\u0000"),
        b"9" * 5000,
    ),
    "msgpack": (b"\x91" * 2000, b"\x81\xa1a" * 1000, b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"),
    "protobuf": (b"\xff" * 9 + b"\x01", b"\x0a\x00" * 500),
    "toml": (
        *(b"[" * 2000, b"{a=" * 1000, b"9" * 5000, b"[[a]]\n", b"a.b.c = 1\n", b'"""', b"1979-05-27T07:32:00Z", b"nan"),
    ),
}
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NOT_PACKED = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, OverflowError, TypeError)


class Mutator:
    """Draws changed inputs."""

    def __init__(self, random: random.Random, form: Form, tokens: Sequence[bytes], largest: int) -> None:
        self._random, self._form, self._largest = random, form, largest
        self._tokens = [*TOKENS[form], *tokens, *tokens]
        small = [self._flip, self._set, self._number, self._count, self._digits]
        large = [self._delete, self._double, self._insert, self._token, self._cut, self._swap, self._repeat]
        self._changes: list[Callable[[bytearray], None]] = [*small, *small, *large]

    def next(self, pool: Sequence[bytes]) -> bytes:
        """An input made of one or two of the pool, short ones more often than long ones."""
        draw = self._random
        data = draw.choice(pool)
        if draw.random() < 0.5:
            data = min(data, draw.choice(pool), key=len)
        if self._form in ("json", "msgpack", "protobuf") and draw.random() < 0.6:
            changed = self._in_values(data)
            if draw.random() < 0.7:
                return changed[: self._largest]
            data = changed
        block = bytearray(data)
        if draw.random() < 0.1:
            other = draw.choice(pool)
            block[draw.randint(0, len(block)) :] = other[draw.randint(0, len(other)) :]
        while True:
            draw.choice(self._changes)(block)
            if draw.random() < 0.5:
                return bytes(block[: self._largest])

    # -- bytes

    def _place(self, block: bytearray) -> int:
        """A position; more often one of the first, where headers are."""
        end = min(len(block), 64) if self._random.random() < 0.2 else len(block)
        return self._random.randrange(end) if end else 0

    def _span(self, block: bytearray) -> slice:
        start = self._place(block)
        return slice(start, start + 1 + int(self._random.expovariate(1 / 16)))

    def _flip(self, block: bytearray) -> None:
        if block:
            block[self._place(block)] ^= 1 << self._random.randrange(8)

    def _set(self, block: bytearray) -> None:
        if block:
            block[self._place(block)] = self._random.choice((0, 1, 0x7F, 0x80, 0xFF, self._random.randrange(256)))

    def _number(self, block: bytearray) -> None:
        width = self._random.choice((1, 2, 4, 8))
        number = self._random.choice(INTEGERS) & ((1 << 8 * width) - 1)
        at = self._place(block)
        block[at : at + width] = number.to_bytes(width, self._random.choice(("little", "big")))

    def _count(self, block: bytearray) -> None:
        """One more or less of a number that stands there."""
        form, width = self._random.choice((("<B", 1), ("<H", 2), (">H", 2), ("<I", 4), (">I", 4), ("<Q", 8)))
        at = self._place(block)
        if at + width <= len(block):
            (number,) = struct.unpack_from(form, block, at)
            changed = (number + self._random.randint(-16, 16)) & ((1 << 8 * width) - 1)
            struct.pack_into(form, block, at, changed)

    def _delete(self, block: bytearray) -> None:
        del block[self._span(block)]

    def _double(self, block: bytearray) -> None:
        span, at = self._span(block), self._place(block)
        block[at:at] = block[span]

    def _repeat(self, block: bytearray) -> None:
        span = self._span(block)
        block[span.start : span.start] = block[span] * self._random.choice((2, 8, 64, 1024, 4096))

    def _insert(self, block: bytearray) -> None:
        at = self._place(block)
        block[at:at] = self._random.randbytes(1 + int(self._random.expovariate(1 / 8)))

    def _token(self, block: bytearray) -> None:
        at, token = self._place(block), self._random.choice(self._tokens)
        over = len(token) if self._random.random() < 0.5 else 0
        block[at : at + over] = token

    def _cut(self, block: bytearray) -> None:
        del block[self._place(block) :]

    def _swap(self, block: bytearray) -> None:
        one, other = self._span(block), self._span(block)
        block[one], block[other] = block[other], block[one]

    def _digits(self, block: bytearray) -> None:
        """Another number where one stands in digits."""
        where = _NUMBER.search(block, self._place(block)) or _NUMBER.search(block)
        if where:
            drawn = self._random.choice((self._random.choice(INTEGERS), self._random.choice(FLOATS)))
            block[where.start() : where.end()] = str(drawn).encode()

    # -- values

    def _in_values(self, data: bytes) -> bytes:
        try:
            if self._form == "protobuf":
                return protobuf.changed(data, self._random)
            tree = json.loads(data) if self._form == "json" else msgspec.msgpack.decode(data)
            for _ in range(1 + int(self._random.expovariate(1))):
                tree = self._changed(tree)
            if self._form == "json":
                return json.dumps(tree).encode("utf-8", "surrogatepass")
            return msgspec.msgpack.encode(tree)
        except _NOT_PACKED:
            return data

    def _changed(self, tree: Any) -> Any:
        """The tree with one value of it changed."""
        draw = self._random
        if isinstance(tree, dict) and tree and draw.random() < 0.85:
            key = draw.choice(list(tree))
            kind = draw.random()
            if kind < 0.1:
                return {k: v for k, v in tree.items() if k != key}
            if kind < 0.2:
                return {**tree, draw.choice(TEXTS): tree[key]}
            if kind < 0.3:
                return {**tree, key: tree[draw.choice(list(tree))]}
            return {**tree, key: self._changed(tree[key])}
        if isinstance(tree, list) and tree and draw.random() < 0.85:
            at = draw.randrange(len(tree))
            kind = draw.random()
            if kind < 0.1:
                return tree[:at] + tree[at + 1 :]
            if kind < 0.2:
                return tree + [tree[at]] * draw.choice((1, 2, 100))
            return [*tree[:at], self._changed(tree[at]), *tree[at + 1 :]]
        return self._other(tree)

    def _other(self, value: Any) -> Any:
        draw = self._random
        if isinstance(value, str) and value and draw.random() < 0.5:
            block = bytearray(value.encode("utf-8", "surrogatepass"))
            draw.choice(self._changes)(block)
            return block[:4096].decode("utf-8", "replace")
        if isinstance(value, bytes) and value and draw.random() < 0.7:
            block = bytearray(value)
            draw.choice(self._changes)(block)
            return bytes(block[:4096])
        if isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.3:
            return value + draw.randint(-2, 2)
        if draw.random() < 0.08:
            for _ in range(draw.choice((1, 40, 900))):
                value = [value] if draw.random() < 0.5 else {"a": value}
            return value
        plain = [None, True, False, [], {}, [None], {"": 1}, b"" if self._form == "msgpack" else ""]
        return draw.choice([draw.choice(INTEGERS), draw.choice(FLOATS), draw.choice(TEXTS), draw.choice(plain)])
