"""Every method without a fleet: its half at the coordinator is a call, round after round."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learning.rule_cases import SIZE, bowl, whole_round
from tests.learning.toy_training import PACK

from auricle.wire.plan import Plan
from auricle_learning import Cohort, methods

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
CLIENTS = 7
SERVER = methods.Server(objectives=(bowl,), labelled=12.0, clients=21, total_samples=500.0, rate=0.1)


def round_of(method: methods.Method, **extras: Any) -> Cohort:
    """A round with everything that a rule may ask for, and the vectors that the method has updates bring."""
    plan = method.rule_for_rounds.plan_for(Plan())
    sizes = {vector.name: vector.numbers(PACK, plan) for vector in method.needs.up}
    vectors = {name: [np.ones(size, np.float32)] * CLIENTS for name, size in sizes.items()}
    return whole_round(CLIENTS, extras={"vectors": vectors, **extras})


@pytest.mark.parametrize("name", methods.METHODS)
def test_two_rounds_of_a_method_are_two_calls(name: str) -> None:
    method = methods.METHODS[name]
    first = method.aggregate(round_of(method), None, SERVER)
    second = method.aggregate(round_of(method), first.state, SERVER)
    for step in (first, second):
        weights = step.aggregate.weights
        assert weights.shape == (SIZE,) and np.isfinite(weights).all()
        assert set(step.send) == {vector.name for vector in method.needs.down}
    again = method.aggregate(round_of(method), None, SERVER)
    assert again.aggregate.weights.tobytes() == first.aggregate.weights.tobytes(), "nothing is kept outside the state"


@pytest.mark.parametrize("name", methods.METHODS)
def test_what_a_coordinator_has_may_stand_in_the_cohort(name: str) -> None:
    method = methods.METHODS[name]
    by_server = method.aggregate(round_of(method), None, SERVER)
    by_cohort = method.aggregate(round_of(method, reference_samples=12.0, clients=21, total_samples=500.0))
    assert by_cohort.aggregate.weights.tobytes() == by_server.aggregate.weights.tobytes()


def test_the_example_of_the_page_prints_what_stands_beside_it() -> None:
    (example,) = re.findall(r"```python\n(import numpy.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=100, check=True)
    expected = re.findall(r"print\(.*\)  # (.*)", example)
    assert len(expected) == 2
    assert done.stdout.splitlines() == expected
