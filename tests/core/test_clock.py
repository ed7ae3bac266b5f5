"""The machine's clock, and one that only counts."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest

from auricle.process.clock import SYSTEM_CLOCK, Clock, VirtualClock


def test_a_virtual_clock_counts_what_is_waited_for_and_nothing_else() -> None:
    clock = VirtualClock(1000.0)
    assert (clock.now(), clock.monotonic()) == (1000.0, 1000.0)
    clock.sleep(2.5)
    clock.sleep(-1.0)
    news = threading.Condition()
    with news:
        assert not clock.wait(news, 4.0)
    assert (clock.now(), clock.monotonic()) == (1006.5, 1006.5)


def test_tasks_wait_on_a_virtual_clock_without_waiting() -> None:
    async def case() -> None:
        clock, event, turns = VirtualClock(), asyncio.Event(), asyncio.Queue[float]()
        asyncio.get_running_loop().call_soon(lambda: turns.put_nowait(clock.now()))
        await clock.pause(3600.0)
        assert (clock.now(), turns.get_nowait()) == (3600.0, 3600.0)
        assert not await clock.wait_set(event, 60.0)
        assert clock.now() == 3660.0
        asyncio.get_running_loop().call_soon(event.set)
        assert await clock.wait_set(event, 60.0)
        assert clock.now() == 3660.0

    asyncio.run(case())


@pytest.mark.parametrize("clock", [cast(Clock, SYSTEM_CLOCK), VirtualClock()])
def test_time_never_goes_back_and_what_is_set_ends_a_wait(clock: Clock) -> None:
    async def case() -> list[bool]:
        event = asyncio.Event()
        early = await clock.wait_set(event, 0.01)
        event.set()
        late = await clock.wait_set(event, 60.0)
        await clock.pause(-1.0)
        return [early, late]

    began = clock.monotonic()
    assert asyncio.run(case()) == [False, True]
    clock.sleep(0.001)
    assert 0.01 <= clock.monotonic() - began < 60.0


def test_the_machines_clock_hears_a_condition_and_leaves_no_task_behind() -> None:
    news, ready = threading.Condition(), threading.Event()

    def notify() -> None:
        ready.wait(10)
        with news:
            news.notify_all()

    other = threading.Thread(target=notify)
    other.start()
    with news:
        ready.set()
        assert SYSTEM_CLOCK.wait(news, 30.0)
        assert not SYSTEM_CLOCK.wait(news, 0.001)
    other.join()

    async def case() -> int:
        waiting = asyncio.create_task(SYSTEM_CLOCK.wait_set(asyncio.Event(), 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(case()) == 1
