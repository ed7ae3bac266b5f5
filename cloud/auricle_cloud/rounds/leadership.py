"""One of several coordinators: it takes updates in all the time, and leads the rounds while it has the lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from auricle.errors import StorageError
from auricle.packs.pack import Pack
from auricle.process.clock import SYSTEM_CLOCK
from auricle_cloud.rounds.worker import Worker
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.lease import Lease

log = logging.getLogger("auricle.cloud")


SUCCEEDS_WITHIN = 5.0
"""Seconds without a leader after which what the last one knew of who is here is still believed."""
AT_LEAST = 0.05
"""Seconds between two looks at a lease that is about to run out."""


async def work_and_lead(settings: RunSettings, pack: Pack, lead: Callable[[bool], Awaitable[None]]) -> None:
    """Take updates in beside others, and lead the rounds whenever no other does, until they are done.

    Parameters
    ----------
    settings, pack
        The run, of several coordinators.
    lead
        Runs the rounds, told whether another led until a moment ago; SupersededError where another leads by then.

    Raises
    ------
    SettingsError
        They have no PostgreSQL database.
    """
    lease = Lease(Database(settings.database or ""))
    worker = Worker(settings, pack)
    working = asyncio.create_task(worker.run())
    try:
        while not working.done():
            left = await take(lease)
            if left is None or left > 0:
                await SYSTEM_CLOCK.pause(lease.seconds / 3 if left is None else min(lease.seconds / 3, left + AT_LEAST))
                continue
            with contextlib.suppress(SupersededError):
                await keep_while(lease, partial(lead, -left < SUCCEEDS_WITHIN))
                return
            log.warning("another coordinator leads: this one goes on as a worker")
        working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        lease.close()


async def take(lease: Lease) -> float | None:
    """Take the lease where it is free.

    Returns
    -------
    float or None
        Seconds that another has it for; 0 or less where it was free and is ours, for so long; None where the database
        does not answer, or another was faster.
    """
    try:
        left = await asyncio.to_thread(lease.seconds_left)
        return left if left > 0 or await asyncio.to_thread(lease.take) else None
    except StorageError as error:
        log.warning("nobody is known to lead: %s", error)
        return None


async def keep_while(lease: Lease, lead: Callable[[], Awaitable[None]]) -> None:
    """Lead with a lease that is renewed, and give it up at the end; whatever `lead` raises."""

    async def renew() -> None:
        while True:
            await SYSTEM_CLOCK.pause(lease.seconds / 3)
            try:
                await asyncio.to_thread(lease.renew)
            except StorageError as error:  # the epoch decides who may write
                log.warning("the lease is not renewed: %s", error)

    renewing = asyncio.create_task(renew())
    try:
        await lead()
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        with contextlib.suppress(StorageError):
            await asyncio.to_thread(lease.give_up)
