"""Parts of a step in several forms: that all forms of a part compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from bench import step_form_graphs as graphs
from bench.step_forms import Running, arguments, run

FORMS = {
    "forward": graphs.forward(2),
    "backward": graphs.backward(2),
    "relu": graphs.relu_gradient(),
    "convolution": graphs.convolution(),
    "squares": graphs.squares(70_016),
}


@pytest.mark.parametrize("part", FORMS)
def test_every_form_of_a_part_gives_the_same_numbers(part: str) -> None:
    first, *others = (Running(form).outputs() for form in FORMS[part].values())
    for other in others:
        for mine, due in zip(other, first, strict=True):
            assert mine.shape == due.shape
            np.testing.assert_allclose(mine, due, rtol=1e-4, atol=1e-5)


def test_times_and_errors_are_of_every_form() -> None:
    result = run(arguments(["--rounds", "1", "--calls", "1", "--part", "squares"]))
    assert [len(part["forms"]) for part in result["parts"]] == [4, 4, 4, 4]
    for part in result["parts"]:
        assert part["forms"]["two stages"]["off"] < 3e-7
        assert part["forms"]["ReduceSumSquare"]["ratio"] == 1


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--calls", "0"], ["--part", "all"]])
def test_what_cannot_be_measured_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(wrong)
