"""Programs for the C library: every kernel against NumPy, and mutations of a sound program, in a process of its own.

python -m tests.learning.native_probe LIBRARY
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.core import tiny_pack
from tests.learning import depthwise_cases

from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.depthwise import correlations, sum_places
from auricle_learning.native.library import Library
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.planner import plan_graph
from auricle_learning.native.program import Program, UnsupportedError
from auricle_learning.native.self_test import ONE, TWO
from auricle_learning.native.views import View
from auricle_learning.native.writer import Writer

Array = NDArray[np.float32]
MOST_RUN = 1 << 24
"""Numbers of a mutated program that is run: more would only take long."""


def levels(library: Library) -> tuple[str, ...]:
    """Those that this processor has."""
    return LEVELS[: LEVELS.index(library.level) + 1]


class Case:
    """A program in the making, with the numbers of its inputs."""

    def __init__(self) -> None:
        self.writer = Writer()
        self.given: list[tuple[View, Array]] = []

    def array(self, value: Any) -> View:
        numbers = np.asarray(value, np.float32, order="C")
        view = self.writer.keep(numbers.shape)
        self.given.append((view, numbers))
        return view

    def run(self, library: Library, level: str, *results: View) -> list[Array]:
        inputs = [view for view, _ in self.given] + [view for view, _ in self.writer.constants]
        program = self.writer.program([*inputs, *results])
        loaded = LoadedProgram(library, program, level)
        arena = loaded.arena()
        arena[:] = np.nan  # what nobody wrote has to be missed
        for view, numbers in [*self.given, *self.writer.constants]:
            arena[view.store.offset :][: numbers.size] = numbers.ravel()
        loaded.run(arena)
        return [_read(arena, view) for view in results]


def _read(arena: Array, view: View) -> Array:
    start = arena[view.store.offset + view.offset :]
    strides = tuple(4 * stride for stride in view.strides)
    return np.lib.stride_tricks.as_strided(start, view.shape, strides).copy()


def elementwise(library: Library, level: str) -> None:
    """Rows of every length around a vector's, side by side, repeated, transposed, reversed and with steps."""
    rng = np.random.default_rng(0)
    for shape in [(), (1,), (3,), (5, 7), (4, 16), (3, 17), (2, 40), (6, 5, 33)]:
        a, b = (rng.uniform(-8, 8, shape).astype(np.float32) for _ in range(2))
        b = np.where(rng.random(shape) < 0.2, a, b).astype(np.float32)
        for kind, right in ONE.items():
            x = np.abs(a) if kind in ("sqrt", "log") else np.round(a) if kind in ("not", "truth") else a
            _compare(kind, _one_way(library, level, kind, x), right(x.astype(np.float64)))
        for kind, right in TWO.items():
            x = np.abs(a) if kind == "pow" else a
            _compare(kind, _one_way(library, level, kind, x, b), right(x.astype(np.float64), b.astype(np.float64)))
        cond = (rng.random(shape) < 0.5).astype(np.float32)
        _compare("where", _one_way(library, level, "where", cond, a, b), np.where(cond != 0, a, b))
    _views(library, level, rng)


def _one_way(library: Library, level: str, kind: str, *inputs: Array) -> Array:
    case = Case()
    return case.run(library, level, case.writer.elementwise(kind, [case.array(x) for x in inputs]))[0]


def _compare(what: str, ours: Any, right: Any) -> None:
    right = np.asarray(right, np.float64)
    assert np.shape(ours) == right.shape, (what, np.shape(ours), right.shape)
    apart = np.abs(ours - right) / (np.abs(right) + 1e-2)
    assert (apart < 6e-7).all(), (what, right.shape, apart.max())


def _views(library: Library, level: str, rng: np.random.Generator) -> None:
    value = rng.standard_normal((6, 8, 33)).astype(np.float32)
    row = rng.standard_normal((33,)).astype(np.float32)
    case = Case()
    places = rng.standard_normal((33, 9)).astype(np.float32)
    x, y, kernel = case.array(value), case.array(row), case.array(places)
    write = case.writer
    turned, odd, even = x.transposed((0, 2, 1)), x.cut(2, 1, 16, 2), x.cut(2, 0, 16, 2)
    made = {
        "repeated": (write.elementwise("add", [x, y]), value + row),
        "transposed": (write.dense(x.transposed((2, 0, 1))), value.transpose(2, 0, 1)),
        "of two orders": (write.elementwise("sub", [turned, write.dense(turned)]), np.zeros((6, 33, 8))),
        "reversed": (write.dense(x.cut(0, 5, 6, -1).cut(2, 32, 33, -1)), value[::-1, :, ::-1]),
        "with steps": (write.elementwise("mul", [odd, even]), value[..., 1::2] * value[..., :32:2]),
        "a number": (write.elementwise("mul", [x.cut(2, 3, 1), y]), value[..., 3:4] * row),
        "a place of a kernel": (write.elementwise("mul", [x, kernel.cut(1, 4, 1).without(1)]), value * places[:, 4]),
    }
    found = case.run(library, level, *(view for view, _ in made.values()))
    for (name, (_, right)), ours in zip(made.items(), found, strict=True):
        _compare(name, ours, right)


