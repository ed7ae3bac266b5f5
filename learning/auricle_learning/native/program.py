"""The program of a graph: its instructions with a place for every value, as the words of `step.h`.

A value keeps its memory in the arena only as long as somebody needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle_learning.native.groups import grouped
from auricle_learning.native.views import Instruction, Store, View

LARGEST_ARENA = 1 << 30
"""Floats, as in `step_core.c`."""
LINE_FLOATS = 16
"""Floats of a cache line: stores begin on one."""


class UnsupportedError(Exception):
    """Why a graph cannot become a program: an operator or a shape, as the end of a sentence."""


@dataclass(frozen=True)
class Program:
    """What the library runs."""

    words: NDArray[np.int32]
    arena: int
    """Floats."""
    once: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """What is run before, and again only when what stays between two runs has changed: `assemble`."""


def assemble(written: Sequence[Instruction], kept: Sequence[View], lasting: Sequence[View] = ()) -> Program:
    """Give every store of some instructions its place, and make the words.

    Parameters
    ----------
    kept
        Needed after the last instruction too.
    lasting
        Weights that are only read: what is made of them alone is made once and stays.

    Raises
    ------
    UnsupportedError
        The arena would be larger than the library takes.
    """
    stores_kept = {view.store for view in kept}
    once, stay = _once(written, {view.store for view in lasting}) if lasting else ([], set())
    early = set(map(id, once))
    often = [each for each in written if id(each) not in early]
    first = grouped(once, stores_kept | stay)
    instructions = [*first, *grouped(often, stores_kept | stay)]
    stores = dict.fromkeys(view.store for view in kept)
    for each in instructions:
        stores.update(dict.fromkeys(view.store for view in (*each.reads, *each.writes)))
    for store in stores:
        store.first, store.last = 1 << 60, -1
    for at, each in enumerate(instructions):
        for view in (*each.reads, *each.writes):
            view.store.first, view.store.last = min(view.store.first, at), at
    for store in stores_kept | stay:
        store.last = len(instructions)
    top = 0
    for store in stores:
        if store.kept:
            store.offset, top = top, top + _room(store)
    top = _place([store for store in stores if not store.kept and store.instead is None], top)
    if top > LARGEST_ARENA:
        raise UnsupportedError(f"it needs room for {top} numbers")
    for store in stores:
        if store.instead is not None:
            store.offset = store.instead.offset
    return Program(_words(instructions[len(first) :]), top, _words(first))


def _once(instructions: Sequence[Instruction], lasting: set[Store]) -> tuple[list[Instruction], set[Store]]:
    """Instructions that read nothing but what lasts or what such instructions make, and the stores of that."""
    once, made, changing = list(instructions), set[Store](), set[Store]()
    count = -1
    while count != len(once):
        count, left = len(once), list[Instruction]()
        made = {view.store for each in once for view in each.writes}
        for each in once:
            views = (*each.reads, *each.writes)
            if all(view.store in lasting or (view.store in made and view.store not in changing) for view in views):
                left.append(each)
            else:
                changing.update(view.store for view in each.writes)
        once = left
    return once, made - changing


def _words(instructions: Sequence[Instruction]) -> NDArray[np.int32]:
    """The words of placed instructions."""
    words = [word for each in instructions for word in each.words]
    return np.array([w.store.offset + w.offset if isinstance(w, View) else w for w in words], np.int32)


def _room(store: Store) -> int:
    """Whole cache lines and one more: stores a page apart would hinder each other in the processor's store buffer."""
    return (-(-store.size // LINE_FLOATS) + 1) * LINE_FLOATS


def _place(stores: list[Store], bottom: int) -> int:
    """Give each store the first gap that is free while it is needed; returns the end of the arena."""
    free: list[tuple[int, int]] = [(bottom, 1 << 40)]
    ending: dict[int, list[Store]] = {}
    top, now = bottom, -1
    for store in sorted(stores, key=lambda each: each.first):
        while now < store.first:
            for done in ending.pop(now, []):
                free = _free_gap(free, done.offset, done.offset + _room(done))
            now += 1
        wanted = _room(store)
        i = next(i for i, (low, high) in enumerate(free) if high - low >= wanted)
        low, high = free[i]
        free[i : i + 1] = [(low + wanted, high)] if high - low > wanted else []
        store.offset = low
        top = max(top, low + wanted)
        ending.setdefault(store.last, []).append(store)
    return top


def _free_gap(free: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The gaps with one more, joined with its neighbours."""
    merged: list[tuple[int, int]] = []
    for gap in sorted([*free, (low, high)]):
        if merged and merged[-1][1] == gap[0]:
            merged[-1] = (merged[-1][0], gap[1])
        else:
            merged.append(gap)
    return merged
