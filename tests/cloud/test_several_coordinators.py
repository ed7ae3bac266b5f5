"""Several coordinators of one PostgreSQL: who leads, what a worker may write meanwhile, and updates in parts."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.cloud.arrivals import BASE, TASK, begin, open_round, register, update

from auricle.errors import SettingsError, WireError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.wire.messages import Update
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.rounds.worker import Worker
from auricle_cloud.settings import RunSettings
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.lease import Lease
from auricle_cloud.storage.part_records import SharedAssemblies
from auricle_cloud.storage.store import Store

pytestmark = pytest.mark.slow
BODY = b"12345678"
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def opened(postgres_url: str) -> Iterator[Callable[[], Store]]:
    """Opens the same database again, as another process does."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Store(postgres_url)))


class SweptOnce(Blobs):
    """A folder in which somebody does something once, after the first bodies were kept."""

    def __init__(self, folder: Path, then: Callable[[SweptOnce], None]) -> None:
        super().__init__(folder)
        self._then: Callable[[SweptOnce], None] | None = then
        self.times = 0

    def put_all(self, blobs: Sequence[bytes], names: Sequence[str] | None = None) -> list[str]:
        kept = super().put_all(blobs, names)
        self.times += 1
        then, self._then = self._then, None
        if then is not None:
            then(self)
        return kept


def test_one_has_the_lease_until_it_runs_out_or_is_given_up(opened: Callable[[], Store]) -> None:
    first, second = Lease(opened().database, 1.5), Lease(opened().database, 1.5)
    assert second.seconds_left() == -math.inf
    assert first.take()
    assert 0 < second.seconds_left() <= 1.5
    assert not second.take()
    time.sleep(0.9)
    assert first.renew()
    time.sleep(0.9)
    assert not second.take()
    time.sleep(0.9)
    assert -5 < second.seconds_left() <= 0
    assert second.take()
    assert not first.renew()
    first.give_up()
    assert not first.take()
    second.give_up()
    assert first.seconds_left() < -1e9
    assert first.take()


def test_sqlite_has_no_lease(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="need PostgreSQL"):
        Lease(Database(tmp_path / "coordinator.db"))


def test_a_worker_goes_on_in_the_epoch_of_whoever_leads(opened: Callable[[], Store]) -> None:
    leader, worker = opened().database, opened().database
    assert leader.take_over() == 1
    worker.follow()
    assert worker.epoch == 1
    with worker.writing():
        pass
    assert opened().database.take_over() == 2
    assert worker.epoch == 1
    with worker.writing():
        pass
    assert worker.epoch == 2
    with pytest.raises(SupersededError), leader.writing():
        pass


@pytest.mark.parametrize("what", ["swept", "taken over and swept"])
def test_a_body_that_was_removed_before_its_update_counted_is_kept_again(
    what: str, opened: Callable[[], Store], tmp_path: Path
) -> None:
    leader, worker = opened(), opened()
    leader.database.take_over()
    begin(leader)
    open_round(leader, ["dev-a"])
    worker.database.follow()

    def sweep(blobs: SweptOnce) -> None:
        if what != "swept":
            leader.database.take_over()
        with leader.database.sweeping():
            blobs.remove_all(set(blobs.names()) - leader.models.in_use_by_any())

    def between(taken: SweptOnce) -> None:
        sweep(taken)
        with worker.database.writing():  # as for another message: what it sees is not what the update was kept under
            pass

    blobs = SweptOnce(tmp_path / "blobs", between)
    verdict = asyncio.run(Ledger(worker, blobs).count(update(body=SHA256), BODY))
    assert (verdict.code, blobs.times) == ("accepted", 2)
    assert [row.body for row in leader.updates.counted("t", 1)] == [SHA256]
    assert blobs.get(SHA256) == BODY


def test_a_worker_judges_the_first_update_of_a_device_once_and_notes_nobody_to_be_here(
    opened: Callable[[], Store], postgres_url: str, tmp_path: Path
) -> None:
    leader, pack = opened(), load_pack("digits")
    leader.database.take_over()
    leader.models.begin(TASK, pack.identity, BASE)
    for device in ("dev-a", "dev-b"):
        leader.devices.register(register(device, pack=pack.identity), "approved")
    open_round(leader, ["dev-a", "dev-b"])
    leader.devices.forget_presence()
    broker = BrokerAddress("127.0.0.1", 1)
    address = BrokerAddress("127.0.0.1", 1, username="worker-0")
    told = RunSettings("f", broker, tmp_path, 1, task=TASK, database=postgres_url, worker=address)
    worker = Worker(told, pack)
    answered: list[str] = []

    async def acknowledge(update: Update, _: Verdict) -> None:
        answered.append(update.device)

    worker._messenger.acknowledge = acknowledge  # type: ignore[method-assign]

    async def work() -> list[bool]:
        before = worker._awaits(update())
        assert await worker.declared(TASK, 1) is not None
        known = worker._awaits(update())
        await worker.on_update(update(), Verdict("accepted", counts=True))
        return [before, known, worker._awaits(update()), worker._awaits(update("dev-b"))]

    assert asyncio.run(work()) == [False, True, False, True]
    assert answered == ["dev-a"]
    asyncio.run(worker._inbox._note_heard(update()))
    assert leader.devices.unheard() == {"dev-a", "dev-b"}
    worker._store.close()


def test_parts_that_come_to_several_workers_are_put_together(opened: Callable[[], Store]) -> None:
    first, second = (SharedAssemblies(opened().database, 100, 600.0) for _ in range(2))
    parts = [update(length=8, part=number, parts=3) for number in range(3)]
    assert first.add(parts[2], b"78") is None
    assert second.add(parts[0], b"123") is None
    assert second.add(parts[0], b"123") is None
    assert (first.add(parts[1], b"456"), second.size) == (BODY, 5)
    assert first.add(parts[1], b"456") is None  # begins again
    assert first.size == 3


def test_parts_are_refused_beyond_the_length_and_the_budget(opened: Callable[[], Store]) -> None:
    shared = SharedAssemblies(opened().database, 10, 0.2)
    with pytest.raises(WireError, match=r"^part: together more"):
        shared.add(update(length=2, part=0, parts=2), b"abc")
    assert shared.add(update("dev-a", length=8, part=0, parts=2), b"abcdef") is None
    assert shared.add(update("dev-a", length=8, part=1, parts=2, body="d" * 64), b"cdef") is None
    assert shared.size == 4
    assert shared.add(update("dev-b", length=8, part=0, parts=2), b"abcdef") is None
    with pytest.raises(WireError, match=r"^memory: "):
        shared.add(update("dev-c", length=8, part=0, parts=2), b"abc")
    time.sleep(0.3)
    assert shared.add(update("dev-c", length=8, part=0, parts=2), b"abc") is None  # the others have rested
    assert shared.size == 3
