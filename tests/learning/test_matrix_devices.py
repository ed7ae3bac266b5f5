"""The primitives of rules in PyTorch: shapes on `meta`, where nothing may come from the CPU, and NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from auricle_learning.aggregation.compute.distances import Float64Array
from auricle_learning.aggregation.compute.matrix import Matrix, NumpyMatrix
from auricle_learning.aggregation.compute.matrix_native import processor_opener
from auricle_learning.aggregation.compute.matrix_torch import TorchMatrix

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
CLIENTS, SIZE = 7, 500
SPANS = [(slice(0, 3), slice(100, 130)), (slice(3, 100),), (slice(130, SIZE),)]
Primitive = Callable[[Matrix], Any]
PRIMITIVES: dict[str, Primitive] = {
    "sum": lambda matrix: matrix.weighted_sum(share(), SPANS),
    "norms around the mean": lambda matrix: matrix.layer_norms(SPANS),
    "norms around a centre": lambda matrix: matrix.layer_norms(SPANS, centre=np.linspace(-1, 1, SIZE)),
    "norms around a sum": lambda matrix: matrix.layer_norms(SPANS, share=np.full(CLIENTS, 1 / CLIENTS)),
    "middle": lambda matrix: matrix.middle(2, SPANS),
    "distances": lambda matrix: matrix.squared_distances(),
}
RESIDENT, PIECES = 1 << 30, 1 << 13


def uploads() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((CLIENTS, SIZE), np.float32)


def share() -> Float64Array:
    """(K, L), some of them nothing."""
    drawn = np.random.default_rng(4).random((CLIENTS, len(SPANS)))
    drawn[2:4, 0] = drawn[5, 1] = 0
    return drawn / drawn.sum(axis=0)


def parts_of(found: Any) -> tuple[np.ndarray, ...]:
    return found if isinstance(found, tuple) else (found,)


class OnMeta(TorchMatrix):
    """Gives ones in the shape of what a device would give back."""

    def _get(self, values: Any) -> Float64Array:
        assert (values.device.type, values.dtype) == ("meta", torch.float64)
        return np.ones(tuple(values.shape))


@pytest.mark.parametrize("memory", [RESIDENT, PIECES], ids=["resident", "piece by piece"])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_on_a_device_every_array_has_numpys_shape(name: str, memory: int) -> None:
    theirs = parts_of(PRIMITIVES[name](OnMeta(uploads(), device="meta", memory=memory)))
    ours = parts_of(PRIMITIVES[name](NumpyMatrix(uploads())))
    assert [array.shape for array in theirs] == [array.shape for array in ours]


@pytest.mark.parametrize("memory", [RESIDENT, PIECES], ids=["resident", "piece by piece"])
def test_products_and_differences_have_the_shape_of_their_rows(memory: int) -> None:
    matrix = OnMeta(uploads(), device="meta", memory=memory)
    assert matrix.gram(np.array([0, 2, 5])).shape == (3, 3)
    assert matrix.apart(1, np.array([0, 2, 5, 6])).shape == (4,)


@pytest.mark.parametrize("memory", [RESIDENT, PIECES], ids=["resident", "piece by piece"])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_its_numbers_are_those_of_numpy_and_of_the_processors_own_library(name: str, memory: int) -> None:
    found = parts_of(PRIMITIVES[name](TorchMatrix(uploads(), device="cpu", memory=memory)))
    for other in (NumpyMatrix(uploads()), processor_opener()(uploads())):
        for theirs, ours in zip(found, parts_of(PRIMITIVES[name](other)), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12)
