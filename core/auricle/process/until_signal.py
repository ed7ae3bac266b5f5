"""Run something until it ends or the process is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def _nothing() -> None:
    """Do nothing."""


async def until_signal(
    work: Coroutine[Any, Any, T], on_signal: Callable[[], None] = _nothing, at_once: Callable[[], None] = _nothing
) -> T | None:
    """Await `work`; the first SIGINT or SIGTERM cancels it, a second one ends the process.

    Returns None when it was cancelled.

    Parameters
    ----------
    on_signal
        Called at the first signal.
    at_once
        Called at the second.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if asked:
            try:
                at_once()
            finally:
                os._exit(128 + number)
        asked.append(number)
        on_signal()
        task.cancel()

    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        return None


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Whoever heeded SIGINT and SIGTERM does so again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has handlers
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not set by Python, which cannot set it again
                signal.signal(number, handler)
