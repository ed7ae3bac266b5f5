"""The primitives under the rules: exact where they must be, the same bits for any number of threads, in PyTorch too."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import PLAIN, in_one_layer

from auricle_learning.aggregation.compute.distances import squared_distances
from auricle_learning.aggregation.compute.matrix import SMALL, NumpyMatrix
from auricle_learning.aggregation.compute.products import PRODUCT, depth_of, pieces_of, strips, weighted
from auricle_learning.aggregation.rules.average import ascending, ten_digits
from auricle_learning.methods import RULES

BITS = """
import sys
import numpy as np
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.methods import RULES
from hashlib import sha256
for clients, size in ((301, 3011), (50, 20011)):
    rng = np.random.default_rng(7)
    cuts = [0, 3, 40, 1500, size]
    cohort = Cohort.build(
        ids=[f"{k:03}" for k in range(clients)], weights=rng.standard_normal((clients, size), np.float32),
        samples=rng.integers(1, 90, clients), losses=rng.random(clients), start=rng.standard_normal(size, np.float32),
        layers=[Layer(str(a), (slice(a, b),)) for a, b in zip(cuts, cuts[1:])],
        opener=lambda weights: NumpyMatrix(weights, threads=int(sys.argv[1])),
    )
    for name, rule in RULES.items():
        if rule.needs:
            continue
        made = rule(cohort)
        parts = [made.weights, made.share, made.score, made.deviation]
        print(name, sha256(b"".join(part.tobytes() for part in parts if part is not None)).hexdigest())
"""


def plain_distances(weights: Any) -> Any:
    values = weights.astype(np.float64)
    return np.stack([np.square(values - row).sum(axis=1) for row in values])


@pytest.fixture(scope="module")
def bits_of_one_thread() -> str:
    return bits(threads=1, blas=1)


def bits(*, threads: int, blas: int) -> str:
    """Run every rule in a process whose BLAS was told how many threads to use."""
    told = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(blas))
    done = subprocess.run(
        [sys.executable, "-c", BITS, str(threads)],
        env={**os.environ, **told, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(("threads", "blas"), [(2, 1), (1, 2), (3, 3)])
@pytest.mark.slow
def test_no_bit_of_any_rule_depends_on_the_number_of_threads(threads: int, blas: int, bits_of_one_thread: str) -> None:
    assert SMALL < 301 * 3011 < 50 * 20011
    assert len(bits_of_one_thread.splitlines()) == 2 * len(PLAIN)
    assert bits(threads=threads, blas=blas) == bits_of_one_thread


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


@pytest.mark.parametrize(("count", "width"), [(1, 1), (7, 8192), (64, 129), (65, 3), (200, 1000), (9000, 2)])
def test_rows_are_summed_in_parts_that_blas_leaves_to_one_thread(count: int, width: int) -> None:
    rng = np.random.default_rng(count)
    weight, block = rng.random(count), rng.random((count, width + 8))[:, :width]

    np.testing.assert_allclose(weighted(weight, block), (weight[:, None] * block).sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 16, 17, 50, 97, 1000])
def test_strips_cover_the_upper_triangle(count: int) -> None:
    covered = np.zeros((count, count + max(strip.number for strip in strips(count))), np.int64)
    for strip in strips(count):
        covered[strip.rows, strip.columns] += 1
        assert strip.height * strip.width * depth_of(strips(count)) <= PRODUCT

    assert (covered[:, :count][np.triu_indices(count)] == 1).all()
    assert covered.max() == 1


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


class Counting(NumpyMatrix):
    """Counts pairs that are measured by their differences."""

    calls = 0

    def apart(self, row: int, others: Any) -> Any:
        self.calls += others.size
        return super().apart(row, others)
