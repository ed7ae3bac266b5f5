"""Protocol buffers as ONNX uses them, read strictly and with a budget: what is not expected is refused, not skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from auricle.errors import PackError

MOST_FIELDS = 1_000_000
"""Most fields and numbers that one file may hold outside its raw tensors: bounds time and memory."""

LONGEST_TEXT = 1000

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

Span = tuple[int, int]
"""First byte and the one after the last."""
Spec = Mapping[int, str]
"""What a message may hold, by field number: `i` a number, `b` bytes, a text or a message, `f` a float32; upper case:
any number of them, numbers and floats also packed; `D`: float64s; `x`: a field that is refused by name; `-`: one that
is passed over."""

WIRES = {"i": VARINT, "b": LENGTH, "f": FIXED32, "I": VARINT, "B": LENGTH, "F": FIXED32, "D": FIXED64}


class Wire:
    """Reads the messages of one file.

    Parameters
    ----------
    data
        The whole file.
    where
        What the file is, for the sentence of a refusal.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self._left = MOST_FIELDS

    def refuse(self, reason: str) -> NoReturn:
        """Raise the PackError that names the file and the reason."""
        raise PackError(f"{self.where} is refused: {reason}.")

    def message(self, span: Span, spec: Spec, what: str) -> dict[int, list[Any]]:
        """The fields of a message by number: numbers as they are, all else as spans.

        Raises
        ------
        PackError
            A field that the spec does not know, of another wire type, twice where one is allowed, or cut short.
        """
        data, (at, end) = self.data, span
        found: dict[int, list[Any]] = {}
        count = 0
        while at < end:
            key = data[at]
            at += 1
            if key > 127:
                key, at = self._varint(at - 1, end)
            number, wire = key >> 3, key & 7
            kind = spec.get(number)
            if kind is None or kind == "x":
                self.refuse(f"its {what} has a field {number} that a pack's graph may not have")
            if wire == LENGTH and at < end and data[at] < 128:  # most fields by far: a sixth less time for a graph
                value = at + 1, at + 1 + data[at]
                at = value[1]
            else:
                value, at = self._value(wire, at, end)
            if at > end:
                self.refuse(f"its {what} is cut short")
            count += 1
            if kind == "-":
                continue
            if wire != WIRES[kind] and not (wire == LENGTH and kind in "IFD"):
                self.refuse(f"field {number} of its {what} has the wrong type")
            if number not in found:
                found[number] = [value] if wire != LENGTH or kind != "I" else self._varints(value)
            elif kind.islower():
                self.refuse(f"its {what} has field {number} twice")
            elif wire == LENGTH and kind == "I":
                found[number] += self._varints(value)
            else:
                found[number].append(value)
            if count > self._left:
                break
        self._spend(count)
        return found

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            self.refuse(f"it has more than {MOST_FIELDS} fields")

    def _value(self, wire: int, at: int, end: int) -> tuple[Any, int]:
        if wire == LENGTH:
            size, at = self._varint(at, end)
            return (at, at + size), at + size
        if wire == VARINT:
            return self._varint(at, end)
        if wire == FIXED32:
            return (at, at + 4), at + 4
        if wire == FIXED64:
            return (at, at + 8), at + 8
        return self.refuse(f"it uses the wire type {wire}, which ONNX does not have")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """An unsigned number of at most 64 bits and where it ends."""
        data, value, shift = self.data, 0, 0
        while at < end and shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                if value >> 64:
                    break
                return value, at
            shift += 7
        return self.refuse("a number in it is cut short or longer than 64 bits")

    def _varints(self, span: Span) -> list[int]:
        at, end = span
        if end > len(self.data):
            self.refuse("a list of numbers in it is cut short")
        self._spend(end - at)
        values = []
        while at < end:
            value, at = self._varint(at, end)
            values.append(value)
        return values

    def text(self, span: Span, what: str) -> str:
        """A text of at most `LONGEST_TEXT` bytes."""
        if span[1] - span[0] > LONGEST_TEXT:
            self.refuse(f"a {what} in it is longer than {LONGEST_TEXT} bytes")
        try:
            return self.data[span[0] : span[1]].decode()
        except UnicodeDecodeError:
            return self.refuse(f"a {what} in it is not UTF-8")

    def join(self, spans: list[Span]) -> bytes:
        """The bytes of spans one after the other."""
        return b"".join(self.data[start:end] for start, end in spans)


def to_signed(value: int) -> int:
    """An int64 from its unsigned bits."""
    return value - (1 << 64) if value >> 63 else value
