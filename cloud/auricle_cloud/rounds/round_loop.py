"""One round after the other: whichever is due, in the mode that it was planned with."""

from __future__ import annotations

import asyncio
import logging

from auricle.errors import AuricleError, StorageError
from auricle_cloud.rounds.asynchronous import Asynchronous
from auricle_cloud.rounds.closing import RoundFailedError
from auricle_cloud.rounds.cohort_progress import CohortProgress
from auricle_cloud.rounds.context import POLL, RoundContext
from auricle_cloud.rounds.synchronous import Synchronous
from auricle_cloud.storage.database_errors import SupersededError

log = logging.getLogger("auricle.cloud")


class RoundLoop:
    """Runs the rounds of a task.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    synchronous, asynchronous
        Run a round of their mode.
    """

    def __init__(self, site: RoundContext, synchronous: Synchronous, asynchronous: Asynchronous) -> None:
        self._site, self._synchronous, self._asynchronous = site, synchronous, asynchronous
        self.progress = synchronous.progress
        self.current: CohortProgress | Asynchronous | None = None
        """Heeds what devices say to the round that is under way."""

    async def run(self) -> None:
        """Run all rounds that are due, then leave; where their number is not set, wait for more for ever.

        Raises
        ------
        AuricleError
            None of the devices that the run was promised came, or came with its pack.
        RoundFailedError
            All devices of a round failed, and the number of rounds is set.
        SupersededError
            Another coordinator has taken over.
        """
        settings, rounds = self._site.settings, self._site.store.rounds
        await self._gather()
        while True:
            try:
                row = await asyncio.to_thread(rounds.due, settings.task)
            except SupersededError:
                raise
            except StorageError as error:  # as within a round: it comes back, and nothing is lost meanwhile
                log.error("rounds wait: %s", error)
                await self._site.clock.pause(POLL)
                continue
            if row is not None:
                is_async = row.mode == "async"
                self.current = self._asynchronous if is_async else self.progress
                await self._go_on(self._asynchronous if is_async else self._synchronous, row.round)
                continue
            self.current = None
            if settings.rounds is not None:
                return
            await self._site.wait_change()

    async def _go_on(self, runner: Synchronous | Asynchronous, number: int) -> None:
        """Run a round; where the database or the disk refuses, wait: whatever was not committed is done again."""
        try:
            await runner.run(number)
        except SupersededError:
            raise
        except StorageError as error:
            log.error("round %d waits: %s", number, error)
            await self._site.clock.pause(POLL)
        except RoundFailedError as error:
            if self._site.settings.rounds is not None:
                raise
            log.error("%s", error)  # operators see it and decide: a service goes on

    async def _gather(self) -> None:
        """Wait for the devices the run was promised, where it begins: one that goes on waits for nobody."""
        site, settings = self._site, self._site.settings
        if settings.rounds is None or await asyncio.to_thread(self._goes_on):
            return
        until = site.clock.monotonic() + settings.gather
        fit, _ = await asyncio.to_thread(site.eligible)
        while len(fit) < settings.devices and site.clock.monotonic() < until:
            await site.wait_change(min(POLL, until - site.clock.monotonic()))
            fit, _ = await asyncio.to_thread(site.eligible)
        known = await asyncio.to_thread(site.store.devices.all)
        if not known:
            raise AuricleError("No device registered: check that agents run, and that they name this broker and fleet.")
        own = site.pack.identity
        if all(row.pack != own for row in known):
            said = f"{known[0].device} has {known[0].pack[:12]}"
            raise AuricleError(f"No device registered with the pack {own[:12]}: {said}. Start both with one pack.")

    def _goes_on(self) -> bool:
        """Whether a round is under way, or another coordinator has led rounds before this one of several."""
        settings, rounds = self._site.settings, self._site.store.rounds
        due = rounds.due(settings.task)
        is_under_way = due is not None and due.state != "planned"
        return is_under_way or (settings.worker is not None and rounds.newest(settings.task) is not None)
