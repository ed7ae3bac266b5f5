"""An exception that nobody awaits is told where it is of use, and never by the interpreter as it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.tasks import give_up, start_task

log = logging.getLogger("auricle.test")


def complaints(of: Coroutine[Any, Any, None]) -> list[str]:
    """What the event loop says of exceptions that nobody retrieved, once this has been done."""
    said: list[str] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["message"])))
        await of
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(run())
    return said


async def fails() -> None:
    raise ValueError("unforeseen")


async def stubborn() -> None:
    """Fails as it is cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ValueError("unforeseen") from None


def test_a_task_that_nobody_awaits_says_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def begin() -> None:
        start_task(fails(), log, "The work")
        await asyncio.sleep(0)

    assert complaints(begin()) == []
    assert "The work failed in an unforeseen way" in caplog.text and "ValueError: unforeseen" in caplog.text


def test_what_is_given_up_may_fail() -> None:
    async def begin() -> None:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ValueError("it had ended"))
        give_up(future)
        give_up(asyncio.ensure_future(stubborn()))
        await asyncio.sleep(0)

    assert complaints(begin()) == []


@pytest.mark.parametrize("ends", ["time", "caller"])
def test_what_is_waited_for_no_more_may_fail(ends: str) -> None:
    async def begin() -> None:
        waiting = asyncio.ensure_future(within(stubborn(), 0.0 if ends == "time" else None))
        await asyncio.sleep(0)
        if ends == "caller":
            waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0)

    assert complaints(begin()) == []
