"""One chore of a coordinator that fails stops no other, and health says so until it works again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auricle.errors import StorageError
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.clock import VirtualClock
from auricle_cloud.rounds.chores import PATIENCE, Chores, Every
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.database_errors import SupersededError


def broken() -> None:
    raise StorageError("The database c.db cannot take this: no NUL.")


def odd() -> None:
    raise KeyError("what nobody thought of")


def test_what_fails_stops_no_other_and_is_told_by_health(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "auricle.cloud")
    chores, done = Chores(), []
    mine = {"journal": broken, "keys": lambda: done.append("keys"), "metrics": odd, "schedules": lambda: done.append(1)}

    for _ in range(PATIENCE - 1):
        assert not chores.do(mine)
    assert chores.failing() is None, "once is nothing"
    chores.do(mine)

    assert len(done) == 2 * PATIENCE
    said = chores.failing() or ""
    assert "journal" in said and "no NUL" in said and "metrics" in said and "keys" not in said
    assert chores.do({**mine, "journal": lambda: None, "metrics": lambda: None})
    assert chores.failing() is None
    levels = [record.levelname for record in caplog.records]
    assert levels == ["ERROR"] * 2 + ["INFO"] * 2, "each failure and its end are logged once"


def test_what_is_done_every_so_often_is_tried_again_after_a_failure() -> None:
    tried: list[str] = []

    def chore() -> None:
        tried.append("once more")
        if len(tried) == 1:
            broken()

    clock = VirtualClock()
    every = Every(3600.0, chore, clock)

    with pytest.raises(StorageError):
        every()
    every()
    clock.sleep(3599.0)
    every()
    assert len(tried) == 2
    clock.sleep(1.0)
    every()

    assert len(tried) == 3


def test_who_was_overtaken_stops() -> None:
    def overtaken() -> None:
        raise SupersededError("A newer coordinator has taken over this database: this one stops.")

    async def overtaken_later() -> None:
        overtaken()

    with pytest.raises(SupersededError):
        Chores().do({"database": overtaken})
    with pytest.raises(SupersededError):
        asyncio.run(Chores().do_async({"rollouts": overtaken_later}))


def test_a_coordinator_that_stops_while_nothing_can_be_written_closes_its_database(tmp_path: Path) -> None:
    coordinator, closed = silent_coordinator(tmp_path), []
    coordinator.inbox.flush = broken  # type: ignore[method-assign]
    close = coordinator.store.close
    coordinator.store.close = lambda: closed.append(close())  # type: ignore[method-assign,func-returns-value]

    async def case() -> None:
        begun = asyncio.Event()

        async def rounds() -> None:
            begun.set()
            await asyncio.Event().wait()

        coordinator._rounds = rounds  # type: ignore[method-assign]
        running = asyncio.create_task(coordinator.run())
        await asyncio.wait_for(begun.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(case())
    assert len(closed) == 1


@pytest.mark.slow
def test_a_database_that_is_away_between_two_rounds_ends_no_coordinator(tmp_path: Path) -> None:
    coordinator, asked = silent_coordinator(tmp_path), []

    async def case() -> None:
        again, loop = asyncio.Event(), asyncio.get_running_loop()

        async def at_once(*_: object) -> None:
            pass

        def due(_: str) -> None:
            asked.append("due")
            if len(asked) == 1:
                broken()
            loop.call_soon_threadsafe(again.set)

        coordinator.link.wait_connected = at_once  # type: ignore[method-assign,assignment]
        coordinator.site.messenger.offer = at_once  # type: ignore[method-assign,assignment]
        coordinator.store.rounds.due = due  # type: ignore[method-assign,assignment]
        coordinator._begin()
        rounds, wait = asyncio.create_task(coordinator._rounds()), asyncio.create_task(again.wait())
        await asyncio.wait({rounds, wait}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert again.is_set() and not rounds.done()
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)

    asyncio.run(case())
    coordinator.store.close()


def test_a_connection_and_the_clock_do_no_chore_at_once(tmp_path: Path) -> None:
    coordinator, both, met = silent_coordinator(tmp_path), threading.Barrier(2), []

    def meet() -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)
            met.append("two at once")

    coordinator.upkeep.hearing.look = meet  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: coordinator.upkeep.look(), range(2)))
    coordinator.store.close()
    assert not met


def silent_coordinator(folder: Path) -> Coordinator:
    """One whose broker is nowhere."""
    broker = BrokerAddress("127.0.0.1", 9, NAME, "")
    return Coordinator(RunSettings("f", broker, folder, None), load_pack("digits"))


@pytest.mark.slow
def test_a_coordinators_health_names_the_chore_and_the_others_go_on(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="a site of agents needs it")
    from aiohttp.test_utils import TestClient, TestServer
    from tests.cloud.coordinator_site import Site, run

    from auricle_cloud.api.api_settings import ApiSettings
    from auricle_cloud.service import application
    from auricle_learning.runtimes import StepRuntime

    async def case(site: Site) -> None:
        coordinator = site.coordinator(None)
        coordinator.inbox.flush = broken  # type: ignore[method-assign]
        looked = asyncio.Event()
        loop = asyncio.get_running_loop()
        coordinator.upkeep.hearing.look = lambda: loop.call_soon_threadsafe(looked.set)  # type: ignore[method-assign,assignment]
        running = asyncio.create_task(coordinator.run())
        app = application(coordinator, ApiSettings("127.0.0.1", 0, None, None, True))
        async with TestClient(TestServer(app)) as client:
            while coordinator.upkeep.chores.failing() is None:
                looked.clear()
                await asyncio.wait_for(looked.wait(), 30)
            answer = await client.get("/healthz")
            assert answer.status == 503
            assert (await answer.json())["checks"] == {"database": "ok", "disk": "ok", "chores": "failing"}
            assert "The coordinator's journal of refusals fails" in (coordinator.upkeep.chores.failing() or "")
            coordinator.inbox.flush = lambda: None  # type: ignore[method-assign]
            while coordinator.upkeep.chores.failing() is not None:
                looked.clear()
                await asyncio.wait_for(looked.wait(), 30)
        coordinator.inbox.flush = lambda: None  # type: ignore[method-assign]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(case, StepRuntime(load_pack("digits")), tmp_path)
