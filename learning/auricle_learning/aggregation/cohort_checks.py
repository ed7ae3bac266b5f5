"""Layers of a model, and what updates must be like to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from auricle.errors import DataError
from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray


class CohortError(DataError):
    """Updates that cannot be compared: shapes, sizes or ids that do not fit together."""


@dataclass(frozen=True)
class Layer:
    """The parameters that are judged together: one or more spans of the flat vector, usually one module's tensors."""

    name: str
    slices: tuple[slice, ...]


def layers_of(table: Iterable[tuple[str, int, str | None]]) -> tuple[Layer, ...]:
    """Derive the layer groups from a tensor table whose tensors lie one after the other in the flat vector.

    Parameters
    ----------
    table
        (tensor name, number of values, layer name) in the order of the flat vector. A tensor whose layer name is None
        or empty is its own group (A11).

    Returns
    -------
    tuple of Layer
        In the order of first appearance; neighbouring tensors of a layer share one span.

    Raises
    ------
    CohortError
        A tensor is listed twice or has a negative size.
    """
    spans: dict[str, list[slice]] = {}
    seen: set[str] = set()
    start = 0
    for tensor, size, layer in table:
        if tensor in seen or size < 0:
            raise CohortError(
                f'the tensor table lists "{tensor}" twice or with a negative size; export the pack again.'
            )
        seen.add(tensor)
        span = spans.setdefault(layer or tensor, [])
        if span and span[-1].stop == start:
            span[-1] = slice(span[-1].start, start + size)
        else:
            span.append(slice(start, start + size))
        start += size
    return tuple(Layer(name, tuple(slices)) for name, slices in spans.items())


def check_start(start: FloatArray) -> None:
    """The model that the round began with: one finite vector."""
    if start.ndim != 1 or not start.size or start.dtype not in (np.float32, np.float64):
        raise CohortError(
            f"the model must be one float32 or float64 vector with values, it is {start.dtype} {start.shape}."
        )
    if not np.isfinite(start).all():
        raise CohortError("the round began with a model that has values that are not finite; go back to a checkpoint.")


def check_layers(layers: Sequence[Layer], size: int) -> None:
    """They cover the model exactly once."""
    covered = np.zeros(size, np.int64)
    for layer in layers:
        if not layer.slices:
            raise CohortError(f'layer "{layer.name}" has no values; leave it out.')
        for span in layer.slices:
            if (
                None in (span.start, span.stop)
                or span.step not in (None, 1)
                or not 0 <= span.start <= span.stop <= size
            ):
                raise CohortError(f'layer "{layer.name}" must lie inside the model of {size} values, not at {span}.')
            covered[span] += 1
    if (covered != 1).any():
        wrong = int(np.flatnonzero(covered != 1)[0])
        raise CohortError(f"value {wrong} of the model is in {covered[wrong]} layers; the layers must cover each once.")
    _refuse_repeated("layer", [layer.name for layer in layers])


def check_ids(ids: Sequence[str], weights: Sequence[FloatArray] | FloatArray) -> None:
    """One for each update, each once."""
    if len(ids) != len(weights):
        raise CohortError(f"there are {len(ids)} client ids but {len(weights)} updates; one id for each update.")
    _refuse_repeated("client", ids)


def _refuse_repeated(what: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise CohortError(f'{what} "{twice[0]}" is there more than once in the round; hand in each {what} once.')


def check_upload(client: str, row: FloatArray, start: FloatArray) -> None:
    """It has the model's shape."""
    if row.shape != start.shape or row.dtype not in (np.float32, np.float64):
        raise CohortError(
            f'the update of client "{client}" is {row.dtype} {row.shape}, the model is {start.dtype} {start.shape}; '
            "it was trained with another pack."
        )


def as_array(what: str, values: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Values as an array; CohortError where they are no numbers, or rows of different lengths."""
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise CohortError(f"the {what} cannot be read as numbers: {str(error).partition(chr(10))[0]}.") from error


def per_client(what: str, values: ArrayLike, count: int) -> Float64Array:
    """Values (K,) as an array; CohortError for another shape."""
    array = np.array(as_array(what, values, np.float64))
    if array.shape != (count,):
        raise CohortError(f"the {what} have the shape {array.shape}; one number for each of the {count} clients.")
    return array


def check_samples(ids: Sequence[str], counts: Float64Array) -> None:
    """Counts are finite and not negative."""
    wrong = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if wrong.size:
        k = int(wrong[0])
        raise CohortError(f'client "{ids[k]}" says that it used {counts[k]} samples; a count is finite and at least 0.')


def is_finite(row: FloatArray, dtype: np.dtype[Any]) -> bool:
    """Whether a client's weights all are, in the model's dtype."""
    # In the model's dtype: a float64 upload of 1e300 is infinite in a float32 model.
    with np.errstate(over="ignore"):
        return bool(np.isfinite(row.astype(dtype, copy=False)).all())
