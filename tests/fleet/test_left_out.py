"""Who a round's line and the report say was left out: by every rule, as its own aggregation decided."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fleet.ended_run import line
from tests.nightly import nightly_but
from tests.rule_package import install_rule

from auricle_fleet.results.record import left_out
from auricle_fleet.results.report import _count_left_out
from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array, Layer
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import RULES, get_rule

FRONT, HEAD = [0.0, 1.0, 2.0, 3.0, 100.0, math.nan], [0.0] * 6
FIVE = {"prune_low": 0.2, "prune_high": 0.2}

EXPECTED: dict[str, tuple[dict[str, Any], str, str]] = {
    # f is not finite and seen by no rule; a has no loss.
    "fedavg": ({}, "f", "f"),
    "fedvsa": ({}, "af", "af"),
    "geometric-median": ({}, "f", "f"),
    "norm-clip": ({}, "f", "f"),
    # Front: the mean is 21.2; d (18.2 away) is the nearest, e (78.8) the furthest. Head: all tie, so the ids decide.
    "lpa": (FIVE, "def", "aef"),
    "fedmlac": (FIVE, "def", "aef"),
    "lpa+fedvsa": (FIVE, "adef", "aef"),
    # Front: 2 is in the middle. Head: all tie, so each is a fifth of the middle.
    "median": ({}, "abdef", "f"),
    "trimmed-mean": ({"cut": 1}, "aef", "f"),
    # Two nearest others: a 1 + 4, b 1 + 1, c 1 + 1, d 1 + 4, e far; of b and c the id decides.
    # e is 78.8 from the mean along the only direction; the updates are judged whole.
    "dnc": ({}, "ef", "ef"),
    # At w = 0 the coordinator's clips want both layers to grow: a, which did not move, goes with nothing.
    "zeno": ({}, "af", "af"),
    # All moved along the same line, and of equals the linear program takes the first that moved.
    "fedrpo": ({}, "acdef", "acdef"),
    **{name: ({}, "f", "f") for name in ("acmu", "feddc", "feddisco", "feddyn", "fedlaw", "fednova", "fedopt")},
    **{name: ({}, "f", "f") for name in ("creff", "ditto", "fedprox", "mupfl", "raf", "scaffold")},
    # Nobody is left out of a classifier that is not averaged, nor where no weights are.
    **{name: ({}, "f", "f") for name in ("fedrep", "local")},
    "fedkad": ({"projection": 1}, "f", "f"),
    "krum": ({"attackers": 1}, "acdef", "acdef"),
    "multi-krum": ({"attackers": 1}, "adef", "adef"),
}  # by rule: its options, and who is left out of the front and of the head

NEAREST = """
import numpy as np
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.rules import Rule

def nearest(cohort):
    kept = np.zeros((len(cohort.ids), len(cohort.layers)), bool)
    kept[[0, 1], 0] = True
    kept[2, 1] = True
    return Aggregate(cohort.start, cohort.ids, cohort.names, kept, kept / kept.sum(0), dropped=cohort.dropped)

rule = Rule("nearest", nearest)
"""


def toward_ten(weights: Float64Array) -> tuple[float, Float64Array]:
    """Half the squared distance from (10, 10), and its gradient."""
    return float(np.square(weights - 10).sum() / 2), weights - 10


def cohort() -> Cohort:
    return Cohort.build(
        ids=list("abcdef"),
        weights=np.column_stack([FRONT, HEAD]).astype(np.float32),
        samples=[1, 2, 3, 4, 5, 6],
        losses=[math.nan, 1.0, 1.0, 1.0, 1.0, 1.0],
        start=np.zeros(2, np.float32),
        layers=(Layer("front", (slice(0, 1),)), Layer("head", (slice(1, 2),))),
        extras=Extras(
            steps=np.ones(6),
            class_counts=np.ones((6, 2)),
            vectors={name: [np.ones(2)] * 6 for name in ("means", "counts")},
            objectives=(toward_ten,),
            rate=0.1,
            clients=6,
        ),
    )


def stored(aggregate: Aggregate) -> dict[str, Any]:
    """What a coordinator stores of a round that the rule decided."""
    return {"layers": aggregate.explain(), "dropped": list(aggregate.dropped), "updates": [], "rule": "any"}


def test_every_rule_is_judged_here() -> None:
    assert set(EXPECTED) == set(RULES)


@pytest.mark.parametrize("name", nightly_but(list(EXPECTED), ["fedmlac", "fedrpo"]))
@pytest.mark.slow
def test_who_a_rule_left_out(name: str) -> None:
    options, front, head = EXPECTED[name]
    found = left_out(stored(get_rule(name, **options)(cohort())))
    assert found == {"front": tuple(front), "head": tuple(head)}
    page = _count_left_out([line(1, left_out=found)])
    for device in "abcdef":
        counts = f"<tr><td>{device}</td><td>{int(device in front)}</td><td>{int(device in head)}</td></tr>"
        assert (counts in page) == (device in front + head)


def test_who_a_rule_of_another_package_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_rule(monkeypatch, tmp_path, "nearest", NEAREST)
    found = left_out(stored(get_rule("nearest")(cohort())))
    assert found == {"front": tuple("cdef"), "head": tuple("abdef")}


def test_a_device_without_weight_did_not_count() -> None:
    none = get_rule("fedavg")(
        Cohort.build(
            ids=["a", "b"],
            weights=np.ones((2, 1), np.float32),
            samples=[0, 1],
            start=np.zeros(1, np.float32),
            layers=(Layer("all", (slice(0, 1),)),),
        )
    )
    assert none.kept.all()
    assert left_out(stored(none)) == {"all": ("a",)}


def test_an_aborted_round_left_nobody_out_of_a_layer() -> None:
    assert left_out({"invited": ["a"], "failed": {"a": "no"}, "reason": "no quorum at the deadline"}) == {}