def products(library: Library, level: str) -> None:
    """Sizes around a tile's, with either side transposed, with numbers to add, several at once."""
    rng = np.random.default_rng(1)
    for m, n, k in [(1, 1, 1), (2, 3, 4), (7, 16, 5), (8, 31, 64), (16, 64, 64), (17, 33, 300), (5, 12, 513)]:
        a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
        case = Case()
        add = case.array(c).broadcast((m, n))
        turned = case.array(a.T), case.array(b.T)
        results = [
            case.writer.product(case.array(a), case.array(b)),
            case.writer.product(turned[0].transposed((1, 0)), turned[1].transposed((1, 0)), add),
        ]
        plain, added = case.run(library, level, *results)
        right, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
        assert (np.abs(plain - right) <= 4e-7 * size + 1e-7).all(), (m, n, k)
        assert (np.abs(added - right - c) <= 4e-7 * (size + np.abs(c)) + 1e-7).all(), (m, n, k)
    many = rng.standard_normal((3, 4, 5)).astype(np.float32), rng.standard_normal((3, 5, 6)).astype(np.float32)
    case = Case()
    views = [case.array(each) for each in many]
    out = case.writer.new((3, 6, 4)).transposed((0, 2, 1))
    results = [case.writer.product(views[0], views[1]), case.writer.product(views[0], views[1], None, out)]
    for ours in case.run(library, level, *results):
        np.testing.assert_allclose(ours, many[0] @ many[1], rtol=1e-5, atol=1e-5)


def reductions(library: Library, level: str) -> None:
    """Every set of axes; a long sum; softmax and its logarithm; the first of the largest."""
    rng = np.random.default_rng(2)
    value = rng.standard_normal((3, 5, 18)).astype(np.float32)
    right = {"sum": np.sum, "squares": lambda x, axis: np.sum(x**2, axis=axis), "max": np.max, "min": np.min}
    for axes in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]:
        for kind, reduce in right.items():
            case = Case()
            made = case.writer.reduce(kind, case.array(value), axes, 0.5)
            turned = case.writer.reduce(kind, case.array(value.transpose(2, 0, 1)).transposed((1, 2, 0)), axes, 0.5)
            for ours in case.run(library, level, made, turned):
                np.testing.assert_allclose(
                    ours, 0.5 * reduce(value.astype(np.float64), axis=axes), rtol=2e-6, atol=2e-6
                )
    long = rng.standard_normal(151_003).astype(np.float32)
    case = Case()
    (ours,) = case.run(library, level, case.writer.reduce("squares", case.array(long), [0]))
    assert abs(ours - np.sum(long.astype(np.float64) ** 2)) < 2e-7 * ours
    rows = 9 * rng.standard_normal((4, 21)).astype(np.float32)
    rows[1, 4] = rows[1, 9] = 50
    case = Case()
    view = case.array(rows)
    results = [case.writer.softmax(view, False), case.writer.softmax(view, True), case.writer.argmax(view)]
    soft, logarithm, places = case.run(library, level, *results)
    powers = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
    _compare("softmax", soft, powers / powers.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(logarithm, np.log(powers / powers.sum(axis=1, keepdims=True)), rtol=1e-6, atol=2e-6)
    assert places.tolist() == rows.argmax(axis=1).tolist()


def depthwise(library: Library, level: str) -> None:
    """What is made, and the gradients of batch and weights; NaN goes through what sees it, and no farther."""
    rng = np.random.default_rng(4)
    for due in depthwise_cases.CASES:
        x, dy = (rng.standard_normal((*sizes, due.batch, due.channels)) for sizes in (due.sizes, due.out))
        weights = rng.standard_normal((due.channels, len(due.places))).T
        x, dy, weights = (each.astype(np.float32).astype(np.float64) for each in (x, dy, weights))
        case = Case()
        batch, later, kernel = case.array(x), case.array(dy), case.array(weights.T).transposed((1, 0))
        rows = [kernel.cut(0, i, 1).without(0) for i in range(len(due.places))]
        y, dx = (case.writer.new(value.shape) for value in (dy, x))
        sum_places(case.writer, depthwise_cases.shifts(due), batch, rows, y)
        sum_places(case.writer, depthwise_cases.shifts_back(due), later, rows, dx)
        sums = correlations(case.writer, depthwise_cases.shifts(due), batch, later)
        found = case.run(library, level, y, dx, *sums)
        right = (depthwise_cases.made(due, x, weights), *depthwise_cases.gradients(due, x, weights, dy))
        for ours, value in zip((found[0], found[1], np.stack(found[2:])), right, strict=True):
            assert np.abs(ours - value).max() <= 2e-6 * np.abs(value).max(), due
    odd = np.zeros((6, 1, 4), np.float32)
    odd[2] = np.nan
    case, due = Case(), depthwise_cases.Case((6,), (3,), (1,), (1,), ((1, 1),), 1, 4)
    y = case.writer.new(odd.shape)
    sum_places(case.writer, depthwise_cases.shifts(due), case.array(odd), [case.array(np.ones(4))] * 3, y)
    assert np.isnan(case.run(library, level, y)[0][:, 0, 0]).tolist() == [False, True, True, True, False, False]


def extremes(library: Library, level: str) -> None:
    """NaN stays NaN, and the ends of float32 are what they are in IEEE 754."""
    odd = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, 88.5, -88.5, -103, 200, -200], np.float32)
    with np.errstate(all="ignore"):
        for kind in ("exp", "tanh", "sigmoid", "relu", "neg", "abs"):
            ours, right = _one_way(library, level, kind, odd), ONE[kind](odd.astype(np.float64)).astype(np.float32)
            np.testing.assert_allclose(ours, right, rtol=3e-7, atol=3e-45, err_msg=kind)
        for kind in ("max", "min", "add"):
            for x, y in ((odd, odd[::-1].copy()), (odd[::-1].copy(), odd)):
                np.testing.assert_array_equal(_one_way(library, level, kind, x, y), TWO[kind](x, y), err_msg=kind)


