"""What the coordinator tells those who watch it live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from auricle_cloud.observing.announcements import WAITING_EVENTS, Announcements, Event


def in_a_loop(scene: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(scene())


async def take(stream: AsyncIterator[Event], count: int) -> list[Event]:
    return [await asyncio.wait_for(anext(stream), 10) for _ in range(count)]


@in_a_loop
async def test_everybody_who_listens_hears_everything_in_order_and_who_waits_is_woken() -> None:
    announcements = Announcements()
    announcements.tell("plan", rounds=1)
    with announcements.listening() as one, announcements.listening() as other:
        announcements.tell("state", round=1, state="inviting")
        announcements.tell("update", device="dev-a")
        expected = [Event("state", {"round": 1, "state": "inviting"}), Event("update", {"device": "dev-a"})]

        assert await take(one, 2) == await take(other, 2) == expected
        waiting = asyncio.ensure_future(anext(one))
        await asyncio.sleep(0)
        assert not waiting.done()
        announcements.tell("alarm", round=3)
        assert await asyncio.wait_for(waiting, 10) == Event("alarm", {"round": 3})


@in_a_loop
async def test_a_slow_listener_loses_its_oldest_events_and_holds_up_nobody() -> None:
    announcements = Announcements()
    with announcements.listening() as slow, announcements.listening() as quick:
        for number in range(WAITING_EVENTS + 50):
            announcements.tell("progress", step=number)
            assert (await take(quick, 1))[0].content == {"step": number}
        kept = await take(slow, WAITING_EVENTS)

    assert [event.content["step"] for event in kept] == list(range(50, WAITING_EVENTS + 50))


@in_a_loop
async def test_who_left_is_forgotten() -> None:
    announcements = Announcements()
    for _ in range(100):
        with announcements.listening():
            announcements.tell("state", round=1)
    with announcements.listening() as stream:
        announcements.tell("state", round=2)
        assert await take(stream, 1) == [Event("state", {"round": 2})]

    assert announcements._listeners == set()
