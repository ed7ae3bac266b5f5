"""The primitives under the rules: exact where they must be, the same bits for any number of threads, in PyTorch too."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN, in_one_layer

from auricle_learning.aggregation.compute.distances import squared_distances
from auricle_learning.aggregation.compute.matrix import SMALL, NumpyMatrix
from auricle_learning.aggregation.compute.matrix_native import NativeMatrix, fault_of
from auricle_learning.aggregation.compute.pieces import PIECE, neighbours, pieces_of
from auricle_learning.aggregation.rules.average import ascending, ten_digits
from auricle_learning.methods import RULES
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library, compiler, library

BITS = """
import sys
import numpy as np
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.aggregation.compute.matrix_native import NativeMatrix
from auricle_learning.native.library import library
from auricle_learning.methods import RULES
from hashlib import sha256
threads, native = int(sys.argv[1]), sys.argv[2] == "native"
opened = lambda weights: NativeMatrix(weights, library(), threads) if native else NumpyMatrix(weights, threads)
for clients, size in ((301, 3011), (50, 20011)):
    rng = np.random.default_rng(7)
    cuts = [0, 3, 40, 1500, size]
    cohort = Cohort.build(
        ids=[f"{k:03}" for k in range(clients)], weights=rng.standard_normal((clients, size), np.float32),
        samples=rng.integers(1, 90, clients), losses=rng.random(clients), start=rng.standard_normal(size, np.float32),
        layers=[Layer(str(a), (slice(a, b),)) for a, b in zip(cuts, cuts[1:])],
        opener=opened,
    )
    for name, rule in RULES.items():
        if rule.needs:
            continue
        made = rule(cohort)
        parts = [made.weights, made.share, made.score, made.deviation]
        print(name, sha256(b"".join(part.tobytes() for part in parts if part is not None)).hexdigest())
