"""What the coordinator tells those who watch it live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from auricle_cloud.observing.announcements import WAITING, Announcements, Event


async def take(stream: AsyncIterator[Event], count: int) -> list[Event]:
    return [await asyncio.wait_for(anext(stream), 10) for _ in range(count)]


def test_everybody_who_listens_hears_everything_in_order() -> None:
    async def scene() -> None:
        announcements = Announcements()
        announcements.tell("plan", rounds=1)
        with announcements.listening() as one, announcements.listening() as other:
            announcements.tell("state", round=1, state="inviting")
            announcements.tell("update", device="dev-a")
            expected = [Event("state", {"round": 1, "state": "inviting"}), Event("update", {"device": "dev-a"})]

            assert await take(one, 2) == expected
            assert await take(other, 2) == expected

    asyncio.run(scene())


def test_a_listener_that_waits_is_woken() -> None:
    async def scene() -> None:
        announcements = Announcements()
        with announcements.listening() as stream:
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            assert not waiting.done()
            announcements.tell("alarm", round=3)

            assert await asyncio.wait_for(waiting, 10) == Event("alarm", {"round": 3})

    asyncio.run(scene())


def test_a_slow_listener_loses_its_oldest_events_and_holds_up_nobody() -> None:
    async def scene() -> None:
        announcements = Announcements()
        with announcements.listening() as slow, announcements.listening() as quick:
            for number in range(WAITING + 50):
                announcements.tell("progress", step=number)
                assert (await take(quick, 1))[0].content == {"step": number}
            kept = await take(slow, WAITING)

        assert [event.content["step"] for event in kept] == list(range(50, WAITING + 50))

    asyncio.run(scene())


def test_who_left_is_forgotten() -> None:
    async def scene() -> None:
        announcements = Announcements()
        for _ in range(100):
            with announcements.listening():
                announcements.tell("state", round=1)
        with announcements.listening() as stream:
            announcements.tell("state", round=2)
            assert await take(stream, 1) == [Event("state", {"round": 2})]

        assert announcements._listeners == set()

    asyncio.run(scene())
