"""Rounds on a clock that only counts: a real database, no broker, and nobody waits for the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import TASK, open_round, register, update

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.clock import VirtualClock
from auricle.wire.frames import device_of
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.rows import RoundRow
from auricle_cloud.storage.schema import updates
from auricle_cloud.storage.store import FILE

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


@pytest.mark.parametrize(
    ("worker", "lasts"),
    [
        (None, 50.0),  # the quorum counts as in from the start on
        ("worker-0", 10.0),  # others have counted it 40 seconds ago
    ],
)
def test_a_round_that_is_taken_over_waits_for_no_promised_device_and_not_again(
    tmp_path: Path, worker: str | None, lasts: float
) -> None:
    pack, clock = load_pack("digits"), VirtualClock(BEGAN)
    broker = BrokerAddress("127.0.0.1", 1)
    told: dict[str, Any] = {
        "devices": 9,
        "gather": 120.0,
        "quorum": 0.5,
        "patience": 0.0,
        "least_wait": 50.0,
        "task": TASK,
    }
    place: dict[str, Any] = {} if worker is None else {"worker": BrokerAddress("127.0.0.1", 1, username=worker)}
    database = f"sqlite:///{tmp_path / FILE}"
    coordinator = Coordinator(
        RunSettings("f", broker, tmp_path, 1, database=database, **place, **told), pack, clock=clock
    )
    coordinator._begin()
    site, store = coordinator.site, coordinator.store
    for device in DEVICES:
        store.devices.register(register(device, public_key=device.encode().ljust(32), pack=pack.identity), "approved")
    base = store.models.current(TASK).blob
    open_round(store, DEVICES, base=base)
    sent = [update(name, base=base, body=base, length=4 * pack.plugin_table.size) for name in DEVICES[:2]]
    store.updates.count(sent)
    with store.database.writing() as tx:
        tx.execute(sa.update(updates).values(received=BEGAN - 40.0))

    async def publish(*_: object, **__: object) -> None:
        """To nobody."""

    site.messenger._publish = publish  # type: ignore[method-assign]
    asyncio.run(coordinator.rounds.run())
    assert (store.rounds.get(TASK, 1).state, clock.now() - BEGAN) == ("published", lasts)
    store.close()


def test_who_was_here_is_believed_of_a_coordinator_that_led_until_now_where_it_knew(tmp_path: Path) -> None:
    settings = RunSettings("f", BrokerAddress("127.0.0.1", 1), tmp_path, 1)
    pack = load_pack("digits")

    def begin_again(*, succeeds: bool) -> tuple[bool, set[str]]:
        coordinator = Coordinator(settings, pack)
        coordinator.site.presence_known = succeeds
        coordinator._begin()
        said = coordinator.site.presence_known, coordinator.store.devices.unheard()
        coordinator.store.close()
        return said

    first = Coordinator(settings, pack)
    first.store.devices.register(register("dev-a", pack=pack.identity), "approved")
    first.store.close()
    assert begin_again(succeeds=True) == (True, set())
    assert begin_again(succeeds=False) == (False, {"dev-a"})
    assert begin_again(succeeds=True) == (False, {"dev-a"})
