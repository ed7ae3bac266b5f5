"""Which rules need nothing but updates, and rounds that have everything that the others need."""

from __future__ import annotations

from typing import Any

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Layer
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import RULES

PLAIN = {name: rule for name, rule in RULES.items() if not rule.needs}
NEEDY = {name: rule for name, rule in RULES.items() if rule.needs}

SIZE = 12
LAYERS = (Layer("front", (slice(0, 3), slice(5, SIZE))), Layer("head", (slice(3, 5),)))
TARGET = np.linspace(-1.0, 1.0, SIZE)


def bowl(weights: Any) -> tuple[float, Any]:
    """An objective with its least value at `TARGET`: ½ ‖w - TARGET‖² and its gradient."""
    away = weights - TARGET
    return float(away @ away) / 2, away


def whole_round(count: int = 7, dtype: Any = np.float32, order: list[int] | None = None, **changes: Any) -> Cohort:
    """A round of some clients with everything that a rule may ask for; `order` is that of arrival."""
    rng = np.random.default_rng(count)
    start = rng.standard_normal(SIZE).astype(np.float32)
    rows = {
        "weights": (start + rng.standard_normal((count, SIZE)) / 4).astype(np.float32),
        "samples": rng.integers(1, 50, count),
        "losses": rng.random(count),
        "steps": rng.integers(1, 9, count).astype(float),
        "class_counts": rng.integers(0, 20, (count, 4)).astype(float),
        "maps": rng.random((count, 6)),
        "labelled": (np.arange(count) % 2).astype(float),
    }
    order = list(range(count)) if order is None else order
    rows["means"] = rng.standard_normal((count, 4 * 64))
    rows = {name: values[order] for name, values in rows.items()}
    of_clients = {name: rows[name] for name in ("steps", "class_counts", "maps", "labelled")}
    of_clients["vectors"] = {"means": list(rows["means"]), "counts": list(rows["class_counts"])}
    more = {"rate": 0.1, "clients": 3 * count, "objectives": (bowl,)}
    parts: dict[str, Any] = {
        "ids": [f"c{k:02}" for k in order],
        "weights": rows["weights"].astype(dtype),
        "samples": rows["samples"],
        "losses": rows["losses"],
        "start": start.astype(dtype),
        "layers": LAYERS,
        "extras": Extras(**{**of_clients, **more, **changes.pop("extras", {})}),
    }
    return Cohort.build(**{**parts, **changes})


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
