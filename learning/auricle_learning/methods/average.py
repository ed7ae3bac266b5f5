"""One model of many, by the rule of a method: what a coordinator does in a round, on arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from auricle.errors import refuse_misfits
from auricle_learning.aggregation.cohort import Cohort, FloatArray, layers_of
from auricle_learning.aggregation.cohort_checks import CohortError, as_array
from auricle_learning.aggregation.extras import NOTHING, Extras
from auricle_learning.aggregation.rules.rule import check_needs
from auricle_learning.methods.registry import get_rule


@refuse_misfits
def average(
    models: Sequence[Sequence[float]] | Sequence[FloatArray] | FloatArray,
    samples: ArrayLike | None = None,
    method: str = "fedavg",
    *,
    losses: ArrayLike | None = None,
    start: ArrayLike | None = None,
    layers: Sequence[tuple[str, int]] | None = None,
    extras: Extras | None = None,
    **options: object,
) -> FloatArray:
    """Make one model of the clients' models by a method's rule.

    Parameters
    ----------
    models
        (K, P) float32 or float64, a row for each client. Rows that are not finite do not count.
    samples
        (K,) training samples of each client; without, one each.
    method
        One of `METHODS`.
    losses
        (K,) inference losses of the model that the round began with, for rules that compare them.
    start
        (P,) the model that the round began with; without, zeros. Rules that clip or follow a direction need it.
    layers
        Name and size of each layer in the order of the weights, for rules that judge layer by layer; without, one.
    extras
        What some rules need beside models and samples; without, such a rule is refused.
    options
        Options of the method.

    Returns
    -------
    NDArray
        (P,), of the type of `models`.

    Raises
    ------
    SettingsError
        The method or an option does not exist, or the rule needs more than it is given.
    CohortError
        Shapes or types do not fit together.

    Examples
    --------
    >>> models = np.array([[1.0, 1.0], [2.0, 2.0], [90.0, -90.0]], np.float32)
    >>> average(models, samples=[30, 10, 0])
    array([1.25, 1.25], dtype=float32)
    >>> average(models, method="median")
    array([2., 1.], dtype=float32)
    >>> average(models, method="trimmed-mean", beta=0.34)
    array([2., 1.], dtype=float32)
    """
    rule = get_rule(method, **options)
    if extras is None:
        check_needs(rule, given=())
    if not isinstance(extras, Extras | None):
        raise CohortError(f"extras are a {type(extras).__name__}; give what auricle_learning.aggregation.extras has.")
    rows: FloatArray = as_array("models", models)
    if rows.ndim != 2:
        raise CohortError(f"the models have the shape {rows.shape}; give a row for each client.")
    size = rows.shape[1]
    cohort = Cohort.build(
        ids=[f"{place:09}" for place in range(len(rows))],
        weights=rows,
        samples=np.ones(len(rows)) if samples is None else samples,
        losses=losses,
        start=np.zeros(size, rows.dtype) if start is None else as_array("start", start, rows.dtype),
        layers=layers_of(_table(layers or [("model", size)])),
        extras=extras or NOTHING,
    )
    return np.asarray(rule(cohort).weights)


def _table(layers: Sequence[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Layers as a table of tensors."""
    try:
        return [(str(name), operator.index(count), str(name)) for name, count in layers]
    except (TypeError, ValueError) as error:
        raise CohortError("layers are pairs of a name and a number of values.") from error