OPERATORS = (elementwise, products, reductions, depthwise, extremes)


def sound() -> Program:
    """The training step of the tiny pack and, for other instructions, one of each kind."""
    case = Case()
    x = case.array(np.zeros((4, 6)))
    case.writer.softmax(x, True)
    case.writer.argmax(x)
    case.writer.reduce("sum", x, [1])
    due = depthwise_cases.CASES[1]
    batch, later = (case.array(np.zeros((*sizes, due.batch, due.channels))) for sizes in (due.sizes, due.out))
    rows, made = [case.array(np.zeros(due.channels))] * len(due.places), case.writer.new(batch.shape)
    sum_places(case.writer, depthwise_cases.shifts_back(due), later, rows, made)
    correlations(case.writer, depthwise_cases.shifts(due), batch, later)
    others = case.writer.program([view for view, _ in case.given])
    step = plan_graph(tiny_pack.pack(), tiny_pack.graphs()[1]).program
    return Program(np.concatenate([step.words, others.words]), max(step.arena, others.arena))


def fuzz(library: Library, count: int) -> tuple[int, int]:
    """Change words of a sound program at random; run what the library still takes. Refused and run."""
    rng, program = np.random.default_rng(3), sound()
    values = [-1, 0, 1, 2, 3, 7, 16, program.arena - 1, program.arena, program.arena + 1, -program.arena, 1 << 30]
    refused = ran = 0
    for _ in range(count):
        words = program.words.astype(np.int64)
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(words.size)
            near = [words[at] + 1, words[at] - 1, -words[at], 2 * words[at]]
            words[at] = rng.choice([*values, *near, *rng.integers(-(1 << 31), 1 << 31, 2)])
        if rng.random() < 0.1:
            words = words[: rng.integers(words.size)]
        mutant = Program(words.clip(-(1 << 31), (1 << 31) - 1).astype(np.int32), program.arena)
        try:
            loaded = LoadedProgram(library, mutant)
        except UnsupportedError:
            refused += 1
            continue
        if _work(mutant.words) <= MOST_RUN:
            ran += 1
            arena = loaded.arena()
            loaded.run(arena)
            assert not arena[program.arena :].any(), "it wrote where it may only read"
    return refused, ran


def _work(words: NDArray[np.int32]) -> int:
    """Numbers that a program touches."""
    at, total = 0, 0
    while at < len(words):
        sizes = {
            1: slice(3, 7),
            2: slice(2, 6),
            3: slice(3, 6),
            4: slice(3, 5),
            5: slice(2, 4),
            6: slice(2, 6),
            7: slice(3, 7),
        }[int(words[at])]
        steps = int(words[at + 8]) if words[at] == 6 else int(words[at + 1]) if words[at] == 7 else 1
        total += steps * math.prod(int(size) for size in words[at : at + int(words[at + 1])][sizes])
        at += int(words[at + 1])
    return total


def main() -> None:
    library = Library(Path(sys.argv[1]))
    for level in levels(library):
        for check in OPERATORS:
            check(library, level)
    print(*fuzz(library, int(sys.argv[2])))


if __name__ == "__main__":
    main()
