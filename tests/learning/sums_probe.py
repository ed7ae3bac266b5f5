"""Sums and augmentation by the C library with sizes and draws of every kind, in a process of its own.

python -m tests.learning.sums_probe LIBRARY COUNT
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np

from auricle_learning.aggregation.compute.matrix_native import DEEP, PANEL, NativeMatrix
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library
from auricle_learning.training.native_augmenter import _Sizes

ODD = (-1, 0, 1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 62, -(1 << 62))


def at(array: Any) -> ctypes.c_void_p:
    """Where an array lies."""
    return ctypes.c_void_p(array.ctypes.data)


def numbers(*given: Any) -> list[Any]:
    """As the library takes them."""
    return [at(one) if isinstance(one, np.ndarray) else ctypes.c_int64(int(one)) for one in given]


def mutated(rng: np.random.Generator, sizes: list[int]) -> list[int]:
    """The sizes, half of the time with one of them changed."""
    if rng.random() < 0.5:
        place = int(rng.integers(len(sizes)))
        sizes[place] = int(rng.choice([*ODD, sizes[place] + 1, sizes[place] - 1, 2 * sizes[place], -sizes[place]]))
    return sizes


def sums(library: Library, rng: np.random.Generator, most: int) -> int:
    """Ask for a sum, the deviations and products of an array that is just large enough; how many were refused."""
    call, level = library.functions, ctypes.c_int32(most)
    rows, columns = (int(n) for n in rng.integers(1, 40, 2))
    weights = rng.standard_normal((rows, columns), np.float32)
    first, last = sorted(int(n) for n in rng.integers(0, columns + 1, 2))
    out, squares, count = np.zeros(columns), np.zeros(rows), int(rng.integers(0, rows + 1))
    chosen, share = rng.integers(0, rows, count), rng.random(count)
    if count and rng.random() < 0.2:
        chosen[rng.integers(count)] = rng.choice(ODD)
    size, stride, every, begin, end = mutated(rng, [weights.size, columns, rows, first, last])
    fits = every <= rows and stride <= columns  # what the other arrays have room for is Python's to keep
    refused = 0
    if fits:
        listed, number = mutated(rng, [0, count])
        table, reached = np.array([[begin, end, listed, number]] * 2), np.zeros(2, np.int64)
        summed = numbers(size, stride, every, chosen, share, count, table, len(table), reached, out)
        refused += call.sums_weighted(at(weights), *summed, level) != 0
        made = call.sums_deviations(at(weights), *numbers(size, stride, every, begin, end, out, squares), level)
        refused += made != 0
        everyone, lanes = (rng.permutation(rows), np.ones(rows)), np.zeros(16 * rows)
        edges = np.array([begin, end])
        spread = numbers(size, stride, every, *everyone, edges, 1, reached[1:], out, lanes, squares)
        refused += call.sums_spread(at(weights), *spread, level) != 0
        found, halves = np.zeros(2), rng.integers(0, 1 << 16, columns).astype("<u2")
        base = out.astype(np.float32) if rng.random() < 0.5 else None
        read = np.zeros(columns, np.float32)
        place = None if base is None else at(base)
        made = call.sums_halves(at(halves), *numbers(stride), place, *numbers(read, found), level)
        refused += made < 0
    panels = -(-rows // PANEL)
    work, full = np.zeros(panels * PANEL * DEEP), np.zeros((panels * PANEL, panels * PANEL))
    first, last, worked, side = mutated(rng, [0, panels, work.size, panels * PANEL])
    if worked <= work.size:
        given = numbers(weights.size, columns, rows, np.arange(rows), rows, out, first, last, work, worked, full, side)
        refused += call.sums_products(at(weights), *given, level) != 0
    return refused


def clips(library: Library, rng: np.random.Generator, most: int) -> int:
    """Augment clips, some with a draw that lies outside; 1 where the library refused."""
    count, frames, mels, masks = (int(n) for n in rng.integers(1, 12, 4))
    energies = rng.random((count, frames, mels), np.float32)
    noise = rng.random((frames + int(rng.integers(4)), mels), np.float32)
    source, start = rng.integers(0, frames, (count, frames)), rng.integers(0, len(noise) - frames + 1, count)
    mask = np.zeros((count, masks, 3), np.int64)
    mask[..., 0] = rng.integers(1, 3, (count, masks))
    for array in (source, start, mask):
        if rng.random() < 0.2:
            array.flat[rng.integers(array.size)] = rng.choice([*ODD, frames, mels])
    stretch = rng.choice([0.9, 1.1, 0.0, 50.0, -1.0, np.nan, np.inf], count, p=[0.4, 0.4, 0.1, 0.04, 0.02, 0.02, 0.02])
    gain, ratio, out = np.ones(count, np.float32), rng.choice([0.0, 1.0, np.nan], count), np.zeros_like(energies)
    sizes = _Sizes(count, frames, mels, len(noise), masks, 1e-6, 1.0, 0.98)
    arrays = (energies, source, stretch, gain, noise, start, ratio, mask, out)
    return int(library.functions.clips_augment(ctypes.byref(sizes), *map(at, arrays), ctypes.c_int32(most)) != 0)


def main() -> None:
    library, rng = Library(Path(sys.argv[1])), np.random.default_rng(0)
    refused = [0, 0]
    for _ in range(int(sys.argv[2])):
        most = int(rng.integers(len(LEVELS)))
        refused[0] += sums(library, rng, most)
        refused[1] += clips(library, rng, most)
    weights = rng.standard_normal((37, 301), np.float32)
    for level in LEVELS[: LEVELS.index(library.level) + 1]:
        matrix = NativeMatrix(weights, library, 1, level)
        np.testing.assert_allclose(matrix.squared_distances().diagonal(), 0.0)
        matrix.layer_norms([(slice(0, 5), slice(290, 301)), (slice(5, 290),)])
    print(*refused)


if __name__ == "__main__":
    main()
