"""Values as programs pass them, of kinds that no file has: named in JSON, so that inputs can be read and changed.

In a document `"python: NAME"` stands for a value of `VALUES`, anywhere.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import json
import random
import zlib
from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np

from auricle_fleet import FleetSettings, Group

MARK = "python: "


class _Colour(str, enum.Enum):
    RED = "red"


class _Wide(int):
    """A subclass, as of some libraries' numbers."""


def _cycle() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


def _deep() -> list[object]:
    inside: list[object] = []
    for _ in range(5_000):
        inside = [inside]
    return inside


VALUES: dict[str, Callable[[], object]] = {
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "minus inf": lambda: -float("inf"),
    "huge": lambda: 10**400,
    "minus huge": lambda: -(10**400),
    "digits": lambda: 10**5_000,
    "wide": lambda: _Wide(3),
    "complex": lambda: 1 + 2j,
    "decimal": lambda: decimal.Decimal("0.5"),
    "decimal nan": lambda: decimal.Decimal("NaN"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "float32": lambda: np.float32(0.5),
    "float16 inf": lambda: np.float16("inf"),
    "float64 nan": lambda: np.float64("nan"),
    "int64": lambda: np.int64(3),
    "uint64": lambda: np.uint64(2**64 - 1),
    "bool_": lambda: np.bool_(True),
    "str_": lambda: np.str_("fedavg"),
    "bytes_": lambda: np.bytes_(b"\xff"),
    "datetime64": lambda: np.datetime64("2026-01-01"),
    "void": lambda: np.zeros(1, "i4,f8")[0],
    "array of none": lambda: np.zeros(0),
    "array of one": lambda: np.array([3]),
    "array of three": lambda: np.arange(3),
    "array without axes": lambda: np.array(0.5),
    "array of objects": lambda: np.array([None, {}], dtype=object),
    "longdouble": lambda: np.longdouble("1e4000"),
    "bytes": lambda: b"\xff\0",
    "bytearray": lambda: bytearray(b"fedavg"),
    "memoryview": lambda: memoryview(b"lpa"),
    "surrogate": lambda: "\ud800",
    "long text": lambda: "x" * 100_000,
    "path": lambda: Path("clips"),
    "pure path": lambda: PurePosixPath("/x"),
    "surrogate path": lambda: Path("/\udcff"),
    "set": lambda: {1, "a"},
    "frozenset": lambda: frozenset({0.5}),
    "tuple": lambda: (1, 2),
    "range": lambda: range(3),
    "generator": lambda: (each for each in (1, 2)),
    "ordered": lambda: OrderedDict(a=1),
    "default": lambda: defaultdict(int, a=1),
    "chain": lambda: ChainMap({"a": 1}),
    "numbered": lambda: {1: 2},
    "of none": lambda: {None: None},
    "of tuples": lambda: {("a",): 1},
    "cycle": _cycle,
    "deep": _deep,
    "callable": lambda: lambda: 1,
    "kind": lambda: int,
    "kind of numbers": lambda: np.float64,
    "object": object,
    "ellipsis": lambda: ...,
    "enum": lambda: _Colour.RED,
    "unset": lambda: msgspec.UNSET,
    "raw": lambda: msgspec.Raw(b"1"),
    "date": lambda: datetime.date(2026, 1, 1),
    "moment": lambda: datetime.datetime(2026, 1, 1),
    "duration": lambda: datetime.timedelta(seconds=5),
    "module": lambda: json,
    "error": lambda: ValueError("x"),
    "settings": FleetSettings,
    "group": lambda: Group(name="a", count=1),
}
"""By name, what makes each."""


def read_document(data: bytes) -> dict[str, Any]:
    """A document's table with the values that it names; ValueError: it is none."""
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("no table")
    return {name: _filled(value) for name, value in document.items()}


def _filled(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(MARK):
        made = VALUES.get(value.removeprefix(MARK))
        return value if made is None else made()
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each) for name, each in value.items()}
    return value


def with_python_values(data: bytes) -> bytes:
    """A document with a few of its values in the place of others, the same for the same document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    draw = random.Random(zlib.crc32(data))
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        _set_one(document, draw)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _set_one(inside: Any, draw: random.Random) -> None:
    """Put a value somewhere into a document."""
    while True:
        places = list(inside) if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ()
        if not places:
            return
        place = draw.choice(list(places))
        if isinstance(inside[place], dict | list) and inside[place] and draw.random() < 0.8:
            inside = inside[place]
            continue
        if place != "make":
            inside[place] = MARK + draw.choice(list(VALUES))
        return
