"""The states of a round that only a secure sum has: `keys` and `shares` before the invitations, `revealing` after them.

As in every round each state may be done again: what devices said is in the database, and they say the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from auricle.errors import WireError
from auricle.wire.messages import Asked, Invite
from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumNeighbours
from auricle.wire.secure_sum.quantised import Words, sum_of
from auricle_cloud.rounds.closing import RoundAbortedError, obey
from auricle_cloud.rounds.cohort_progress import CohortProgress
from auricle_cloud.rounds.context import Pace, RoundContext
from auricle_cloud.rounds.policy import is_question_over
from auricle_cloud.rounds.secure.graph import readable, remaining, seated, threshold_among
from auricle_cloud.rounds.secure.opening import box_for, mean_of, total_of
from auricle_cloud.states.report import Document
from auricle_cloud.storage.rows import RoundRow, SumRow, UpdateRow
from auricle_learning.aggregation.next_model import NextModel, follow


def sum_in(row: RoundRow) -> SecureSum | None:
    """The secure sum of a round; None where it has none, or has not begun."""
    return (msgspec.msgpack.decode(row.plan, type=Plan).secure_sum or None) if row.plan else None


@dataclass(frozen=True)
class Seats:
    """Devices of one sum, by their seats."""

    rows: dict[int, SumRow]
    near: dict[int, list[int]]
    threshold: int

    @classmethod
    def of(cls, rows: Sequence[SumRow]) -> Seats:
        """Those that have a seat."""
        found = {row.seat: row for row in rows if row.seat is not None}
        near = {seat: row.near or [] for seat, row in found.items()}
        return cls(found, near, threshold_among(near) if near else FEWEST_DEVICES)

    def named(self, names: set[str] | frozenset[str]) -> set[int]:
        """Seats of these devices."""
        return {seat for seat, row in self.rows.items() if row.device in names}

    @property
    def part(self) -> set[int]:
        """Those that others mask with."""
        return {seat for seat, row in self.rows.items() if row.part}

    def readable(self, came: set[str], said: set[str]) -> bool:
        """Whether the sum of those that came can be read with the shares of those that revealed theirs."""
        return readable(self.near, self.part, self.named(came) & self.part, self.named(said), self.threshold)


class SecureRounds:
    """Takes rounds with a secure sum through their own states.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    progress
        Who of the cohort has answered.
    """

    def __init__(self, site: RoundContext, progress: CohortProgress) -> None:
        self._site, self._progress, self._task = site, progress, site.task

    @property
    def _needed(self) -> int:
        """Devices without which there is no model."""
        return self._progress.quorum(self._site.settings.quorum, FEWEST_DEVICES)

    async def _rows(self, number: int) -> list[SumRow]:
        return await asyncio.to_thread(self._site.store.sums.rows, self._task, number)

    async def _wait(self, number: int, is_enough: Callable[[], bool]) -> None:
        """Wait for all who are asked; past `wait` seconds, or where the others are gone, only until it is enough."""
        site, progress = self._site, self._progress
        settings, began, pace = site.settings, site.clock.monotonic(), Pace(site.clock, site.stirred)
        until, last = began + settings.secure_sum.wait, began + settings.deadline
        online = progress.cohort
        while waited := progress.waited_for():
            if pace.due:
                await obey(site, number)
                online = await pace.look(site.store.devices.not_gone)
            now = site.clock.monotonic()
            if is_question_over(waited, online, enough=is_enough(), now=now, until=until, last=last):
                return
            await site.wait_change(min(1.0, last - now))

    # -- before the invitations

    async def gather_keys(self, row: RoundRow) -> None:
        """Ask for keys; draw who shares secrets with whom among those that gave theirs."""
        number, told, progress = row.round, self._told(row), self._progress
        progress.answered = {each.device for each in await self._rows(number)}
        asking = self._site.messenger.asking
        await progress.ask_each(lambda device: [JoinSum(**asking(device, number), sum=told.id)])
        await self._wait(number, lambda: len(progress.answered) >= self._needed)
        store, needed, cohort = self._site.store, self._needed, frozenset(progress.cohort)

        def enter() -> None:
            with store.rounds.moving(self._task, number, "keys", "shares") as tx:
                names = {each.device for each in store.sums.rows_in(tx, self._task, number)}
                if len(names) < needed:
                    raise RoundAbortedError(
                        f"{len(names)} of {len(cohort)} devices gave keys for the secure sum: {needed} are needed"
                    )
                near = seated(names)
                store.sums.seat(tx, self._task, number, near)
                store.sums.leave(tx, self._task, number, cohort - names, "gave no keys for the secure sum in time")
                about = {
                    "bound": told.bound,
                    "threshold": threshold_among(dict(near.values())),
                    "neighbours": min(len(others) for _, others in near.values()),
                    "dropped": dict.fromkeys(sorted(cohort - names), "keys"),
                }
                store.rounds.note_report(tx, self._task, number, {**(row.report or {}), "secure_sum": about})

        await asyncio.to_thread(enter)

    async def gather_shares(self, row: RoundRow) -> None:
        """Have each device share its secrets; who did with too few others is no part of the sum."""
        number, told, progress, store = row.round, self._told(row), self._progress, self._site.store
        seats = Seats.of(await self._rows(number))
        by_name = {each.device: seat for seat, each in seats.rows.items()}
        progress.left = progress.cohort - by_name.keys()
        progress.answered = {each.device for each in seats.rows.values() if each.shares is not None}
        asking = self._site.messenger.asking

        def neighbours(device: str) -> list[Asked]:
            seat = by_name[device]
            near = [seats.rows[other] for other in seats.near[seat]]
            return [
                SumNeighbours(
                    **asking(device, number),
                    sum=told.id,
                    seat=seat,
                    threshold=seats.threshold,
                    seats=tuple(seats.near[seat]),
                    boxes=tuple(other.boxes for other in near),
                    masks=tuple(other.masks for other in near),
                )
            ]

        def kept(shared: set[str]) -> set[int]:
            return remaining(seats.near, seats.named(shared), seats.threshold)

        await progress.ask_each(neighbours)
        await self._wait(number, lambda: len(kept(progress.answered)) >= self._needed)
        needed = self._needed

        def enter() -> None:
            with store.rounds.moving(self._task, number, "shares", "inviting") as tx:
                rows = store.sums.rows_in(tx, self._task, number)
                shared = {each.device for each in rows if each.shares is not None}
                part = {seats.rows[seat].device for seat in kept(shared)}
                if len(part) < needed:
                    raise RoundAbortedError(
                        f"{len(shared)} of {len(by_name)} devices shared secrets for the secure sum, {len(part)} of "
                        f"them with enough others: {needed} are needed"
                    )
                store.sums.admit(tx, self._task, number, part)
                silent, lonely = by_name.keys() - shared, shared - part
                store.sums.leave(tx, self._task, number, silent, "shared no secrets for the secure sum in time")
                store.sums.leave(tx, self._task, number, lonely, "too few of its neighbours shared secrets")
                left = dict.fromkeys(sorted(silent | lonely), "shares")
                store.rounds.note_report(tx, self._task, number, self._dropped(row, left))

        await asyncio.to_thread(enter)

    # -- with the invitations

    async def invite(self, row: RoundRow, invitation: Invite) -> None:
        """Send each device of the sum what its neighbours sealed for it, then its invitation; again after a restart."""
        number, told = row.round, self._told(row)
        seats = Seats.of(await self._rows(number))
        part = seats.part
        by_name = {seats.rows[seat].device: seat for seat in part}
        self._progress.left = self._progress.cohort - by_name.keys()
        asking = self._site.messenger.asking

        def both(device: str) -> list[Asked]:
            seat = by_name[device]
            others = [other for other in seats.near[seat] if other in part]
            boxes = tuple(box_for(seats.rows[other], seat) for other in others)
            sealed = SumBoxes(**asking(device, number), sum=told.id, seats=tuple(others), boxes=boxes)
            return [sealed, msgspec.structs.replace(invitation, device=device)]

        await self._progress.ask_each(both, invites=True)

    async def is_enough(self, row: RoundRow) -> Callable[[set[str]], bool]:
        """Says whether the sum of those that answered could be read, if all of them reveal their shares."""
        if sum_in(row) is None:
            return lambda _: True
        seats = Seats.of(await self._rows(row.round))
        return lambda answered: seats.readable(answered, answered)

    # -- after them

    async def reveal(self, row: RoundRow) -> None:
        """Ask those whose update came for shares, once: who came is settled from here on."""
        number, told, progress, store = row.round, self._told(row), self._progress, self._site.store
        seats = Seats.of(await self._rows(number))
        counted = await asyncio.to_thread(store.updates.counted, self._task, number)
        came = {update.device for update in counted}
        here, missing = seats.named(came), seats.part - seats.named(came)
        by_name = {each.device: seat for seat, each in seats.rows.items()}
        progress.left = progress.cohort - came
        progress.failed -= came
        progress.answered = {each.device for each in seats.rows.values() if each.own is not None}
        asking = self._site.messenger.asking

        def question(device: str) -> list[Asked]:
            near = seats.near[by_name[device]]
            came_near, missing_near = (tuple(s for s in near if s in among) for among in (here, missing))
            return [RevealSum(**asking(device, number), sum=told.id, came=came_near, missing=missing_near)]

        await progress.ask_each(question)
        await self._wait(number, lambda: seats.readable(came, progress.answered))
        if not seats.readable(came, progress.answered):
            raise RoundAbortedError(
                f"{len(progress.answered)} of {len(came)} devices revealed shares of the secure sum: too few to read it"
            )
        try:
            await asyncio.to_thread(self._total, row, counted)
        except WireError as error:
            raise RoundAbortedError(f"the secure sum cannot be read: {str(error).rstrip('.')}") from error
        left = {seats.rows[seat].device: "update" for seat in sorted(missing)}
        left |= dict.fromkeys(sorted(came - progress.answered), "reveal")
        report = self._dropped(row, left, devices=len(came))
        await asyncio.to_thread(
            lambda: store.rounds.move(self._task, number, "revealing", "closing", report=report),
        )

    def _total(self, row: RoundRow, counted: Sequence[UpdateRow]) -> Words:
        """The sum of what came; WireError where the shares do not give it, or it is no sum of so many updates."""
        told, size = self._told(row), self._site.pack.plugin_table.size
        seats = Seats.of(self._site.store.sums.rows(self._task, row.round))
        bodies = {update.device: self._site.blobs.get(update.body) for update in counted}
        part = [seats.rows[seat] for seat in sorted(seats.part)]
        total = total_of(told.id, part, seats.threshold, bodies, size)
        sum_of(total, len(counted), told.bound)
        return total

    def model(self, row: RoundRow, counted: Sequence[UpdateRow]) -> NextModel:
        """The model that the mean of the updates makes; the server's optimizer follows it as in every round."""
        site, begun = self._site, row.begun
        start = site.weights(begun.base)
        moved = sum_of(self._total(row, counted), len(counted), self._told(row).bound)
        aggregate = mean_of(start, moved, [update.device for update in counted], site.pack.plugin_table)
        state = site.optimizer_after(site.store.models.get(self._task, begun.version))
        return follow(start, aggregate, site.settings.preset.server_for(row.round, site.horizon), state)

    # -- what is known of it

    @staticmethod
    def _told(row: RoundRow) -> SecureSum:
        told = sum_in(row)
        assert told is not None
        return told

    @staticmethod
    def _dropped(row: RoundRow, more: dict[str, str], **values: int) -> Document:
        """The round's report with who else dropped out, and in which state."""
        report = row.report or {}
        about = report.get("secure_sum") or {}
        dropped = {**about.get("dropped", {}), **more}
        return {**report, "secure_sum": {**about, **values, "dropped": dropped}}
