"""Does the library compute what it should on this processor? Asked once, before the first use."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_learning.native.library import Library, library
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.views import View
from auricle_learning.native.writer import REDUCTIONS, Walk, Writer

SHARE = 1e-5
"""How far a number may be from NumPy's in float64, of the largest one of its kind, or of 1 where all are smaller."""
ROWS, DEEP, COLUMNS = 13, 37, 19
"""Of the product: no multiple of a vector's length, so that the ends of rows are tried too."""
Right = Callable[..., Any]

ONE: dict[str, Right] = {
    "copy": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "exp": np.exp,
    "log": lambda x: np.log(np.abs(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.where(x < 0, 0, x),
    "reciprocal": lambda x: 1 / x,
    "erf": np.vectorize(math.erf),
    "not": lambda x: x == 0,
    "truth": lambda x: x != 0,
}
"""What an elementwise kernel of one input does; `sqrt`, `log` and `pow` are asked about positive numbers only."""
TWO: dict[str, Right] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "pow": lambda x, y: np.power(np.abs(x), y),
    "or": lambda x, y: (x != 0) | (y != 0),
}
_POSITIVE = ("sqrt", "log", "pow")
_REDUCED: dict[str, Right] = {
    "sum": lambda x: x.sum(axis=1),
    "squares": lambda x: np.square(x).sum(axis=1),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(axis=1),
}


def tested_library() -> Library:
    """The library of this machine, once it has computed as NumPy does.

    Raises
    ------
    AuricleError
        As of `library`, or its numbers are wrong here.
    """
    found = library()
    try_out(found)
    return found


def fault_of(found: Library) -> str | None:
    """What a library computes wrongly here, as a sentence; None where it computes as NumPy does."""
    try:
        try_out(found)
    except AuricleError as error:
        return str(error)
    return None


@cache
def try_out(found: Library) -> None:
    """Run every kernel once; AuricleError where a number differs from NumPy's."""
    given: dict[str, NDArray[np.float32]] = {
        "a": _waves(ROWS, DEEP) / np.float32(3),
        "b": _waves(DEEP, COLUMNS) * np.float32(1.5),
        "x": _waves(ROWS, COLUMNS) * np.float32(3),
        "y": np.abs(_waves(ROWS, COLUMNS, 0.5)) * np.float32(2.9) + np.float32(0.1),
    }
    given["y"][::3] = given["x"][::3]
    given["x"][1::4] = 0.5
    writer = Writer()
    views = {name: writer.keep(value.shape) for name, value in given.items()}
    a, b, x, y = (given[name].astype(np.float64) for name in "abxy")
    positive, wide = np.abs(x), writer.elementwise("abs", [views["x"]])
    asked: list[tuple[str, View, Any]] = []
    for kind, right in ONE.items():
        first, value = (wide, positive) if kind in _POSITIVE else (views["x"], x)
        asked.append((kind, writer.elementwise(kind, [first]), right(value)))
    for kind, right in TWO.items():
        first, value = (wide, positive) if kind in _POSITIVE else (views["x"], x)
        asked.append((kind, writer.elementwise(kind, [first, views["y"]]), right(value, y)))
    choice = writer.elementwise("greater", [views["x"], views["y"]])
    asked.append(("where", writer.elementwise("where", [choice, views["x"], views["y"]]), np.where(x > y, x, y)))
    product, z = writer.product(views["a"], views["b"]), a @ b
    asked += [(kind, writer.reduce(kind, product, [1]), _REDUCED[kind](z)) for kind in REDUCTIONS]
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    likely = powers / powers.sum(axis=1, keepdims=True)
    asked.append(("product", product, z))
    asked.append(("softmax", writer.softmax(product, logarithm=False), likely))
    asked.append(("logarithm of softmax", writer.softmax(product, logarithm=True), np.log(likely)))
    asked.append(("place of the largest", writer.argmax(product), z.argmax(axis=1)))
    asked += _depthwise(writer, views["x"], views["y"].cut(0, 0, 3), (x, y[:3]))
    loaded = LoadedProgram(found, writer.program([*views.values(), *(view for _, view, _ in asked)]))
    arena = loaded.arena()
    for name, view in views.items():
        _part(arena, view)[...] = given[name]
    loaded.run(arena)
    for name, view, right_one in asked:
        wanted = np.asarray(right_one, np.float64)
        off = float(np.abs(_part(arena, view) - wanted).max())
        if not off <= SHARE * max(1.0, float(np.abs(wanted).max())):
            raise AuricleError(
                f"The library of the runtime native computes wrongly on this processor ({name}, by {off:g}): choose "
                "--runtime step, and tell the project."
            )


def _depthwise(
    writer: Writer, x: View, kernel: View, numbers: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> list[tuple[str, View, Any]]:
    """Three places along the rows of x (ROWS, COLUMNS), by a kernel (3, COLUMNS) and by x itself."""
    wide = ((1, ROWS, 1, COLUMNS), (0, COLUMNS, 0, 1))
    walk = Walk((1, 1), (0, COLUMNS, 0), ((0, 0, 1, 1, ROWS - 1), (0, 0, 1, 0, ROWS), (COLUMNS, 0, 1, 0, ROWS - 1)))
    source, made, sums = View(x.store, 0, *wide), writer.new(x.shape), writer.new(kernel.shape)
    writer.depthwise(source, walk, kernel, View(made.store, 0, *wide), weighted=True)
    writer.depthwise(source, walk, sums, source, weighted=False)
    around = np.pad(numbers[0], ((1, 1), (0, 0)))
    seen = np.stack([around[k : k + ROWS] for k in range(3)])
    return [
        ("depthwise convolution", made, (seen * numbers[1][:, None]).sum(axis=0)),
        ("its gradient", sums, (seen * numbers[0]).sum(axis=1)),
    ]


def _waves(rows: int, columns: int, first: float = 1.0) -> NDArray[np.float32]:
    """Numbers from -1 to 1 (rows, columns), no two alike; a generator of random ones would be a megabyte of memory."""
    numbers: NDArray[np.float32] = np.sin(first + 1.618 * np.arange(rows * columns)).astype(np.float32)
    return numbers.reshape(rows, columns)


def _part(arena: NDArray[np.float32], view: View) -> NDArray[np.float32]:
    """A value that lies side by side in its memory."""
    start = view.store.offset + view.offset
    return arena[start : start + view.size].reshape(view.shape)
