"""A synchronous round: a cohort is invited, and its answers are aggregated together (PROTOCOL section 6).

Each state has one method, which does what the state is for and moves the round to the next. All of them may be done
again: a restarted coordinator takes up the round in the state in which it finds it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from auricle.errors import AuricleError, StorageError
from auricle.wire.messages import WORSE, Invite, Loss, Measure, Plan, Status, Update
from auricle_cloud.aggregation.next_model import NextModel, next_model
from auricle_cloud.rounds.closing import GAVE_UP, Closing, Entry
from auricle_cloud.rounds.context import Pace, RoundContext
from auricle_cloud.rounds.doubts import Doubts
from auricle_cloud.rounds.poisoning import Found, Judgement
from auricle_cloud.states.round import FINISHED, TRANSITIONS, State
from auricle_cloud.states.selection import choose
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.rows import RoundChanges, RoundRow, UpdateRow

log = logging.getLogger("auricle.cloud")

NO_QUORUM = "no quorum at the deadline"


class RoundAbortedError(AuricleError):
    """The round ends here; the sentence says why."""


class WorseModelError(RoundAbortedError):
    """Most devices find the round's model worse than an earlier one; the next round begins with version `back`."""

    def __init__(self, sentence: str, back: int) -> None:
        super().__init__(sentence)
        self.back = back


class RoundFailedError(AuricleError):
    """Every device of a round failed; the sentence says what the first of them said."""


