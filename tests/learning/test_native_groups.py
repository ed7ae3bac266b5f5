"""Elementwise instructions brought together give the bits that they give one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from auricle_learning.native import program
from auricle_learning.native.library import compiler, library
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.program import Program
from auricle_learning.native.views import View
from auricle_learning.native.writer import Writer

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
ROWS, COLUMNS = 6, 24


def _some(rng: np.random.Generator, views: list[View]) -> View:
    """A view of four rows, of some store, as it lies or with steps between its rows."""
    view = views[rng.integers(len(views))]
    start, step = (rng.integers(3), 1) if rng.random() < 0.8 else (0, -1)
    view = view.cut(0, 3 if step < 0 else int(start), 4, step)
    return view.cut(1, 0, 1) if rng.random() < 0.1 else view


def _written(seed: int) -> tuple[Program, list[View]]:
    """A program of values that are read, and of places that are written to again and again; and the latter's views."""
    rng, writer = np.random.default_rng(seed), Writer()
    inputs = [writer.keep((ROWS, COLUMNS)) for _ in range(3)]
    places = [writer.new((ROWS, COLUMNS)) for _ in range(4)]
    for place in places:
        writer.elementwise("copy", [inputs[0]], place)
    for _ in range(60):
        values = [*inputs, *places]
        made = writer.elementwise("sub", [_some(rng, values), _some(rng, values)])
        if rng.random() < 0.15:
            made = writer.reduce("max", made, [0]).broadcast((4, COLUMNS))
        elif rng.random() < 0.5:
            made = writer.elementwise(("neg", "tanh", "relu")[rng.integers(3)], [made])
        start = int(rng.integers(3))
        made = made.broadcast((4, COLUMNS))
        writer.elementwise("copy", [made], places[rng.integers(len(places))].cut(0, start, 4))
    return writer.program([*inputs, *places]), [*inputs, *places]


def _run(made: Program, views: list[View]) -> bytes:
    loaded = LoadedProgram(library(), made)
    arena = loaded.arena()
    arena[:] = np.nan
    for i, view in enumerate(views[:3]):
        start = view.store.offset
        arena[start : start + view.size] = np.random.default_rng(i).standard_normal(view.size).astype(np.float32)
    loaded.run(arena)
    return b"".join(arena[view.store.offset : view.store.offset + view.size].tobytes() for view in views)


@pytest.mark.parametrize("seed", range(12))
def test_a_group_gives_the_bits_of_its_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together = _run(*_written(seed))
    monkeypatch.setattr(program, "grouped", lambda instructions, kept: list(instructions))
    assert _run(*_written(seed)) == together


def test_a_program_becomes_shorter_where_steps_share_values() -> None:
    """Five steps over the same numbers are one instruction: two values in the arena, two places outside it in turn."""
    writer = Writer()
    x = writer.keep((8, 16))
    made = x
    for kind in ("neg", "exp", "tanh", "relu", "sqrt"):
        made = writer.elementwise(kind, [made])
    words = writer.program([x, made]).words.tolist()
    assert words[:2] == [6, len(words)]
    assert words[6:9] == [2, 2, 5]
