"""Rows that lie in several places: sums and distances are those of all in one, and nothing else is computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learning.rule_cases import Place

from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import CohortError
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.aggregation.matrix_parts import MatrixParts
from auricle_learning.aggregation.rules.rule import check_composes
from auricle_learning.methods import METHODS

SPANS = [(slice(0, 3),), (slice(3, 5), slice(7, 9)), (slice(5, 7),)]
COMPOSING = {
    "ditto",
    "fedavg",
    "fedmlac",
    "fednova",
    "fedopt",
    "fedprox",
    "fedrep",
    "fedvsa",
    "lpa",
    "lpa+fedvsa",
    "norm-clip",
}


def apart(weights: np.ndarray, places: list[int]) -> MatrixParts:
    rows = [np.flatnonzero(np.array(places) == place) for place in sorted({*places})]
    return MatrixParts([Place(weights[mine]) for mine in rows], rows)


@given(places=st.lists(st.integers(0, 3), min_size=1, max_size=12), seed=st.integers(0, 1 << 16))
def test_sums_and_distances_are_those_of_one_place(places: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(len(places), 9)).astype(np.float32)
    share, centre = rng.random((len(places), 3)), rng.normal(size=9)
    one, several = NumpyMatrix(weights), apart(weights, places)

    np.testing.assert_allclose(
        several.weighted_sum(share, SPANS), one.weighted_sum(share, SPANS), rtol=1e-12, atol=1e-15
    )
    for told in ({}, {"centre": centre}, {"share": share[:, 0]}):
        np.testing.assert_allclose(
            several.layer_norms(SPANS, **told), one.layer_norms(SPANS, **told), rtol=1e-9, atol=1e-12
        )


def test_what_compares_rows_with_each_other_is_refused() -> None:
    several = apart(np.ones((3, 9), np.float32), [0, 0, 1])
    with pytest.raises(CohortError, match="compares them with each other"):
        several.squared_distances()
    with pytest.raises(CohortError, match="compares them with each other"):
        several.middle(1, SPANS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_whether_its_cohort_composes(name: str) -> None:
    rule = METHODS[name].rule
    assert rule.composes == (name in COMPOSING)
    if rule.composes:
        check_composes(rule)
    else:
        with pytest.raises(SettingsError, match="needs all updates in one place: choose one that"):
            check_composes(rule)
