"""Tasks that run beside their program and that nobody awaits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_task(work: Coroutine[Any, Any, T], log: logging.Logger, what: str) -> asyncio.Task[T]:
    """Do work beside its program; an exception that it was not written for goes to the log, also while all ends.

    Parameters
    ----------
    log, what
        Where it is written, and what failed, as the beginning of a sentence.
    """

    def note(task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s failed in an unforeseen way", what, exc_info=error)

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(note)
    return task


def give_up(waiting: asyncio.Future[Any]) -> None:
    """Cancel what nobody waits for any more; what it raises all the same is of no use to anybody."""
    waiting.add_done_callback(_retrieve)
    waiting.cancel()


def _retrieve(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()
