"""Which rules need nothing but updates, and rounds that have everything that the others need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.learning.toy import PACK

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort, Layer
from auricle_learning.aggregation.compute.matrix import NumpyMatrix
from auricle_learning.aggregation.compute.pieces import Spans
from auricle_learning.aggregation.extras import Extras, Objective
from auricle_learning.methods import METHODS, RULES

PLAIN = {name: rule for name, rule in RULES.items() if not rule.needs}
NEEDY = {name: rule for name, rule in RULES.items() if rule.needs}

SIZE = 12
LAYERS = (Layer("front", (slice(0, 3), slice(5, SIZE))), Layer("head", (slice(3, 5),)))
TARGET = np.linspace(-1.0, 1.0, SIZE)


class Place:
    """Some updates of a cohort, which lie apart from the others."""

    def __init__(self, weights: Any) -> None:
        self._matrix = NumpyMatrix(weights)

    def sum_rows(self, share: Any, spans: Spans) -> Any:
        return self._matrix.weighted_sum(share, spans)

    def measure_rows(self, spans: Spans, centre: Any) -> Any:
        return self._matrix.layer_norms(spans, centre=centre)


def bowl(weights: Any) -> tuple[float, Any]:
    """An objective with its least value at `TARGET`: ½ ‖w - TARGET‖² and its gradient."""
    return bowl_around(TARGET)(weights)


def bowl_around(lowest: Any) -> Objective:
    """An objective with its least value, 0, at a model."""

    def objective(weights: Any) -> tuple[float, Any]:
        away = weights - lowest
        return float(away @ away) / 2, away

    return objective


def whole_round(
    count: int = 7,
    dtype: Any = np.float32,
    order: Sequence[int] | None = None,
    *,
    size: int = SIZE,
    method: str | None = None,
    **changes: Any,
) -> Cohort:
    """A round of some clients with everything that a rule may ask for.

    Parameters
    ----------
    order
        Places of those that come, in the order of arrival; None: all.
    size
        Of the model.
    method
        Whose vectors the clients bring; None: they bring none.
    changes
        Arguments of `Cohort.build`, and in `extras` fields of `Extras`, in place of what is drawn; in the order of the
        clients.
    """
    rng = np.random.default_rng(count)
    start = rng.standard_normal(size).astype(np.float32)
    rows = {
        "weights": (start + rng.standard_normal((count, size)) / 4).astype(np.float32),
        "samples": rng.integers(1, 50, count),
        "losses": rng.random(count),
        "ids": np.array([f"c{k:02}" for k in range(count)]),
    }
    of_clients = {
        "steps": rng.integers(1, 9, count).astype(float),
        "class_counts": rng.integers(0, 20, (count, 4)).astype(float),
        "maps": rng.random((count, 6)),
        "labelled": (np.arange(count) % 2).astype(float),
        "gradients": rng.standard_normal((count, 2, 6)),
    }
    told = dict(changes.pop("extras", {}))
    of_clients.update({name: told.pop(name) for name in of_clients if name in told})
    rows.update({name: np.asarray(changes.pop(name)) for name in rows if name in changes})
    vectors = {name: rng.integers(0, 20, (count, n)) / 1.0 for name, n in vectors_of(method).items()}
    chosen = list(range(len(rows["weights"])) if order is None else order)
    taken = {name: np.asarray(values)[chosen] for name, values in {**rows, **of_clients}.items()}
    brought = {name: list(values[chosen]) for name, values in vectors.items()}
    extras = {name: taken.pop(name) for name in of_clients}
    extras["gradients"] = list(extras["gradients"])
    more = {"rate": 0.1, "clients": 3 * count, "objectives": (bowl_around(np.linspace(-1.0, 1.0, size)),)}
    parts: dict[str, Any] = {
        **taken,
        "ids": [str(name) for name in taken["ids"]],
        "weights": taken["weights"].astype(dtype),
        "start": start.astype(dtype),
        "layers": (Layer("front", (slice(0, 3), slice(5, size))), Layer("head", (slice(3, 5),))),
        "extras": Extras(**{**extras, "vectors": brought, **more, **told}),
    }
    return Cohort.build(**{**parts, **changes})


def vectors_of(method: str | None) -> dict[str, int]:
    """Numbers of the vectors that a method has clients bring, by name."""
    if method is None or not METHODS[method].needs.up:
        return {}
    known = METHODS[method]
    plan = known.plan_for(Plan(), known.rule.options)
    return {vector.name: vector.numbers(PACK, plan) for vector in known.needs.up}


def in_one_layer(weights: Any, **parts: Any) -> Cohort:
    """One client a row with one sample, from a model of zeros; `parts` are given to the cohort as they are."""
    count, size = weights.shape
    given: dict[str, Any] = {"ids": [f"{k:02}" for k in range(count)], "weights": weights, "samples": np.ones(count)}
    given |= {"start": np.zeros(size, weights.dtype), "layers": (Layer("all", (slice(0, size),)),)}
    return Cohort.build(**{**given, **parts})


def one_client(weights: float, start: float = 0.0, **extras: Any) -> Cohort:
    """A round of one client with one float64 value."""
    return line([weights], start, **extras)


def line(values: list[float], start: float = 0.0, samples: list[float] | None = None, **extras: Any) -> Cohort:
    """One client for each number, all in one layer of one float64 value."""
    losses = extras.pop("losses", [0.0] * len(values))
    more = {"losses": losses, "start": np.array([start]), "extras": Extras(**extras)}
    given = {} if samples is None else {"samples": samples}
    return in_one_layer(np.array(values, np.float64)[:, None], **given, **more)


def agrees(result: Aggregate, rtol: float = 1e-14, **expected: Any) -> None:
    """Parts of the result are these; of a table by client and layer its first column."""
    for what, wanted in expected.items():
        found = getattr(result, what)
        if what in ("flag", "warnings", "dropped"):
            assert found == wanted, what
            continue
        found = np.asarray(found[:, 0] if found.ndim == 2 else found, np.float64)
        np.testing.assert_allclose(found, np.asarray(wanted, np.float64), rtol=rtol, err_msg=what)
