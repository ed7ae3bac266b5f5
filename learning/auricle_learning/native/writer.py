"""Writes the instructions of a graph over views; `program.py` gives them one arena after that.

The words of an instruction are those of `step.h`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auricle_learning.native.groups import AXES, ELEMENTWISE
from auricle_learning.native.program import Program, UnsupportedError, assemble
from auricle_learning.native.views import Instruction, Shape, Store, View, dense, joined_axes

KINDS = (
    *("copy", "neg", "abs", "sqrt", "exp", "log", "sigmoid", "tanh", "relu", "reciprocal", "erf", "not", "truth"),
    *("add", "sub", "mul", "div", "max", "min", "greater", "greater_equal", "less", "less_equal", "equal", "pow", "or"),
    "where",
)
"""Elementwise kernels, in the order of `step.h`."""
PRODUCT, REDUCE, SOFTMAX, ARGMAX = range(2, 6)
DEPTHWISE, MOST_PLACES = 7, 64
"""And places of a window that one instruction of it has."""
REDUCTIONS = ("sum", "squares", "max", "min")
MOST_APART, MOST_TOGETHER = 64, 1024
"""Places of an axis more, each with an instruction of its own, and of all such axes together."""
REPEATED_TIMES = 8
"""Times that a value is repeated at least for a copy of it to pay."""
SHORT_ROW = 32
"""Numbers of a row of something repeated under which a longer one, repeated itself, is made of it."""


class Walk(NamedTuple):
    """How places of a window see a source while they walk over two axes of what is made of it."""

    steps: tuple[int, int]
    """From one output that a place sees to the next one, along both axes."""
    strides: tuple[int, ...]
    """Of the source, from one thing that a place sees to the next one, along both axes, and from row to row."""
    places: tuple[tuple[int, ...], ...]
    """Where the first thing that each sees lies, and, of both axes, the first output that sees one and how many do."""


class Writer:
    """Instructions as they are added; every method gives the view of what it makes, or fills the one it is given."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.constants: list[tuple[View, NDArray[np.float32]]] = []
        self._makers: dict[Store, list[int]] = defaultdict(list)
        self._copies: dict[tuple[int, int, Shape, Shape], View] = {}
        self._numbers: dict[tuple[Shape, bytes], View] = {}

    def keep(self, shape: Sequence[int]) -> View:
        """Memory that is filled before a program runs."""
        return View(Store(max(1, math.prod(shape)), kept=True), 0, tuple(shape), dense(shape))

    def new(self, shape: Sequence[int], like: View | None = None) -> View:
        """Memory for what an instruction makes, its axes in the order of those of another view of that shape."""
        if like is None or like.is_dense:
            return View(Store(max(1, math.prod(shape))), 0, tuple(shape), dense(shape))
        order = list(range(len(shape)))
        order.sort(key=lambda axis: -abs(like.strides[axis]) if shape[axis] != 1 else -(1 << 60))
        inner = dense([shape[axis] for axis in order])
        strides = [0] * len(shape)
        for axis, stride in zip(order, inner, strict=True):
            strides[axis] = stride
        return View(Store(max(1, math.prod(shape))), 0, tuple(shape), tuple(strides))

    def constant(self, value: NDArray[np.float32]) -> View:
        """Numbers that stay; the same ones lie once."""
        flat = np.asarray(value, np.float32, order="C")
        key = (flat.shape, flat.tobytes())
        if key not in self._numbers:
            self._numbers[key] = self.keep(flat.shape)
            self.constants.append((self._numbers[key], flat))
        return self._numbers[key]

    def dense(self, view: View) -> View:
        """The same numbers side by side: copied once, however often it is asked for."""
        if view.is_dense:
            return view
        key = (id(view.store), view.offset, view.shape, view.strides)
        if key not in self._copies:
            self._copies[key] = self.elementwise("copy", [view], self.new(view.shape))
        return self._copies[key]

    def reshape(self, view: View, shape: Sequence[int]) -> View:
        """Another shape, by a copy where it takes one."""
        made = view.reshaped(shape)
        if made is None:
            made = self.dense(view).reshaped(shape)
        assert made is not None
        return made

    def _add(self, words: list[int | View], reads: list[View], writes: View) -> View:
        at = len(self.instructions)
        for view in [*reads, writes]:
            view.store.first = min(view.store.first, at)
            view.store.last = max(view.store.last, at)
        self._makers[writes.store].append(at)
        self.instructions.append(Instruction([words[0], len(words) + 1, *words[1:]], reads, [writes]))
        return writes

    def elementwise(self, kind: str, inputs: Sequence[View], out: View | None = None) -> View:
        """Out = kind(inputs), repeated to a common shape."""
        shape = inputs[0].shape if out is None else out.shape
        if out is None and any(view.shape != shape for view in inputs):
            shape = np.broadcast_shapes(*(view.shape for view in inputs))
        wide = [view.broadcast(shape) for view in inputs]
        repeated = [
            axis for axis, size in enumerate(shape) if size != 1 and not any(view.strides[axis] for view in wide)
        ]
        if out is None and repeated:  # once, however often it is asked for
            for axis in repeated:
                wide = [view.cut(axis, 0, 1) for view in wide]
            return self.elementwise(kind, wide).broadcast(shape)
        if out is None:
            whole = (view for view in wide if all(s or n == 1 for n, s in zip(shape, view.strides, strict=True)))
            out = self.new(shape, next(whole, None))
        inner = [abs(stride) for stride in out.strides]
        order = list(range(len(shape)))
        if any(after > before for before, after in pairwise(inner)):
            order.sort(key=lambda axis: -inner[axis])
        wide = [self._close_up(view, [axis for axis in order if shape[axis] != 1]) for view in wide]
        views = [view.transposed(order) for view in (out, *wide)]
        axes = joined_axes(views[0].shape, *(view.strides for view in views))
        self._walk(KINDS.index(kind), axes, views)
        return out

    def _close_up(self, view: View, order: list[int]) -> View:
        """A repeated view whose numbers lie apart or in short rows along the innermost axes: in longer rows of its own.

        A copy of the few numbers, so that each of the many rows need not gather them, or rows need not be as short.
        """
        if not order or not (few := {axis for axis in order if view.strides[axis] == 0}):
            return view
        longest = joined_axes(*([each[axis] for axis in order] for each in (view.shape, view.strides)))[-1][0]
        least = 1 if view.strides[order[-1]] not in (0, 1) else SHORT_ROW
        if least > 1 and longest >= least:
            return view
        inner = order[-1:]
        while len(inner) < len(order) and math.prod(view.shape[axis] for axis in inner) < least:
            inner = order[-len(inner) - 1 :]
        part = view
        for axis in few.difference(inner):
            part = part.cut(axis, 0, 1)
        if part.size * REPEATED_TIMES > view.size:
            return view
        order = [axis for axis in range(len(view.shape)) if axis not in inner] + inner
        closed = self.dense(part.transposed(order)).transposed([order.index(axis) for axis in range(len(order))])
        return closed.broadcast(view.shape)

    def _walk(self, kind: int, axes: list[tuple[int, tuple[int, ...]]], views: list[View]) -> None:
        """One instruction, or as many as the axes that are too many for one have places."""
        if len(axes) > AXES:
            size, steps = axes[0]
            if size > MOST_APART or math.prod(each for each, _ in axes[: len(axes) - AXES]) > MOST_TOGETHER:
                raise UnsupportedError("it has too many axes")
            for i in range(size):
                pairs = zip(views, steps, strict=True)
                moved = [View(view.store, view.offset + i * step, view.shape, view.strides) for view, step in pairs]
                self._walk(kind, axes[1:], moved)
            return
        axes = axes or [(1, (1,) * len(views))]
        axes = [(1, (0,) * len(views))] * (AXES - len(axes)) + axes
        words: list[int | View] = [ELEMENTWISE, kind, *(size for size, _ in axes)]
        for i, view in enumerate(views):
            words += [view, *(steps[i] for _, steps in axes)]
        self._add(words, views[1:], views[0])

    def product(self, a: View, b: View, add: View | None = None, out: View | None = None) -> View:
        """Out = add + a b for matrices (M, K), (K, N), or as many of each as the first axis has."""
        if len(a.shape) == 2:
            views = [None if view is None else _one(view) for view in (a, b, add, out)]
            assert views[0] is not None
            assert views[1] is not None
            made = self.product(views[0], views[1], views[2], views[3])
            return out if out is not None else made.without(0)
        times, rows, deep = a.shape
        columns = b.shape[2]
        target = out if out is not None else self.new((times, rows, columns))
        if b.strides[2] != 1 and columns > 1:
            b = self.dense(b) if b.strides[0] else self.dense(b.cut(0, 0, 1)).broadcast(b.shape)
        if add is not None and add.strides[2] != 1 and columns > 1:
            add = self.elementwise("copy", [add], self.new(add.shape))
        place = target if target.strides[2] == 1 or columns == 1 else self.new(target.shape)
        words: list[int | View] = [PRODUCT, times, rows, columns, deep, a, *a.strides, b, *b.strides[:2]]
        words += [-1, 0, 0] if add is None else [add, *add.strides[:2]]
        self._add([*words, place, *place.strides[:2]], [a, b] if add is None else [a, b, add], place)
        if place is not target:
            self.elementwise("copy", [place], target)
        return target

    def reduce(self, kind: str, view: View, axes: Sequence[int], scale: float = 1.0, out: View | None = None) -> View:
        """Over some axes; what is left has no such axes."""
        kept = [axis for axis in range(len(view.shape)) if axis not in axes]
        shape, strides = (tuple([each[axis] for axis in kept]) for each in (view.shape, view.strides))
        target = out if out is not None else self.new(shape, View(view.store, view.offset, shape, strides))
        axes = sorted(axes, key=lambda axis: -abs(view.strides[axis]))
        over = joined_axes([view.shape[axis] for axis in axes], [view.strides[axis] for axis in axes])
        if len(over) > 1:
            return self._reduce_twice(kind, view, axes, scale, out)
        order = sorted(range(len(kept)), key=lambda at: -abs(strides[at]))
        left = joined_axes(*([each[at] for at in order] for each in (shape, strides, target.strides)))
        if len(left) > 2:
            made = self.reduce(
                kind, self.dense(view.transposed([*kept, *axes])), range(len(kept), len(view.shape)), scale
            )
            return made if out is None else self.elementwise("copy", [made], out)
        size, (step,) = over[0] if over else (1, (1,))
        if len(left) == 1 and left[0][1] != (1, 1):
            left.append((1, (1, 1)))
        left = [*[(1, (0, 0))] * (2 - len(left)), *left]
        (outer, (outer_from, outer_to)), (inner, (inner_from, inner_to)) = left
        words: list[int | View] = [REDUCE, REDUCTIONS.index(kind), outer, size, inner, view]
        words += [outer_from, step, inner_from, target, outer_to, inner_to]
        self._add([*words, int(np.float32(scale).view(np.int32))], [view], target)
        return target

    def _reduce_twice(self, kind: str, view: View, axes: list[int], scale: float, out: View | None) -> View:
        """Over what lies farthest apart, as many axes as can be walked as one, and what that gives over the others."""
        pairs = [(view.shape[axis], view.strides[axis]) for axis in axes]
        few = max(n for n in range(1, len(axes)) if len(joined_axes(*map(list, zip(*pairs[:n], strict=True)))) <= 1)
        others = [axis - sum(gone < axis for gone in axes[:few]) for axis in axes[few:]]
        part = self.reduce(kind, view, axes[:few])
        return self.reduce("sum" if kind == "squares" else kind, part, others, scale, out)

    def softmax(self, view: View, logarithm: bool) -> View:
        """Of the last axis of a matrix."""
        source = self.dense(view)
        out = self.new(view.shape)
        words: list[int | View] = [SOFTMAX, int(logarithm), *view.shape, source, source.strides[0], out]
        return self._add([*words, out.strides[0]], [source], out)

    def argmax(self, view: View) -> View:
        """Index of the first largest of each row (rows, columns): (rows,)."""
        out = self.new(view.shape[:1])
        return self._add([ARGMAX, *view.shape, view, *view.strides, out, 1], [view], out)

    def depthwise(self, source: View, walk: Walk, weights: View, out: View, weighted: bool) -> None:
        """A depthwise convolution of a source: fill what it makes, or, of a batch like that, its weights' gradient.

        Parameters
        ----------
        source
            What the places see (..., channels), channels side by side.
        walk
            How they do.
        weights
            Of each place, one a channel: a dense matrix (places, channels).
        out
            What is made, or its gradient (n0, n1, rows, channels), channels side by side.
        weighted
            Whether `out` is filled, or `weights`.
        """
        words: list[int | View] = [
            DEPTHWISE,
            int(weighted),
            *out.shape,
            *walk.steps,
            *walk.strides,
            out,
            *out.strides[:3],
        ]
        for i, (offset, *spans) in enumerate(walk.places):
            words += [source._replace(offset=offset), weights.cut(0, i, 1), *spans]
        reads = [source, weights if weighted else out]
        self._add(words, reads, out if weighted else weights)

    def replace(self, old: View, new: View) -> None:
        """Let a new value end up where an input lies: made there, where nobody misses the old one, or else copied.

        Call it when everything else is written: no instruction but a copy like this one may follow.
        """
        makers = self._makers[new.store]
        if len(makers) == 1 and new.store.instead is None and new.lies_as(old) and old.store.last <= makers[0]:
            made = self.instructions[makers[0]]
            reads = [view for view in made.reads if view.store is old.store]
            whole = made.words[0] == ELEMENTWISE and made.writes[0].size == new.size == new.store.size
            if whole and all(view.lies_as(made.writes[0]) for view in reads):
                new.store.instead = old.store
                old.store.last = 1 << 60
                return
        self.elementwise("copy", [new], old)

    def program(self, kept: Sequence[View], lasting: Sequence[View] = ()) -> Program:
        """Assemble what was written; see `assemble`."""
        return assemble(self.instructions, kept, lasting)


def _one(view: View) -> View:
    """A matrix as the only one of several."""
    return View(view.store, view.offset, (1, *view.shape), (0, *view.strides))
