"""Where every value lies in the arena of a program: each keeps its memory only as long as somebody needs it."""

from __future__ import annotations

from auricle_learning.native.views import Store

LINE = 16
"""Floats of a cache line: stores begin on one."""


def room(store: Store) -> int:
    """Whole cache lines and one more: stores a page apart would hinder each other in the processor's store buffer."""
    return (-(-store.size // LINE) + 1) * LINE


def placed(stores: list[Store], bottom: int) -> int:
    """Give each store the first gap that is free while it is needed; returns the end of the arena."""
    free: list[tuple[int, int]] = [(bottom, 1 << 40)]
    ending: dict[int, list[Store]] = {}
    top, now = bottom, -1
    for store in sorted(stores, key=lambda each: each.first):
        while now < store.first:
            for done in ending.pop(now, []):
                free = _freed(free, done.offset, done.offset + room(done))
            now += 1
        wanted = room(store)
        i = next(i for i, (low, high) in enumerate(free) if high - low >= wanted)
        low, high = free[i]
        free[i : i + 1] = [(low + wanted, high)] if high - low > wanted else []
        store.offset = low
        top = max(top, low + wanted)
        ending.setdefault(store.last, []).append(store)
    return top


def _freed(free: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The gaps with one more, joined with its neighbours."""
    merged: list[tuple[int, int]] = []
    for gap in sorted([*free, (low, high)]):
        if merged and merged[-1][1] == gap[0]:
            merged[-1] = (merged[-1][0], gap[1])
        else:
            merged.append(gap)
    return merged
