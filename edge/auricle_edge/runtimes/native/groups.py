"""Several elementwise instructions as one: their numbers are read and written once, piece by piece.

What nobody but the group reads never gets to the arena: it stays in a piece of memory of the library.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auricle_edge.runtimes.native.views import Instruction, Shape, Store, View, joined_axes

ELEMENTWISE, GROUP = 1, 6
AXES = 4
"""Axes that one elementwise instruction walks."""
OPERANDS_FROM, OPERAND_WORDS = 7, 5
MOST_VALUES, MOST_TEMPORARY, MOST_STEPS = 24, 10, 40
"""In the arena, outside it, and kernels of a group: `step.h` has room for so many."""
FAR = 160
"""Instructions after the first of a group among which others are looked for."""
Span = tuple[int, int]
Touch = tuple[Store, Span]
Touched = tuple[list[Touch], list[Touch]]
"""What an instruction reads and what it writes."""


@dataclass(frozen=True)
class Step:
    """An elementwise instruction, with its axes longer than 1 alone; the value that it makes is the first."""

    kind: int
    sizes: Shape
    views: tuple[View, ...]
    strides: tuple[Shape, ...]


@dataclass
class Group:
    """Steps that are made piece by piece together, over common axes."""

    steps: list[Step]
    sizes: Shape
    stores: set[Store] = field(default_factory=set)

    def add(self, step: Step, sizes: Shape) -> None:
        """Take one more."""
        self.steps.append(step)
        self.sizes = sizes
        self.stores.update(_place(view.store) for view in step.views)


def grouped(instructions: Sequence[Instruction], kept: Iterable[Store]) -> list[Instruction]:
    """The same program with elementwise instructions brought together; `kept` are stores needed after it."""
    steps = [_step(each) for each in instructions]
    readers = Counter(_place(view.store) for each in instructions for view in each.reads)
    writers = Counter(_place(view.store) for each in instructions for view in each.writes)
    wanted = {_place(store) for store in kept}
    touched = [(_touches(each.reads), _touches(each.writes)) for each in instructions]
    taken: set[int] = set()
    made: list[Instruction] = []
    for at, each in enumerate(instructions):
        if at in taken:
            continue
        first = steps[at]
        if first is None:
            made.append(each)
            continue
        group = _gathered(at, first, touched, steps, taken)
        asked = Counter(_place(view.store) for step in group.steps for view in step.views[1:])
        made_here = {_place(step.views[0].store) for step in group.steps}
        alone = {
            store
            for store in made_here - wanted
            if not store.kept and writers[store] == 1 and readers[store] == asked[store]
        }
        made.append(each if len(group.steps) == 1 else _instruction(group, alone))
    return made


def _gathered(
    at: int,
    first: Step,
    touched: Sequence[Touched],
    steps: Sequence[Step | None],
    taken: set[int],
) -> Group:
    """The instruction at a place with later ones that may run then too."""
    group = Group([], first.sizes)
    group.add(first, first.sizes)
    read: dict[Store, list[Span]] = defaultdict(list)
    written: dict[Store, list[Span]] = defaultdict(list)
    for i in range(at + 1, min(at + FAR, len(touched))):
        if i in taken or len(group.steps) == MOST_STEPS:
            continue
        step, (reads, writes) = steps[i], touched[i]
        if step is not None:
            near = not read and not written
            shares = near or any(store in group.stores for store, _ in (*reads, *writes))
            free = shares and not any(_meets(touch, written) for touch in (*reads, *writes))
            free = free and not any(_meets(touch, read) for touch in writes)
            if free and (sizes := _common_axes(group, step)) is not None:
                group.add(step, sizes)
                taken.add(i)
                continue
        for seen, places in ((reads, read), (writes, written)):
            for store, span in seen:
                places[store].append(span)
    return group


def _common_axes(group: Group, step: Step) -> Shape | None:
    """Sizes of axes over which the group with one more step can be walked; None where it cannot."""
    sizes = _common(group.sizes, step.sizes)
    if sizes is None:
        return None
    every = [*group.steps, step]
    values = {}
    for each in every:
        for view, strides in zip(each.views, each.strides, strict=True):
            values[_place(view.store), view.offset, _refined(each.sizes, strides, sizes)] = _span(view)
    if len(values) > MOST_VALUES or len(joined_axes(sizes, *(key[2] for key in values))) > AXES:
        return None
    changed = {_place(each.views[0].store) for each in every}
    spans = defaultdict(list)
    for (store, _, _), span in values.items():
        if store in changed:
            spans[store].append(span)
    return sizes if all(_apart(each) for each in spans.values()) else None


def _apart(spans: list[Span]) -> bool:
    """Whether values of one store, of which one is made, are the same one or do not touch."""
    spans = sorted(spans)
    return all(before[1] < after[0] for before, after in pairwise(spans))


def _instruction(group: Group, alone: set[Store]) -> Instruction:
    """The words of a group: sizes, values in the arena, then a kernel and its places for each step."""
    values: dict[tuple[Store, int, Shape], View] = {}
    keys: list[list[tuple[Store, int, Shape]]] = []
    for step in group.steps:
        keys.append([])
        for view, strides in zip(step.views, step.strides, strict=True):
            refined = _refined(step.sizes, strides, group.sizes)
            assert refined is not None
            key = (_place(view.store), view.offset, refined)
            keys[-1].append(key)
            if key[0] not in alone:
                values.setdefault(key, view)
    places: dict[tuple[Store, int, Shape], int] = {key: i for i, key in enumerate(values)}
    last = {key: i for i, each in enumerate(keys) for key in each}
    free, temporary, code = list[int](), 0, list[int | View]()
    for i, (step, each) in enumerate(zip(group.steps, keys, strict=True)):
        if each[0] not in places:
            if not free:
                free.append(len(values) + temporary)
                temporary += 1
            places[each[0]] = free.pop()
        out, *inputs = (places[key] for key in each)
        code += [step.kind, out, *inputs, *[inputs[0]] * (3 - len(inputs))]
        free += {places[key] for key in each if key[0] in alone and last[key] == i}
    if temporary > MOST_TEMPORARY:
        return _instruction(group, set())
    axes = joined_axes(group.sizes, *(key[2] for key in values)) or [(1, (1,) * len(values))]
    axes = [(1, (0,) * len(values))] * (AXES - len(axes)) + axes
    words: list[int | View] = [*(size for size, _ in axes), len(values), temporary, len(group.steps)]
    for i, view in enumerate(values.values()):
        words += [view, *(strides[i] for _, strides in axes)]
    words = [GROUP, len(words) + len(code) + 2, *words, *code]
    made = [key for key in dict.fromkeys(each[0] for each in keys) if key in values]
    asked = [key for key in dict.fromkeys(key for each in keys for key in each[1:]) if key in values]
    return Instruction(words, [values[key] for key in asked], [values[key] for key in made])


def _step(each: Instruction) -> Step | None:
    """An elementwise instruction whose rows lie side by side, or are one number; None for any other."""
    if each.words[0] != ELEMENTWISE:
        return None
    numbers = each.words[3:OPERANDS_FROM]
    kept = [i for i, size in enumerate(numbers) if size != 1]
    views, strides = [], []
    for start in range(OPERANDS_FROM, len(each.words), OPERAND_WORDS):
        view, steps = each.words[start], each.words[start + 1 : start + OPERAND_WORDS]
        assert isinstance(view, View)
        views.append(view)
        strides.append(tuple(int(steps[i]) for i in kept))  # type: ignore[arg-type]
    if kept and (strides[0][-1] != 1 or any(each[-1] not in (0, 1) for each in strides)):
        return None
    kind = each.words[2]
    assert isinstance(kind, int)
    return Step(kind, tuple(int(numbers[i]) for i in kept), tuple(views), tuple(strides))  # type: ignore[arg-type]


def _common(one: Shape, other: Shape) -> Shape | None:
    """Axes of which both shapes' axes are made, innermost last; None where sizes do not divide one another."""
    left, right, made = list(one), list(other), []
    while left and right:
        size = min(left[-1], right[-1])
        if left[-1] % size or right[-1] % size:
            return None
        made.append(size)
        for sizes in (left, right):
            sizes[-1] //= size
            if sizes[-1] == 1:
                sizes.pop()
    return None if left or right else tuple(reversed(made))


def _refined(sizes: Shape, strides: Shape, wanted: Shape) -> Shape:
    """The strides of a value along finer axes."""
    axes, made = list(zip(sizes, strides, strict=True)), []
    for size in reversed(wanted):
        there, stride = axes.pop()
        made.append(stride)
        if there != size:
            axes.append((there // size, stride * size))
    return tuple(reversed(made))


def _place(store: Store) -> Store:
    """The store in whose memory it lies."""
    return store.instead or store


def _span(view: View) -> Span:
    """The first and the last place of a view in its store."""
    reach = [(size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)]
    return view.offset + sum(r for r in reach if r < 0), view.offset + sum(r for r in reach if r > 0)


def _touches(views: Iterable[View]) -> list[Touch]:
    return [(_place(view.store), _span(view)) for view in views]


def _meets(touch: Touch, spans: dict[Store, list[Span]]) -> bool:
    store, (low, high) = touch
    return store in spans and any(low <= last and first <= high for first, last in spans[store])
