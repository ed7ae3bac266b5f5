"""Every method without a fleet: its half at the coordinator is a call, round after round."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.learning.rule_cases import SIZE, bowl, whole_round

from auricle_learning import methods

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
SERVER = methods.Server(objectives=(bowl,), labelled=12.0, clients=21, total_samples=500.0, rate=0.1)


@pytest.mark.parametrize("name", methods.METHODS)
def test_two_rounds_of_a_method_are_two_calls(name: str) -> None:
    method, state = methods.METHODS[name], None
    first = None
    for _ in range(2):
        step = method.aggregate(whole_round(), state, SERVER)
        first, state = first or step, step.state
        weights = step.aggregate.weights
        assert weights.shape == (SIZE,) and np.isfinite(weights).all()
        expected = {vector.name: vector.size if isinstance(vector.size, int) else SIZE for vector in method.needs.down}
        assert {name: vector.size for name, vector in step.send.items()} == expected
    assert state is not None or "server-state" not in method.rule.needs
    assert first is not None
    again = method.aggregate(whole_round(), None, SERVER)
    assert again.aggregate.weights.tobytes() == first.aggregate.weights.tobytes(), "nothing is kept outside the state"


@pytest.mark.parametrize("name", methods.METHODS)
def test_what_a_coordinator_has_may_stand_in_the_cohort(name: str) -> None:
    cohort = whole_round(extras={"reference_samples": 12.0, "clients": 21, "total_samples": 500.0})
    by_server = methods.METHODS[name].aggregate(whole_round(), None, SERVER)
    by_cohort = methods.METHODS[name].aggregate(cohort)
    assert by_cohort.aggregate.weights.tobytes() == by_server.aggregate.weights.tobytes()


def test_the_example_of_the_page_prints_what_stands_beside_it() -> None:
    (example,) = re.findall(r"```python\n(import numpy.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=100, check=True)
    expected = re.findall(r"print\(.*\)  # (.*)", example)
    assert len(expected) == 2
    assert done.stdout.splitlines() == expected
