"""The states of a round that only a secure sum has: `keys` and `shares` before the invitations, `revealing` after them.

As in every round each state may be done again: what devices said is in the database, and they say the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from auricle.errors import WireError
from auricle.wire.messages import Asked, Invite
from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumNeighbours
from auricle_cloud.rounds.closing import RoundAbortedError, obey
from auricle_cloud.rounds.cohort_progress import CohortProgress
from auricle_cloud.rounds.context import Pace, RoundContext
from auricle_cloud.rounds.policy import is_question_over
from auricle_cloud.rounds.secure.combining import RoundSum, open_buckets
from auricle_cloud.rounds.secure.graph import seated
from auricle_cloud.rounds.secure.opening import box_for
from auricle_cloud.rounds.secure.seats import Seats
from auricle_cloud.states.report import Document
from auricle_cloud.storage.rows import RoundRow, SumRow, UpdateRow
from auricle_learning.aggregation.next_model import NextModel, follow


def sum_in(row: RoundRow) -> SecureSum | None:
    """The secure sum of a round; None where it has none, or has not begun."""
    return (msgspec.msgpack.decode(row.plan, type=Plan).secure_sum or None) if row.plan else None


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
        noise = msgspec.msgpack.decode(row.begun.plan, type=Plan).noise
        # A bucket's sum would have the noise of its few devices, and no epsilon of the fleet view would be true of it.
        size = 0 if noise else self._site.settings.secure_sum.bucket_size

        def enter() -> None:
            with store.rounds.moving(self._task, number, "keys", "shares") as tx:
                names = {each.device for each in store.sums.rows_in(tx, self._task, number)}
                if len(names) < needed:
                    raise RoundAbortedError(
                        f"{len(names)} of {len(cohort)} devices gave keys for the secure sum: {needed} are needed"
                    )
                near = seated(names, size)
                store.sums.seat(tx, self._task, number, near)
                buckets = Seats.of(store.sums.rows_in(tx, self._task, number)).buckets
                store.sums.leave(tx, self._task, number, cohort - names, "gave no keys for the secure sum in time")
                about = {
                    "bound": told.bound,
                    "threshold": min(bucket.threshold for bucket in buckets),
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
                    threshold=seats.bucket(seat).threshold,
                    seats=tuple(seats.near[seat]),
                    boxes=tuple(other.boxes for other in near),
                    masks=tuple(other.masks for other in near),
                )
            ]

        await progress.ask_each(neighbours)
        await self._wait(number, lambda: len(seats.kept(progress.answered)) >= self._needed)
        needed = self._needed

        def enter() -> None:
            with store.rounds.moving(self._task, number, "shares", "inviting") as tx:
                rows = store.sums.rows_in(tx, self._task, number)
                shared = {each.device for each in rows if each.shares is not None}
                part = {seats.rows[seat].device for seat in seats.kept(shared)}
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
        asked = {seat for bucket in seats.legible(came, came) for seat in bucket.seats}
        progress.left = progress.cohort - {name for name in came if by_name[name] in asked}
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
        silent = {name for name in came if by_name[name] in asked} - progress.answered
        try:
            made = await asyncio.to_thread(self._opening, row, counted, silent)
        except WireError as error:
            raise RoundAbortedError(f"the secure sum cannot be read: {str(error).rstrip('.')}") from error
        left = {seats.rows[seat].device: "update" for seat in sorted(missing)}
        left |= dict.fromkeys(sorted(silent), "reveal")
        report = self._dropped(row, left, **made.report())
        await asyncio.to_thread(
            lambda: store.rounds.move(self._task, number, "revealing", "closing", report=report),
        )

    def _opening(self, row: RoundRow, counted: Sequence[UpdateRow], silent: Collection[str]) -> RoundSum:
        """The round's buckets, and the update that they make; errors as of `open_buckets`."""
        seats, get = Seats.of(self._site.store.sums.rows(self._task, row.round)), self._site.blobs.get
        body = {update.device: partial(get, update.body) for update in counted}
        return open_buckets(self._told(row), seats, body, silent, self._site.pack.plugin_table.size)

    def model(self, row: RoundRow, counted: Sequence[UpdateRow]) -> NextModel:
        """The model that the means of the buckets make; the server's optimizer follows it as in every round."""
        site, begun = self._site, row.begun
        start = site.weights(begun.base)
        dropped = ((row.report or {}).get("secure_sum") or {}).get("dropped", {})
        silent = {name for name, state in dropped.items() if state == "reveal"}
        aggregate = self._opening(row, counted, silent).aggregate(start, site.pack.plugin_table)
        state = site.optimizer_after(site.store.models.get(self._task, begun.version))
        return follow(start, aggregate, site.settings.preset.server_for(row.round, site.horizon), state)

    # -- what is known of it

    @staticmethod
    def _told(row: RoundRow) -> SecureSum:
        told = sum_in(row)
        assert told is not None
        return told

    @staticmethod
    def _dropped(row: RoundRow, more: dict[str, str], **values: object) -> Document:
        """The round's report with who else dropped out, and in which state."""
        report = row.report or {}
        about = report.get("secure_sum") or {}
        dropped = {**about.get("dropped", {}), **more}
        return {**report, "secure_sum": {**about, **values, "dropped": dropped}}
