"""Waiting for at most so many seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """Return the result, or cancel and raise `asyncio.TimeoutError` after this many seconds (None: never).

    Unlike `asyncio.wait_for` before Python 3.12 it never swallows a cancellation that comes together with the result: a
    link that is stopped while the broker refuses it would otherwise go on connecting for ever.
    """
    waiting = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait([waiting], timeout=seconds)
    except asyncio.CancelledError:
        if not waiting.cancel() and not waiting.cancelled():
            waiting.exception()  # seen: nobody else will ask
        raise
    if not waiting.done():
        waiting.cancel()
        raise asyncio.TimeoutError
    return waiting.result()
