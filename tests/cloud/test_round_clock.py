"""Rounds on a clock that only counts: a real database, no broker, and nobody waits for the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.arrivals import register, update

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.clock import VirtualClock
from auricle.wire.frames import device_of
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.rows import RoundRow

BEGAN = 1_800_000_000.0
DEVICES = ("dev-a", "dev-b", "dev-c", "dev-d")


def run(folder: Path, answering: Sequence[str] = (), **changes: Any) -> tuple[RoundRow, float]:
    """Run round 1 with four devices, of which these answer at once: its row, and how long it took."""
    told = {"devices": 4, "quorum": 0.5, "deadline": 120.0, "patience": 2.0, "least_wait": 50.0, **changes}
    pack, clock = load_pack("digits"), VirtualClock(BEGAN)
    settings = RunSettings("f", BrokerAddress("127.0.0.1", 1), folder, 1, **told)
    coordinator = Coordinator(settings, pack, clock=clock)
    coordinator._begin()
    site, store, task = coordinator.site, coordinator.store, settings.task
    for device in DEVICES:
        store.devices.register(register(device, public_key=device.encode().ljust(32), pack=pack.identity), "approved")
    base = store.models.current(task).blob

    async def publish(topic: str, payload: bytes, **_: object) -> None:
        device = device_of(topic) if topic.endswith("/inv") else ""
        if device in answering:
            sent = update(device, task=task, base=base, body=base, length=4 * pack.plugin_table.size)
            (verdict,) = await asyncio.to_thread(store.updates.count, [sent])
            await coordinator.rounds.progress.on_update(sent, verdict)

    site.messenger._publish = publish  # type: ignore[method-assign]
    site.presence_known = True
    asyncio.run(coordinator.rounds._synchronous.run(1))
    row = store.rounds.get(task, 1)
    store.close()
    return row, clock.now() - BEGAN


@pytest.mark.parametrize(
    ("answering", "changes", "state", "lasts"),
    [
        (DEVICES, {}, "published", 0.0),
        (DEVICES[:2], {}, "published", 50.0),  # the quorum at once, and the least wait
        (DEVICES[:2], {"least_wait": 900.0}, "published", 120.0),  # never past the deadline
        (DEVICES[:2], {"participation": 0.5, "over_selection": 2.0}, "published", 0.0),  # as many as it wanted
        (DEVICES[:1], {}, "aborted", 120.0),
        ((), {"deadline": 240.0}, "aborted", 240.0),
    ],
)
def test_a_round_ends_when_its_policy_says_so(
    tmp_path: Path, answering: Sequence[str], changes: dict[str, Any], state: str, lasts: float
) -> None:
    row, seconds = run(tmp_path, answering, **changes)
    assert (row.state, row.opened, seconds) == (state, BEGAN, lasts)