"""


needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")


@pytest.fixture(scope="module")
def built() -> Library:
    return library()


def test_narrow_layers_are_read_together_and_every_piece_once() -> None:
    pieces = pieces_of([(slice(0, 5), slice(30, 40)), (slice(5, 9),), (slice(9, 9 + PIECE),), (slice(60, 60),)], PIECE)
    pieces = [piece for piece in pieces if piece.layer != 2]

    groups = neighbours(pieces)

    assert [[(piece.start, piece.stop) for piece in group] for group in groups] == [[(0, 5), (5, 9)], [(30, 40)]]
    wide = neighbours(pieces_of([(slice(0, 9),), (slice(9, 9 + PIECE),)], PIECE))
    assert [len(group) for group in wide] == [1, 1]


def plain_distances(weights: Any) -> Any:
    values = weights.astype(np.float64)
    return np.stack([np.square(values - row).sum(axis=1) for row in values])


def bits(kind: str, *, threads: int, blas: int) -> str:
    """Run every rule in a process whose BLAS was told how many threads to use."""
    told = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(blas))
    done = subprocess.run(
        [sys.executable, "-c", BITS, str(threads), kind],
        env={**os.environ, **told, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("kind", ["numpy", pytest.param("native", marks=needs_compiler)])
@pytest.mark.slow
def test_no_bit_of_any_rule_depends_on_the_number_of_threads(kind: str) -> None:
    assert SMALL < 301 * 3011 < 50 * 20011
    alone = bits(kind, threads=1, blas=1)
    assert len(alone.splitlines()) == 2 * len(PLAIN)
    for threads, blas in ((2, 1), (1, 2), (3, 3)):
        assert bits(kind, threads=threads, blas=blas) == alone


@pytest.mark.parametrize("size", [1, 2, 300])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["median", "trimmed-mean", "krum", "geometric-median"])
def test_no_rule_writes_to_the_uploads(name: str, dtype: Any, order: Any, size: int) -> None:
    """They may lie in columns, be read-only, or be of a model of one value."""
    weights = np.array(np.random.default_rng(size).standard_normal((7, size)), dtype, order=order)
    given, values = weights.copy(order="C"), weights.tolist()
    weights.setflags(write=False)

    ours, plain = RULES[name](in_one_layer(weights)), RULES[name](in_one_layer(given))

    assert weights.tolist() == given.tolist() == values
    assert ours.weights.tobytes() == plain.weights.tobytes()
    assert ours.share.tobytes() == plain.share.tobytes()
    if name == "median":
        assert ours.weights.tolist() == np.median(given, axis=0).tolist()


def test_pieces_cover_every_layer_in_order() -> None:
    pieces = pieces_of([(slice(0, 5), slice(9, 10)), (slice(5, 9),), (slice(10, 10),)], 2)

    found = [(piece.layer, piece.start, piece.stop) for piece in pieces]
    assert found == [(0, 0, 2), (0, 2, 4), (0, 4, 5), (0, 9, 10), (1, 5, 7), (1, 7, 9)]


@pytest.mark.parametrize("count", [2, 40, 64, 65, 150])
def test_distances_by_products_are_those_by_differences(count: int) -> None:
    weights = np.random.default_rng(count).standard_normal((count, 1111), np.float32)
    matrix = NumpyMatrix(weights)

    products = matrix.gram(np.arange(count))
    norms = products.diagonal()

    np.testing.assert_allclose(norms[:, None] + norms - 2 * products, plain_distances(weights), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(squared_distances(matrix), plain_distances(weights), rtol=1e-12)


@pytest.mark.parametrize(
    "spread",
    ["an attacker at 1e38", "two far groups", "near copies", "exact copies", "a chain", "scales from 1e-20 to 1e30"],
)
def test_distances_keep_ten_digits_where_products_would_cancel(spread: str) -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((120, 400)).astype(np.float32)
    if spread == "an attacker at 1e38":
        weights[7] = 1e38
    elif spread == "two far groups":
        weights[:50] += 1e6
    elif spread == "near copies":
        weights[30:90] = weights[30] * (1 + 1e-6 * rng.random((60, 1)))
    elif spread == "exact copies":
        weights[30:90] = weights[30]
    elif spread == "a chain":
        weights[:] = np.arange(120)[:, None] / 7
    else:
        weights *= 10.0 ** rng.integers(-20, 30, (120, 1))

    ours, plain = squared_distances(NumpyMatrix(weights)), plain_distances(weights)

    np.testing.assert_allclose(ours, plain, rtol=1e-12)
    assert (ours[plain == 0] == 0).all()
    assert (ours == ours.T).all()


def test_attackers_who_agree_do_not_cost_a_measurement_a_pair() -> None:
    weights = np.random.default_rng(0).standard_normal((200, 500)).astype(np.float32)
    weights[::2] = 3.0
    matrix, calls = Counting(weights), 200

    distances = squared_distances(matrix)

    assert matrix.calls < calls
    np.testing.assert_allclose(distances, plain_distances(weights), rtol=1e-11)


@pytest.mark.parametrize(
    "values",
    [[3.0, 1.0, 2.0], [2.0, 2.0 + 1e-12, 1.0, 2.0], [1.0, 0.0, 0.0, -0.0], [np.inf, 1.0, np.inf], [5.0], []],
    ids=["apart", "nearly equal", "nothing", "infinite", "one", "none"],
)
def test_values_are_ranked_by_ten_digits_then_by_their_place(values: list[float]) -> None:
    given = np.array(values)

    assert ascending(given).tolist() == np.argsort(ten_digits(given), kind="stable").tolist()


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("clients", "size"), [(1, 1), (3, 5), (21, 4133), (151, 4801)])
def test_the_library_gives_the_bits_of_numpy_at_every_level(
    clients: int, size: int, threads: int, built: Library
) -> None:
    rng = np.random.default_rng(clients)
    weights = rng.standard_normal((clients, size), np.float32)
    cuts = sorted({0, min(3, size), min(40, size), size})
    spans = [(slice(a, b),) for a, b in itertools.pairwise(cuts)]
    share = rng.random((clients, len(spans))) * (rng.random((clients, len(spans))) > 0.3)
    plain, rows = NumpyMatrix(weights), np.arange(clients)

    assert fault_of(built) is None
    grams = set()
    for level in LEVELS[: LEVELS.index(built.level) + 1]:
        native = NativeMatrix(weights, built, threads, level)
        assert native.weighted_sum(share, spans).tobytes() == plain.weighted_sum(share, spans).tobytes()
        for given in ({}, {"share": share[:, 0]}, {"centre": weights[0].astype(np.float64)}):
            assert native.layer_norms(spans, **given).tobytes() == plain.layer_norms(spans, **given).tobytes()
        products = native.gram(rows)
        np.testing.assert_allclose(products, plain.gram(rows), rtol=1e-11, atol=1e-11 * np.abs(products).max())
        grams.add(products.tobytes())
    assert len(grams) == 1


@needs_compiler
def test_the_library_adds_up_nothing_outside_of_the_updates(built: Library) -> None:
    weights, centre, squares = np.ones((3, 8), np.float32), np.zeros(8), np.zeros(3)
    rows, share = np.arange(3), np.ones(3)

    def at(array: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    def sums(
        numbers: int,
        stride: int,
        count: int,
        first: int,
        last: int,
        chosen: Any = rows,
        listed: tuple[int, int] = (0, 3),
    ) -> int:
        table, reached = np.array([(first, last, *listed)]), np.zeros(1, np.int64)
        made: int = built.functions.sums_weighted(
            *(at(weights), *map(ctypes.c_int64, (numbers, stride, count)), at(chosen), at(share), ctypes.c_int64(3)),
            *(at(table), ctypes.c_int64(1), at(reached), at(centre), 9),
        )
        return made

    assert sums(24, 8, 3, 0, 8) == 0
    assert centre.tolist() == [3.0] * 8
    wrong = [
        (23, 8, 3, 0, 8),
        (24, 8, 4, 0, 8),
        (24, 9, 3, 0, 8),
        (24, 8, 3, -1, 8),
        (24, 8, 3, 0, 9),
        (24, 8, 3, 5, 4),
    ]
    wrong += [(-24, 8, 3, 0, 8), (24, 1 << 62, 3, 0, 8), (24, 8, 0, 0, 8), (1 << 62, 1 << 61, 3, 0, 8)]
    assert [sums(*sizes) for sizes in wrong] == [-1] * len(wrong)
    assert sums(24, 8, 3, 0, 8, np.array([0, 3, 1])) == sums(24, 8, 3, 0, 8, np.array([0, -1, 1])) == -1
    assert [sums(24, 8, 3, 0, 8, listed=part) for part in ((-1, 3), (0, 4), (2, 1))] == [-1] * 3
    assert squares.tolist() == [0.0] * 3


class Counting(NumpyMatrix):
    """Counts pairs that are measured by their differences."""

    calls = 0

    def apart(self, row: int, others: Any) -> Any:
        self.calls += others.size
        return super().apart(row, others)
