"""What the pack's negatives cost in a round: every part is measured, and a model is played to once."""

from __future__ import annotations

import json

import pytest
from bench.carried_cost import main, measure


def test_the_first_time_is_not_counted() -> None:
    seen: list[int] = []
    cost = measure("a part", seen.append, 3)
    assert seen == [0, 1, 2, 3]
    assert 0 <= cost.least <= cost.median <= cost.most < 1000


@pytest.mark.slow
def test_every_part_has_a_cost(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--clips", "4", "--repeats", "1", "--json"])
    costs = json.loads(capsys.readouterr().out)
    parts = [cost["part"] for cost in costs]
    assert parts[:2] == ["training, clips alone", "training, with the pack's negatives"]
    assert len(parts) == 3 and parts[2].startswith("judging resnet-lite on ")
    assert all(cost["least"] > 0 for cost in costs)
