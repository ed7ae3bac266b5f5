"""Weights that are kept as they were checked: what is there, what is left to be read, and how rows move together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cloud.arrivals import TASK, update

from auricle_cloud.rounds.arrived_weights import ArrivedWeights
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.rows import UpdateRow
from auricle_cloud.storage.update_records import columns_of

DEVICES = ["dev-a", "dev-b", "dev-c", "dev-d"]
VALUES = {name: np.full(3, place, np.float32) for place, name in enumerate(DEVICES)}


def row(device: str, **changes: Any) -> UpdateRow:
    return UpdateRow(**columns_of(sent(device, **changes), Verdict("accepted", counted_in=1), 0.0))  # type: ignore[arg-type]


def sent(device: str, **changes: Any) -> Any:
    return update(device, **{"body": f"{DEVICES.index(device)}" * 64, **changes})


def filled(*devices: str, most: int = 1000) -> ArrivedWeights:
    arrived = ArrivedWeights(3, most)
    arrived.begin(TASK, 1, reversed(DEVICES))
    for device in devices:
        put(arrived, device)
    return arrived


def put(arrived: ArrivedWeights, device: str, **changes: Any) -> None:
    """As an update is taken in: decoded into its row, and kept once it was counted."""
    update = sent(device, **changes)
    row = arrived.row(update)
    weights = VALUES[device].copy() if row is None else row
    weights[:] = VALUES[device]
    arrived.put(update, weights)


def asked(arrived: ArrivedWeights, *devices: str) -> list[float | None]:
    """The first weight of each; None where it is to be read."""
    matrix, known = arrived.matrix_of([row(device) for device in devices])
    assert matrix.shape == (len(devices), 3) and matrix.dtype == np.float32
    assert all((values == values[0]).all() for values in matrix[known])
    return [float(values[0]) if found else None for values, found in zip(matrix, known, strict=True)]


def test_rows_are_in_the_order_of_the_devices_however_they_come() -> None:
    arrived = filled("dev-d", "dev-a", "dev-c", "dev-b")
    first, _ = arrived.matrix_of([row(device) for device in DEVICES])
    assert asked(arrived, *DEVICES) == [0, 1, 2, 3]
    assert np.shares_memory(first, arrived.matrix_of([row(device) for device in DEVICES])[0]), "nothing is copied"


@pytest.mark.parametrize("counted", [DEVICES[:3], DEVICES[1:], ["dev-b", "dev-d"], DEVICES[3:], ["dev-d", "dev-b"]])
def test_rows_move_together_where_devices_are_missing(counted: list[str]) -> None:
    arrived = filled(*DEVICES)
    expected = [float(DEVICES.index(name)) for name in counted]
    assert asked(arrived, *counted) == expected
    assert asked(arrived, *counted) == expected, "also when the round is closed once more"


def test_what_is_not_there_is_left_to_be_read() -> None:
    arrived = filled("dev-a", "dev-d")
    assert asked(arrived, "dev-a", "dev-b", "dev-d") == [0, None, 3]
    assert asked(arrived, "dev-a", "dev-b", "dev-d") == [0, None, 3]


def test_of_another_body_round_or_device_nothing_is_there() -> None:
    arrived = filled("dev-a")
    put(arrived, "dev-b", round=2)
    assert arrived.row(update("dev-x")) is None
    others = [row("dev-a", body="9" * 64), row("dev-a", round=2), row("dev-b")]
    assert not arrived.matrix_of(others)[1].any()


def test_what_was_not_counted_or_comes_too_late_touches_nobody() -> None:
    arrived = filled("dev-a", "dev-b", "dev-d")
    assert arrived.row(sent("dev-a")) is None, "it is there already"
    late = arrived.row(sent("dev-c"))
    assert late is not None
    assert asked(arrived, "dev-a", "dev-b", "dev-c", "dev-d") == [0, 1, None, 3]
    matrix, known = arrived.matrix_of([row("dev-a"), row("dev-b"), row("dev-d")])
    late[:] = 9
    arrived.put(sent("dev-c"), late)
    assert known.all() and matrix[:, 0].tolist() == [0, 1, 3]
    assert arrived.row(sent("dev-c")) is None, "the round is closing"


def test_no_more_is_kept_than_there_is_room_for_and_nothing_after_the_round() -> None:
    arrived = filled(*DEVICES, most=3 * 4 * 2)
    assert asked(arrived, *DEVICES) == [0, 1, None, None]
    arrived.begin(TASK, 1, DEVICES)
    assert asked(arrived, "dev-a") == [0], "the same round goes on"
    arrived.begin(TASK, 2, DEVICES)
    assert asked(arrived, "dev-a") == [None]
    arrived = filled("dev-a")
    arrived.clear()
    assert asked(arrived, "dev-a") == [None]
