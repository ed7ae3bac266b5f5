"""Asynchronous rounds with a buffer (FedBuff, Nguyen et al. 2022, https://arxiv.org/abs/2106.06639).

A round is a buffer that fills: every device that is idle is invited to the open round, its update counts whenever it
comes, less the more models were made meanwhile, and once enough are in, the next model is made of them. Nobody is
waited for.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache

import msgspec

from auricle.wire.messages import Status, Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.closing import Closing, RoundAbortedError
from auricle_cloud.rounds.context import Pace, RoundContext
from auricle_cloud.rounds.policy import idle_devices, is_buffer_full, is_late, oldest_counting
from auricle_cloud.states.round import FINISHED
from auricle_cloud.states.selection import unfit
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.rows import RoundChanges, RoundRow
from auricle_learning.aggregation.next_model import NextModel, next_model


class Asynchronous:
    """Runs buffered rounds, one after the other."""

    def __init__(self, site: RoundContext, closing: Closing) -> None:
        self.site, self._closing, self._task = site, closing, site.task
        self._row: RoundRow | None = None
        self._plan: Plan | None = None

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted: its device is idle again."""
        if verdict.counts or verdict.code == "duplicate":
            self.site.changed.set()

    async def mark_failed(self, status: Status) -> None:
        """A device failed or declined: it is asked again in the next round."""
        if status.state == "training":
            return
        place = (self._task, status.round, status.device)
        await asyncio.to_thread(self.site.store.rounds.mark_failed, *place, status.state, status.reason)

    async def idle(self, device: str) -> None:
        """A device has nothing to do: invite it to the open round, unless it has answered this invitation."""
        row, plan = self._row, self._plan
        if row is None or plan is None or row.state != "collecting":
            return
        known = await asyncio.to_thread(self.site.store.devices.get, device)
        resting = await asyncio.to_thread(self.site.store.rounds.resting, self._task)
        if unfit(known, self.site.pack.identity) is None and device not in resting:
            await self._invite(row, plan, [device])

    async def run(self, number: int) -> None:
        """Take a round from the state in which it is to its end."""
        began = self.site.clock.monotonic()
        row = await self._read(number)
        try:
            while row.state not in FINISHED:
                self._row = row
                if row.request == "abort" and row.state in ("planned", "collecting"):
                    await self._abort(row, "aborted by an operator")
                else:
                    try:
                        await self._step(row)
                    except RoundAbortedError as error:
                        await self._abort(row, str(error))
                row = await self._read(number)
                self.site.announcements.tell("state", round=number, state=row.state)
        finally:
            self._row = self._plan = None
        await self._closing.finish(row, began)

    async def _step(self, row: RoundRow) -> None:
        move, number = self.site.store.rounds.move, row.round
        match row.state:
            case "planned":
                await asyncio.to_thread(self._open, row)
            case "inviting":
                await asyncio.to_thread(move, self._task, number, "inviting", "collecting")
            case "collecting":
                if await self._fill(row):
                    await asyncio.to_thread(move, self._task, number, "collecting", "closing")
            case "closing":
                await self._aggregate(row)
            case _:
                await self._closing.publish(row)

    async def _read(self, number: int) -> RoundRow:
        return await asyncio.to_thread(self.site.store.rounds.get, self._task, number)

    async def _abort(self, row: RoundRow, reason: str) -> None:
        """End a round before its model is made, and tell those that still work for it why."""
        number = row.round
        report = await asyncio.to_thread(self._closing.report, number, {"reason": reason})
        await asyncio.to_thread(
            lambda: self.site.store.rounds.move(self._task, number, row.state, "aborted", report=report)
        )
        working = await asyncio.to_thread(self.site.store.updates.unanswered, self._task, number, number)
        await self.site.messenger.call_off(number, sorted(working), reason)

    def _open(self, row: RoundRow) -> None:
        site = self.site
        current = site.store.models.current(self._task)
        plan = site.settings.preset.plan_for(row.round, site.horizon, site.settings.seed)
        values: RoundChanges = {
            "opened": site.clock.now(),
            "base_version": current.version,
            "base": current.blob,
            "plan": msgspec.msgpack.encode(plan),
        }
        site.store.rounds.move(self._task, row.round, "planned", "inviting", **values)

    async def _fill(self, row: RoundRow) -> bool:
        """Invite every idle device until the buffer is full, nobody is left who could add to it, or its time is over.

        False: something else is to be done about the round.
        """
        site, number, updates = self.site, row.round, self.site.store.updates
        size = site.settings.buffer.size
        self._plan = msgspec.msgpack.decode(row.begun.plan, type=Plan)
        began, pace = site.clock.monotonic(), Pace(site.clock)
        while True:
            count = await asyncio.to_thread(updates.how_many, self._task, number)
            late = is_late(began, site.clock.monotonic(), site.settings.deadline)
            if is_buffer_full(count, size, is_late=late):
                return True
            if pace.due:
                if await asyncio.to_thread(site.store.rounds.request_for, self._task, number):
                    return False
                idle, left = await pace.look(lambda: self._look(number))
                if is_buffer_full(count, size, is_nobody_left=not left) and await site.all_heard():
                    return True
                await self._invite(row, self._plan, sorted(idle))
            await site.wait_change()

    def _look(self, number: int) -> tuple[set[str], set[str]]:
        """Who is idle, and who could still add to the round: those and the ones at work."""
        site = self.site
        fit, _ = site.eligible()
        answered = site.store.updates.sent_for(self._task, number)
        oldest = oldest_counting(number, site.settings.buffer.stale_limit)
        working = site.store.updates.unanswered(self._task, oldest, number)
        return idle_devices({entry.device for entry in fit}, answered, working)

    async def _invite(self, row: RoundRow, plan: Plan, names: list[str]) -> None:
        site, number = self.site, row.round
        answered = await asyncio.to_thread(site.store.updates.sent_for, self._task, number)
        chosen = [name for name in names if name not in answered]
        for name in chosen:
            await asyncio.to_thread(site.store.rounds.invite_late, self._task, number, name)
        invitation = site.messenger.invitation(number, row.begun.base, plan, site.settings.deadline)
        await site.messenger.tell(await site.for_each(invitation, chosen), chosen)

    async def _aggregate(self, row: RoundRow) -> None:
        site, number = self.site, row.round
        counted = await asyncio.to_thread(site.store.updates.counted, self._task, number)

        @lru_cache(maxsize=8)
        def base_of(invited_to: int) -> Flat:
            return site.weights(site.store.rounds.get(self._task, invited_to).begun.base)

        def work() -> NextModel:
            current = site.store.models.get(self._task, row.begun.version)
            state = site.optimizer_after(current)
            start = site.weights(current.blob)
            ordered = sorted(counted, key=lambda entry: (entry.device, entry.round))
            cohort = site.read(start, ordered, base_of, site.extras(row))
            return next_model(cohort, site.rule, site.settings.preset.server_for(number, site.horizon), state)

        await self._closing.enter(row, counted, work)
