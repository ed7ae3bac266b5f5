"""Several elementwise instructions as one: their numbers are read and written once, piece by piece.

What nobody but the group reads never gets to the arena: it stays in a piece of memory of the library.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auricle_learning.native.views import Instruction, Shape, Store, View, joined_axes

ELEMENTWISE, GROUP = 1, 6
AXES = 4
"""Axes that one elementwise instruction walks."""
OPERANDS_FROM, OPERAND_WORDS = 7, 5
MOST_VALUES, MOST_TEMPORARY, MOST_STEPS = 24, 10, 40
"""In the arena, outside it, and kernels of a group: `step.h` has room for so many."""
FAR_INSTRUCTIONS = 160
"""Instructions after the first of a group among which others are looked for."""
Span = tuple[int, int]
Touch = tuple[Store, Span]
Touched = tuple[Sequence[Touch], Sequence[Touch]]
"""What an instruction reads and what it writes."""
Use = tuple[int, int, int]
"""An instruction, and the first and the last place of a store that it touches."""


@dataclass(frozen=True)
class Step:
    """An elementwise instruction, with its axes longer than 1 alone; the value that it makes is the first."""

    kind: int
    sizes: Shape
    views: tuple[View, ...]
    strides: tuple[Shape, ...]
    touches: Sequence[Touch]
    """Of each view, in the store in whose memory it lies."""

    @property
    def touched(self) -> Touched:
        """What it reads and what it writes."""
        return self.touches[1:], self.touches[:1]


Value = tuple[Store, int, Shape]
"""Where an operand lies: its store, its offset, and its strides along the axes of its group."""


@dataclass
class Group:
    """Steps that are made piece by piece together, over common axes."""

    sizes: Shape
    steps: list[Step] = field(default_factory=list)
    values: dict[Value, Span] = field(default_factory=dict)
    """Every operand once, with its first and its last place."""
    changed: set[Store] = field(default_factory=set)
    """Of what the steps make."""
    corners: frozenset[int] = frozenset()
    """Axes that some operand does not go on from to the next one evenly: all others are walked as one with it."""

    def take(self, step: Step) -> bool:
        """Take one more step, where common axes can be walked with it; whether it was taken."""
        sizes = _common(self.sizes, step.sizes)
        if sizes is None:
            return False
        old = self.values
        if sizes != self.sizes:
            old = {(s, at, _refined(self.sizes, each, sizes)): span for (s, at, each), span in old.items()}
        new: dict[Value, Span] = {}
        for view, strides, (store, span) in zip(step.views, step.strides, step.touches, strict=True):
            key = (store, view.offset, _refined(step.sizes, strides, sizes))
            if key not in old:
                new[key] = span
        corners = (self.corners if old is self.values else _corners(sizes, old)) | _corners(sizes, new)
        if len(old) + len(new) > MOST_VALUES or len(corners) >= AXES:
            return False
        values, out = {**old, **new}, step.touches[0][0]
        for store in {store for store, _, _ in new if store in self.changed}.union(
            () if out in self.changed else (out,)
        ):
            if not _apart([span for key, span in values.items() if key[0] is store]):
                return False
        self.steps.append(step)
        self.changed.add(out)
        self.sizes, self.values, self.corners = sizes, values, corners
        return True


def _corners(sizes: Shape, values: Iterable[Value]) -> frozenset[int]:
    """See `Group.corners`."""
    pairs = [(i, sizes[i + 1]) for i in range(len(sizes) - 1)]
    return frozenset(i for _, _, strides in values for i, size in pairs if strides[i] != strides[i + 1] * size)


class Uses:
    """Which instructions of a program touch which places, and so, which may run before others.

    Parameters
    ----------
    instructions
        The program.
    steps
        What can be grouped of it, by instruction.
    """

    def __init__(self, instructions: Sequence[Instruction], steps: Sequence[Step | None]) -> None:
        self._touched: list[Touched] = []
        self._reads: dict[Store, list[Use]] = defaultdict(list)
        self._writes: dict[Store, list[Use]] = defaultdict(list)
        self._steps: dict[Store, list[int]] = defaultdict(list)
        self._waits: dict[int, int] = {}
        for i, (each, step) in enumerate(zip(instructions, steps, strict=True)):
            reads, writes = (_touches(each.reads), _touches(each.writes)) if step is None else step.touched
            for uses, touches in ((self._reads, reads), (self._writes, writes)):
                for store, (low, high) in touches:
                    uses[store].append((i, low, high))
                    if step is not None and self._steps[store][-1:] != [i]:
                        self._steps[store].append(i)
            self._touched.append((reads, writes))

    def steps_of(self, store: Store, first: int, end: int) -> Sequence[int]:
        """Instructions that can be grouped, after the first one and before the end, that touch a store."""
        found = self._steps[store]
        return found[bisect_right(found, first) : bisect_left(found, end)]

    def may_pass(self, i: int, first: int, taken: Container[int]) -> bool:
        """Whether an instruction may run right after the first one, before those between them but those taken."""
        known = self._waits.get(i, -1)
        if known > first and known not in taken:
            return False
        reads, writes = self._touched[i]
        for touches, others in ((reads, self._writes), (writes, self._writes), (writes, self._reads)):
            for store, (low, high) in touches:
                uses = others[store]
                for k in range(bisect_left(uses, (i, 0, 0)) - 1, -1, -1):
                    j, start, end = uses[k]
                    if j <= first:
                        break
                    if low <= end and start <= high and j not in taken:
                        self._waits[i] = j
                        return False
        return True


def grouped(instructions: Sequence[Instruction], kept: Iterable[Store]) -> list[Instruction]:
    """The same program with elementwise instructions brought together; `kept` are stores needed after it."""
    steps = [_step(each) for each in instructions]
    readers = Counter(_place(view.store) for each in instructions for view in each.reads)
    writers = Counter(_place(view.store) for each in instructions for view in each.writes)
    wanted = {_place(store) for store in kept}
    uses = Uses(instructions, steps)
    taken: set[int] = set()
    made: list[Instruction] = []
    for at, each in enumerate(instructions):
        if at in taken:
            continue
        first = steps[at]
        if first is None:
            made.append(each)
            continue
        group = _gathered(at, first, uses, steps, taken)
        if len(group.steps) == 1:
            made.append(each)
            continue
        asked = Counter(_place(view.store) for step in group.steps for view in step.views[1:])
        alone = {
            store
            for store in group.changed - wanted
            if not store.kept and writers[store] == 1 and readers[store] == asked[store]
        }
        made.append(_instruction(group, alone))
    return made


def _gathered(at: int, first: Step, uses: Uses, steps: Sequence[Step | None], taken: set[int]) -> Group:
    """The instruction at a place with later ones that may run then too: those that follow, or share values with it."""
    group, end = Group(first.sizes), min(at + FAR_INSTRUCTIONS, len(steps))
    if not group.take(first):  # it reads what it changes: nothing can be made between
        return Group(first.sizes, [first])
    i = at + 1
    while i < end and len(group.steps) < MOST_STEPS:
        if i not in taken:
            step = steps[i]
            if step is None or not group.take(step):
                break
            taken.add(i)
        i += 1
    seen, near, grew = set[Store](), list[int](), True
    while len(group.steps) < MOST_STEPS:
        if grew:
            found = {store for store, _, _ in group.values} - seen
            seen |= found
            near = sorted({*near, *(user for store in found for user in uses.steps_of(store, i, end))}, reverse=True)
        if not near:
            break
        i = near.pop()
        step = steps[i]
        grew = step is not None and i not in taken and uses.may_pass(i, at, taken) and group.take(step)
        if grew:
            taken.add(i)
    return group


def _apart(spans: list[Span]) -> bool:
    """Whether values of one store, of which one is made, are the same one or do not touch."""
    spans = sorted(spans)
    return all(before[1] < after[0] for before, after in pairwise(spans))


def _instruction(group: Group, alone: set[Store]) -> Instruction:
    """The words of a group: sizes, values in the arena, then a kernel and its places for each step."""
    values: dict[Value, View] = {}
    keys: list[list[Value]] = []
    for step in group.steps:
        keys.append([])
        for view, strides in zip(step.views, step.strides, strict=True):
            key = (_place(view.store), view.offset, _refined(step.sizes, strides, group.sizes))
            keys[-1].append(key)
            if key[0] not in alone:
                values.setdefault(key, view)
    places: dict[Value, int] = {key: i for i, key in enumerate(values)}
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
    sizes = tuple(int(numbers[i]) for i in kept)  # type: ignore[arg-type]
    return Step(kind, sizes, tuple(views), tuple(strides), _touches(views))


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
    if sizes == wanted:
        return strides
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
    low = high = view.offset
    for size, stride in zip(view.shape, view.strides, strict=True):
        reach = (size - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


def _touches(views: Iterable[View]) -> list[Touch]:
    return [(_place(view.store), _span(view)) for view in views]
