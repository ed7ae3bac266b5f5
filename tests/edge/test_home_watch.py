"""A device of a home asks its hub once a day, and soon where it is away; where that moved it starts again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from auricle.process.clock import VirtualClock
from auricle_edge.fleet.agent_context import FleetRecord
from auricle_edge.fleet.identity_claim.claim import RECORD, ClaimRecord
from auricle_edge.service.home_watch import AWAY_SECONDS, CLAIM, DAY_SECONDS, LOOK_SECONDS, is_of_home, watch_home

HERE, THERE = "mqtts://192.168.1.5:8883", "mqtts://192.168.1.9:8883"


class Device:
    """A home's device whose hub answers what is in its file."""

    def __init__(self, folder: Path, reached_until: float, moves: bool, broker: str = HERE) -> None:
        self.folder, self._until, self._moves, self._broker = folder, reached_until, moves, broker
        self.clock = VirtualClock()
        self.moves_to: list[str] = []
        self._began = self.clock.monotonic()
        self.asked: list[float] = []
        self._write(HERE)

    def _write(self, broker: str) -> None:
        (self.folder / "identity").mkdir(exist_ok=True)
        record = FleetRecord(fleet="home", broker=broker, coordinator="ab" * 32)
        (self.folder / "identity" / "fleet.json").write_bytes(msgspec.json.encode(record))

    @property
    def age(self) -> float:
        return self.clock.monotonic() - self._began

    def is_reached(self) -> bool:
        return self.age < self._until

    async def renew(self, _: Path) -> None:
        self.asked.append(self.age)
        if self._moves:
            self._write(THERE)
        if len(self.asked) == 3:
            raise asyncio.CancelledError

    def move(self, broker: str) -> None:
        self.moves_to.append(broker)

    def watch(self) -> None:
        watching = watch_home(self.folder, self._broker, self.is_reached, self.move, self.renew, self.clock)
        try:
            asyncio.run(watching)
        except asyncio.CancelledError:
            assert len(self.asked) == 3


def test_a_device_that_is_reached_asks_once_a_day_and_goes_on(tmp_path: Path) -> None:
    device = Device(tmp_path, reached_until=1e9, moves=False)
    device.watch()
    assert device.asked == [DAY_SECONDS, 2 * DAY_SECONDS, 3 * DAY_SECONDS]
    assert device.moves_to == []


@pytest.mark.parametrize(("moves", "asked"), [(False, 3), (True, 1)])
def test_a_device_without_its_broker_asks_soon_and_starts_again_where_the_hub_moved(
    tmp_path: Path, moves: bool, asked: int
) -> None:
    device = Device(tmp_path, reached_until=1000.0, moves=moves)
    device.watch()
    assert len(device.asked) == asked
    assert 1000.0 + AWAY_SECONDS - LOOK_SECONDS <= device.asked[0] <= 1000.0 + AWAY_SECONDS + LOOK_SECONDS
    assert all(later - sooner >= AWAY_SECONDS for sooner, later in zip(device.asked, device.asked[1:], strict=False))
    assert device.moves_to == [THERE] * moves


def test_a_device_that_was_given_another_broker_stays_there(tmp_path: Path) -> None:
    device = Device(tmp_path, reached_until=0.0, moves=True, broker="mqtts://elsewhere:8883")
    device.watch()
    assert device.moves_to == []


def test_only_who_joined_by_a_code_is_of_a_home(tmp_path: Path) -> None:
    assert CLAIM == RECORD
    assert not is_of_home(tmp_path)
    file = tmp_path / "identity" / CLAIM
    file.parent.mkdir()
    for home in (False, True):
        record = ClaimRecord(device="kitchen-1", server="https://h:1", pin="ab" * 32, renew_after=0.0, home=home)
        file.write_bytes(msgspec.json.encode(record))
        assert is_of_home(tmp_path) is home
    file.write_bytes(b"\xff")
    assert not is_of_home(tmp_path)