class Synchronous:
    """Runs synchronous rounds, one at a time."""

    def __init__(self, site: RoundContext, judgement: Judgement | None, closing: Closing) -> None:
        self.site, self._judgement, self._closing = site, judgement, closing
        self._task = site.task
        self._number: int | None = None
        self._state: State = "planned"
        self._cohort: set[str] = set()
        self._answered: set[str] = set()
        self._failed: set[str] = set()
        self._refused: set[str] = set()
        """Whose update was refused: a device gives one for each round, and has been told."""
        self._doubts = Doubts()
        self._message: Invite | Measure | None = None
        """What whoever is waited for was sent: the question for a loss, or the invitation."""

    # -- what devices say meanwhile

    async def on_loss(self, loss: Loss) -> None:
        """A device said its loss."""
        if loss.round == self._number and self._state == "losses":
            self._answered.add(loss.device)
            self.site.changed.set()

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """A device's update was counted, or was before."""
        if update.round == self._number and verdict.code in ("accepted", "duplicate"):
            self._answered.add(update.device)
            self.site.changed.set()

    async def note_late(self, update: Update, verdict: Verdict) -> None:
        """Note on its invitation that an update came late or was refused: nobody calls it silence, or waits for it.

        Not in an asynchronous round: there the device counts as idle once its invitation has ended, and would train at
        once for the same refusal.
        """
        if verdict.code in ("late", "closed"):
            state = "late"
        elif verdict.code.startswith("rejected:"):
            state = "refused"
        else:
            return

        def enter() -> bool:
            rounds, place = self.site.store.rounds, (update.task, update.round)
            try:
                mode = rounds.get(*place).mode
            except StorageError as error:
                if error.__cause__ is not None:
                    raise
                return False  # a round that never was
            reason = verdict.code.removeprefix("rejected:")
            return mode == "sync" and rounds.mark_failed(*place, update.device, state, reason)

        noted = await asyncio.to_thread(enter)
        if noted and state == "refused" and (update.task, update.round) == (self._task, self._number):
            self._refused.add(update.device)
            self.site.changed.set()

    async def mark_failed(self, status: Status) -> None:
        """A device failed or declined, or trains and doubts the round's model."""
        if status.round != self._number or status.device not in self._cohort:
            return
        place = (self._task, status.round, status.device)
        if status.state == "training":
            if self._doubts.hear(status.device, status.reason):
                await asyncio.to_thread(self.site.store.rounds.doubted, *place, status.reason)
                self.site.changed.set()
            return
        if await asyncio.to_thread(self.site.store.rounds.mark_failed, *place, status.state, status.reason):
            self._failed.add(status.device)
            self.site.changed.set()

    async def idle(self, device: str) -> None:
        """A device asks what is next: tell it again what it is waited for."""
        if self._message is not None and device in self._waited_for():
            await self.site.messenger.ask(self._message, [device])

    def _waited_for(self) -> set[str]:
        """Who has neither answered nor given up, and was not refused."""
        return self._cohort - self._answered - self._failed - self._refused

    # -- the round

    async def run(self, number: int) -> None:
        """Take a round from the state in which it is to its end."""
        steps: dict[str, Callable[[RoundRow], Awaitable[None]]] = {
            "planned": self._choose,
            "losses": self._measure,
            "alarm": self._repair,
            "inviting": self._invite,
            "collecting": self._collect,
            "closing": self._aggregate,
            "aggregated": self._closing.publish,
        }
        self._number, self._message, began = number, None, time.monotonic()
        self._doubts, self._failed, self._refused = Doubts(), set(), set()
        row = await self._row()
        try:
            while row.state not in FINISHED:
                await self._enter(row)
                try:
                    if (row.state, "aborted") in TRANSITIONS:
                        await self._obey()
                    await steps[row.state](row)
                except RoundAbortedError as error:
                    await self._abort(row.state, error)
                self._message = None
                row = await self._row()
                self.site.announcements.tell("state", round=number, state=row.state)
        finally:
            self._number, self._message = None, None
        await self._closing.finish(row, began)
        if row.state == "aborted" and self._cohort and self._failed >= self._cohort:
            reasons = (await asyncio.to_thread(self._closing.failures, number)).values()
            # Devices that judged the round and refused it are well, and may train better in the next one.
            if not any(reason.startswith(WORSE) for reason in reasons):
                raise RoundFailedError(f"All devices failed in round {number}: {sorted(reasons)[0]}")

    async def _row(self) -> RoundRow:
        assert self._number is not None
        return await asyncio.to_thread(self.site.store.rounds.get, self._task, self._number)

    async def _enter(self, row: RoundRow) -> None:
        """Know again who was invited, who failed, and who was refused."""
        self._state = row.state
        invited = await asyncio.to_thread(self.site.store.rounds.invited, self._task, row.round)
        self._cohort = set(invited)
        self._failed |= {name for name, entry in invited.items() if entry.state in GAVE_UP}
        self._refused |= {name for name, entry in invited.items() if entry.state == "refused"}
        self._doubts.restore(invited)
        self._answered = set()

    async def _obey(self) -> None:
        """Do what an operator asked."""
        assert self._number is not None
        if await asyncio.to_thread(self.site.store.rounds.request_for, self._task, self._number) == "abort":
            raise RoundAbortedError("aborted by an operator")

    async def _abort(self, state: State, error: RoundAbortedError) -> None:
        number, rounds, models, reason = self._number, self.site.store.rounds, self.site.store.models, str(error)
        assert number is not None
        back = error.back if isinstance(error, WorseModelError) else None
        said = {"reason": reason, "doubts": self._doubts.reported(), "went_back": back}
        report = await asyncio.to_thread(self._closing.report, number, said)

        def commit() -> None:
            with rounds.moving(self._task, number, state, "aborted", report=report) as tx:
                if back is not None:
                    models.go_back(tx, self._task, back, number, reason)

        await asyncio.to_thread(commit)
        await self.site.messenger.call_off(number, sorted(self._cohort - self._answered), reason)
        if back is not None:
            self.site.warn(f"round {number}: {reason}")
            await self._closing.send_outgoing()

    async def _heed_doubts(self, row: RoundRow) -> None:
        """Give the round up where most of its devices find its model worse, if the round before made that model.

        Raises
        ------
        WorseModelError
            The next round begins with the model before it.
        """
        if not self._doubts.prevail(self._cohort):
            return
        version = row.begun.version
        back = await asyncio.to_thread(self.site.store.models.before, self._task, version)
        if back is None:
            self.site.warn(f"most devices find version {version} of the model worse than one that they had before")
            return
        raise WorseModelError(self._doubts.sentence(self._cohort, version, back), back)

    async def _choose(self, row: RoundRow) -> None:
        """Wait until somebody can be invited, and choose the cohort."""
        site, settings, number = self.site, self.site.settings, row.round
        while not await site.all_heard():  # or a round after a restart would be of those that answer first
            await self._obey()
            await site.wait_change()
        fit, others = await asyncio.to_thread(site.eligible)
        while not fit:
            site.warn("no device can be invited: waiting")
            await self._obey()
            await site.wait_change()
            fit, others = await asyncio.to_thread(site.eligible)
        wanted = max(1, round(settings.participation * len(fit)))
        size = min(len(fit), math.ceil(wanted * settings.over_selection - 1e-9))
        chosen = choose(fit, size, f"{settings.seed}/{number}")
        plan = settings.preset.plan_for(number, site.horizon, settings.seed)
        current = await asyncio.to_thread(site.store.models.current, self._task)
        values: RoundChanges = {
            "opened": time.time(),
            "base_version": current.version,
            "base": current.blob,
            "plan": msgspec.msgpack.encode(plan),
            "report": {"passed_over": others, "wanted": wanted},
        }
        new: State = "losses" if settings.detection is not None and not settings.detection.one_phase else "inviting"

        def enter() -> None:
            with site.store.rounds.moving(self._task, number, "planned", new, **values) as tx:
                site.store.rounds.invite(tx, self._task, number, chosen)

        await asyncio.to_thread(enter)

    # -- two-phase rounds

    async def _measure(self, row: RoundRow) -> None:
        """Ask for the losses of the model, and compare them with those of the round before."""
        assert self._judgement is not None
        site, number, rounds = self.site, row.round, self.site.store.rounds
        known = await asyncio.to_thread(rounds.losses, self._task, number, row.begun.base)
        self._answered = set(known)
        self._message = site.messenger.question(number, row.begun.base)
        await site.messenger.ask(self._message, sorted(self._waited_for()))
        assert site.settings.detection is not None
        until = time.monotonic() + min(site.settings.detection.wait, site.settings.deadline)
        pace = Pace()
        while time.monotonic() < until and (waited := self._waited_for()):
            if pace.due:
                await self._obey()
                if not waited & await pace.look(site.store.devices.not_gone):
                    break
            await site.wait_change(min(1.0, until - time.monotonic()))
        new, detection = await asyncio.to_thread(self._judgement.compare, row)
        site.warn(detection.get("warning"))
        judgement, whole = self._judgement, {**(row.detection or {}), **detection}

        def enter() -> None:
            with rounds.moving(self._task, number, "losses", new, detection=whole) as tx:
                judgement.note_set_aside(tx, number, detection)

        await asyncio.to_thread(enter)
        if new == "alarm":
            self._alarm(number, detection["sentence"])

    def _alarm(self, number: int, sentence: str) -> None:
        self.site.metrics.alarm()
        self._warn(number, sentence)

    def _warn(self, number: int, sentence: str) -> None:
        log.warning("round %d: %s", number, sentence)
        self.site.announcements.tell("alarm", round=number, sentence=sentence)

    async def _repair(self, row: RoundRow) -> None:
        """Find who poisoned the model, and go on from a repaired one."""
        assert self._judgement is not None
        found = await self._judgement.find(row.round, row.begun.version)
        await asyncio.to_thread(self._judgement.settle, row, found)
        self._warn(row.round, found.sentence)

    # -- training

    async def _invite(self, row: RoundRow) -> None:
        await self._call(row)
        await asyncio.to_thread(self.site.store.rounds.move, self._task, row.round, "inviting", "collecting")

    async def _call(self, row: RoundRow) -> None:
        """Invite whoever has not answered; again after a restart."""
        plan = msgspec.msgpack.decode(row.begun.plan, type=Plan)
        self._answered |= await asyncio.to_thread(self.site.store.updates.sent_for, self._task, row.round)
        self._message = self.site.messenger.invitation(row.round, row.begun.base, plan, self.site.settings.deadline)
        await self.site.messenger.ask(self._message, sorted(self._waited_for()))

    async def _collect(self, row: RoundRow) -> None:
        await self._call(row)
        await self._wait_for_updates(row)
        await asyncio.to_thread(self.site.store.rounds.move, self._task, row.round, "collecting", "closing")

    async def _wait_for_updates(self, row: RoundRow) -> None:
        """Wait until everybody has answered, or enough have and patience is over.

        Raises
        ------
        RoundAbortedError
            There is no quorum at the deadline, most devices find the model worse, or an operator aborts.
        """
        site, settings = self.site, self.site.settings
        began, reached = time.monotonic(), None
        quorum = max(1, math.ceil(settings.quorum * len(self._cohort) - 1e-9))
        wanted = (row.report or {}).get("wanted", len(self._cohort))
        pace, online = Pace(), self._cohort
        while True:
            await self._heed_doubts(row)
            if pace.due:
                await self._obey()
                online = await pace.look(site.store.devices.not_gone)
            now = time.monotonic()
            waited = self._waited_for()
            if len(self._answered) >= max(quorum, wanted):
                return
            if len(self._answered) >= quorum:
                reached = now if reached is None else reached
                patience = max(settings.least_wait, settings.patience * (reached - began))
                until = min(began + settings.deadline, reached + patience)
                if now >= until or not waited & online:
                    return
            else:
                until = began + settings.deadline
                if now >= until or not waited:
                    raise RoundAbortedError(NO_QUORUM)
            await site.wait_change(min(until - now, 1.0))

    async def _aggregate(self, row: RoundRow) -> None:
        """Make the model; model, report, outbox and the round's state change in one transaction."""
        site, number = self.site, row.round
        counted = await asyncio.to_thread(site.store.updates.counted, self._task, number)
        changes, found, before = await self._judge_in_passing(row, counted)

        def work() -> NextModel:
            if found is not None and found.weights is not None:
                state = site.optimizer_of(found.optimizer)
            else:
                state = site.optimizer_after(site.store.models.get(self._task, row.begun.version))
            cohort = site.cohort(replace(row, **changes), counted)
            return next_model(cohort, site.rule, site.settings.preset.server_for(number, site.horizon), state)

        await self._closing.enter(row, counted, await asyncio.to_thread(work), changes=changes, before=before)
        if found is not None:
            self._warn(number, found.sentence)

    async def _judge_in_passing(
        self, row: RoundRow, counted: list[UpdateRow]
    ) -> tuple[RoundChanges, Found | None, Entry | None]:
        """One-phase rounds: compare losses, find and repair now; the round's changes, and what is entered with them."""
        settings, number = self.site.settings.detection, row.round
        if self._judgement is None or settings is None or not settings.one_phase or row.detection:
            return {}, None, None
        detection, found = await self._judgement.in_passing(row, counted)
        self.site.warn(detection.get("warning"))
        judgement = self._judgement
        if found is None:
            return {"detection": detection}, None, lambda tx: judgement.note_set_aside(tx, number, detection)
        self._alarm(number, detection["sentence"])
        if found.weights is not None:
            detection["trained_from"] = row.begun.base
        values, settle = await asyncio.to_thread(judgement.settling, number, found, detection)

        def enter(tx: sa.Connection) -> None:
            judgement.note_set_aside(tx, number, detection)
            settle(tx)

        return values, found, enter
