"""Operations of a step, worked out by hand."""

from __future__ import annotations

import pytest
from bench.step_cost import Cost, convolution, crnn_cost, gru

from auricle.packs.pack import load_pack

PACK = load_pack("gsc35")


def test_a_convolution_and_a_gru_multiply_and_backward_is_twice_forward_but_for_the_first() -> None:
    """2 samples x 4 frames x 3 taps x 2 x 3 products of two operations each; three gates by input and by state."""
    assert convolution(2, 4, 3, 2, 3) == 2 * (2 * 4 * 3 * 2 * 3) == 288
    assert gru(batch=1, steps=1, inputs=2, hidden=3) == 2 * (9 * 2 + 9 * 3)
    assert gru(2, 5, 2, 3, directions=2) == 20 * gru(1, 1, 2, 3)
    cost = Cost((("first", 10), ("second", 100)))
    assert (cost.forward, cost.step) == (110, 10 + 100 + (10 + 100) + 100)


def test_crnn_lite_by_hand() -> None:
    """Convolutions over 100 and 50 frames, 25 steps of a GRU, 35 labels."""
    cost = crnn_cost(PACK.table("crnn-lite"))
    first, second = 2 * 16 * 100 * 3 * 40 * 32, 2 * 16 * 50 * 3 * 32 * 32
    recurrent, head = 2 * 16 * 25 * 192 * (32 + 64), 2 * 16 * 64 * 35
    assert cost.layers == (("conv.0", first), ("conv.1", second), ("gru.0", recurrent), ("head", head))
    assert cost.step == 3 * (first + second + recurrent + head) - first == 83_773_440


@pytest.mark.parametrize(
    ("model", "last", "inputs", "directions", "depth"),
    [("crnn-base", 25, 64, 2, 1), ("crnn-deep", 12, 64, 2, 1), ("crnn-stacked", 25, 64, 1, 2)],
)
def test_recurrent_layers_are_found(model: str, last: int, inputs: int, directions: int, depth: int) -> None:
    layers = dict(crnn_cost(PACK.table(model)).layers)
    assert layers["gru.0"] == gru(16, last, inputs, 64, directions)
    assert len([name for name in layers if name.startswith("gru")]) == depth
