"""A synchronous round: a cohort is invited, and its answers are aggregated together (PROTOCOL section 6).

Each state has one method, which does what the state is for and moves the round to the next. All of them may be done
again: a restarted coordinator takes up the round in the state in which it finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from auricle.wire.plan import Plan
from auricle_cloud.rounds.closing import Closing, Entry, RoundAbortedError, RoundFailedError, WorseModelError, obey
from auricle_cloud.rounds.cohort_choice import choose_cohort, fewest
from auricle_cloud.rounds.cohort_progress import CohortProgress
from auricle_cloud.rounds.context import Pace, RoundContext
from auricle_cloud.rounds.inquiry import Found, with_seconds, without_comparison
from auricle_cloud.rounds.personal import keep_lent, lend, own_bases, starts_of
from auricle_cloud.rounds.poisoning import Judgement
from auricle_cloud.rounds.policy import (
    Timing,
    closing_decision,
    first_state,
    is_question_over,
    total_failure,
)
from auricle_cloud.rounds.rule_events import note_broken, note_slow
from auricle_cloud.rounds.secure.phases import SecureRounds, sum_in
from auricle_cloud.states.attendance import rounds_back, slow_devices
from auricle_cloud.states.round import FINISHED, TRANSITIONS, State
from auricle_cloud.storage.rows import RoundChanges, RoundRow, UpdateRow
from auricle_learning.aggregation.next_model import NextModel, next_model

log = logging.getLogger("auricle.cloud")

COUNTED_SECONDS = 0.5
"""Seconds between two looks at what other coordinators have counted."""


class Synchronous:
    """Runs synchronous rounds, one at a time."""

    def __init__(self, site: RoundContext, judgement: Judgement | None, closing: Closing) -> None:
        self.site, self._judgement, self._closing = site, judgement, closing
        self._task = site.task
        self.progress = CohortProgress(site)
        self._secure = SecureRounds(site, self.progress)

    async def run(self, number: int) -> None:
        """Take a round from the state in which it is to its end."""
        steps: dict[str, Callable[[RoundRow], Awaitable[None]]] = {
            "planned": self._choose,
            "losses": self._measure,
            "alarm": self._repair,
            "keys": self._secure.gather_keys,
            "shares": self._secure.gather_shares,
            "inviting": self._invite,
            "collecting": self._collect,
            "revealing": self._secure.reveal,
            "closing": self._aggregate,
            "aggregated": self._closing.publish,
        }
        progress, began = self.progress, self.site.clock.monotonic()
        progress.begin(number)
        row = await asyncio.to_thread(self.site.store.rounds.get, self._task, number)
        try:
            while row.state not in FINISHED:
                await progress.enter(row)
                try:
                    if row.state != "closing" and (row.state, "aborted") in TRANSITIONS:
                        await obey(self.site, number)
                    await steps[row.state](row)
                except RoundAbortedError as error:
                    await self._abort(number, row.state, error)
                progress.messages = None
                row = await asyncio.to_thread(self.site.store.rounds.get, self._task, number)
                self.site.announcements.tell("state", round=number, state=row.state)
            cohort, failed = progress.cohort, progress.failed
        finally:
            progress.begin(None)
        await self._closing.finish(row, began)
        if row.state == "aborted" and cohort and failed >= cohort:
            failure = total_failure(number, cohort, await asyncio.to_thread(self._closing.failures, number))
            if failure is not None:
                raise RoundFailedError(failure)

    async def _abort(self, number: int, state: State, error: RoundAbortedError) -> None:
        rounds, models, progress, reason = self.site.store.rounds, self.site.store.models, self.progress, str(error)
        back = error.back if isinstance(error, WorseModelError) else None
        said = {"reason": reason, "doubts": progress.doubts.as_report(), "went_back": back}
        report = await asyncio.to_thread(self._closing.report, number, said)

        def commit() -> None:
            with rounds.moving(self._task, number, state, "aborted", report=report) as tx:
                if back is not None:
                    models.go_back(tx, self._task, back, number, reason)

        await asyncio.to_thread(commit)
        await self._closing.recall(number)
        done = progress.answered if state == "collecting" else set()
        await self.site.messenger.call_off(number, sorted(progress.cohort - done), reason)
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
        if not self.progress.doubts.prevail(self.progress.cohort):
            return
        version = row.begun.version
        back = await asyncio.to_thread(self.site.store.models.before, self._task, version)
        if back is None or self.site.joint is not None:  # which other regions go on from
            self.site.warn(f"most devices find version {version} of the model worse than one that they had before")
            return
        raise WorseModelError(self.progress.doubts.sentence(self.progress.cohort, version, back), back)

    async def _choose(self, row: RoundRow) -> None:
        """Wait until somebody can be invited, and choose the cohort."""
        site, settings, number = self.site, self.site.settings, row.round
        while not await site.all_heard():  # or a round after a restart would be of those that answer first
            await obey(site, row.round)
            await site.wait_change()
        fit, others = await asyncio.to_thread(site.eligible)
        while len(fit) < fewest(site):
            few = f"{len(fit)} devices can be invited, {fewest(site)} are needed" if fit else "no device can be invited"
            site.warn(f"{few}: waiting")
            await obey(site, row.round)
            await site.wait_change()
            fit, others = await asyncio.to_thread(site.eligible)
        choice = await asyncio.to_thread(choose_cohort, site, number, fit, others)
        if choice.refusal is not None:
            await asyncio.to_thread(self._closing.heed_budget, number)
            raise RoundAbortedError(choice.refusal)
        current = await asyncio.to_thread(site.store.models.current, self._task)
        own = await asyncio.to_thread(own_bases, site, current.version, choice.names)
        back = rounds_back(len(fit) + len(others), len(choice.names))
        missed = await asyncio.to_thread(site.store.attendance.missed, self._task, number, choice.names, back)
        slow = slow_devices(missed)
        values: RoundChanges = {
            "opened": site.clock.now(),
            "base_version": current.version,
            "base": current.blob,
            "plan": msgspec.msgpack.encode(choice.plan),
            "report": {
                **choice.report,
                **await asyncio.to_thread(keep_lent, site, current, choice.plan),
                **({"waits_for": [*slow]} if slow else {}),
            },
        }
        two_phase = settings.detection is not None and not settings.detection.one_phase
        losses = settings.detection is None or settings.detection.losses
        new = first_state(secure_sum=bool(choice.plan.secure_sum), two_phase=two_phase, losses=losses)
        if new == "alarm":
            values["detection"] = with_seconds(without_comparison(), 0.0)

        def enter() -> None:
            with site.store.rounds.moving(self._task, number, "planned", new, **values) as tx:
                site.store.rounds.invite(tx, self._task, number, choice.names, own)
                note_slow(tx, slow, task=self._task, number=number, deadline=settings.deadline)
                note_broken(tx, choice.broken, task=self._task, number=number)

        await asyncio.to_thread(enter)

    # -- two-phase rounds

    async def _measure(self, row: RoundRow) -> None:
        """Ask for the losses of the model, and compare them with those of the round before."""
        assert self._judgement is not None
        site, number, rounds, began = self.site, row.round, self.site.store.rounds, self.site.clock.monotonic()
        known = await asyncio.to_thread(rounds.losses, self._task, number, row.begun.base)
        self.progress.answered = set(known)
        loss = site.settings.preset.plan.inference_loss
        await self.progress.ask(site.messenger.question(number, row.begun.base, loss))
        assert site.settings.detection is not None
        clock, pace = site.clock, Pace(site.clock, site.stirred)
        until = clock.monotonic() + min(site.settings.detection.wait, site.settings.deadline)
        while True:
            waited = online = self.progress.waited_for()
            if is_question_over(waited, online, enough=True, now=clock.monotonic(), until=until, last=until):
                break
            if pace.due:
                await obey(site, row.round)
                online = await pace.look(site.store.devices.not_gone)
                if is_question_over(waited, online, enough=True, now=clock.monotonic(), until=until, last=until):
                    break
            await site.wait_change(min(1.0, until - clock.monotonic()))
        new, detection = await asyncio.to_thread(self._judgement.compare, row)
        site.warn(detection.get("warning"))
        judgement = self._judgement
        whole = {**(row.detection or {}), **with_seconds(detection, clock.monotonic() - began)}

        def enter() -> None:
            with rounds.moving(self._task, number, "losses", new, detection=whole) as tx:
                judgement.note_set_aside(tx, number, detection)

        await asyncio.to_thread(enter)
        if new == "alarm":
            self.site.metrics.alarm()
            self._warn(number, detection["sentence"])

    def _warn(self, number: int, sentence: str) -> None:
        log.warning("round %d: %s", number, sentence)
        self.site.announcements.tell("alarm", round=number, sentence=sentence)

    async def _repair(self, row: RoundRow) -> None:
        """Find who poisoned the model, and go on from a repaired one."""
        assert self._judgement is not None
        found = await self._judgement.find(row.round, row.begun.version)
        detection = await asyncio.to_thread(self._judgement.settle, row, found)
        if not detection["fires"]:
            return
        if not (row.detection or detection)["fires"]:  # no alarm led here
            self.site.metrics.alarm()
        self._warn(row.round, found.sentence)

    # -- training

    async def _invite(self, row: RoundRow) -> None:
        await self._call(row)
        await asyncio.to_thread(self.site.store.rounds.move, self._task, row.round, "inviting", "collecting")

    async def _call(self, row: RoundRow) -> None:
        """Invite those who have not answered; again after a restart."""
        plan = msgspec.msgpack.decode(row.begun.plan, type=Plan)
        self.progress.answered |= await asyncio.to_thread(self.site.store.updates.sent_for, self._task, row.round)
        message = self.site.messenger.invitation(row.round, row.begun.base, plan, self.site.settings.deadline)
        if plan.secure_sum:
            await self._secure.invite(row, message)
            return
        own = await asyncio.to_thread(self.site.store.personal.asked, self._task, row.round)
        await self.progress.ask(await lend(self.site, own, row, message), own)

    async def _collect(self, row: RoundRow) -> None:
        await self._call(row)
        await self._wait_for_updates(row)
        new: State = "closing" if sum_in(row) is None else "revealing"
        await asyncio.to_thread(self.site.store.rounds.move, self._task, row.round, "collecting", new)

    async def _wait_for_updates(self, row: RoundRow) -> None:
        """Wait until everybody has answered, or enough have and patience is over.

        Raises
        ------
        RoundAbortedError
            There is no quorum at the deadline, most devices find the model worse, or an operator aborts.
        """
        site, settings, progress = self.site, self.site.settings, self.progress
        began, quorum = site.clock.monotonic(), progress.quorum(settings.quorum)
        quorum_at = await asyncio.to_thread(progress.quorum_at, row.round, quorum) if settings.worker else None
        timing = Timing(settings.quorum, settings.deadline, settings.patience, settings.least_wait)
        wanted = (row.report or {}).get("wanted", len(progress.cohort))
        slow = frozenset((row.report or {}).get("waits_for", ()))
        pace, online, is_enough = Pace(site.clock, site.stirred), progress.cohort, await self._secure.is_enough(row)
        counting, longest = Pace(site.clock), COUNTED_SECONDS if settings.worker else 1.0
        while True:
            if settings.worker and counting.due:  # others count as well
                progress.take_in(*await counting.look(partial(progress.read, row.round)))
            await self._heed_doubts(row)
            if pace.due:
                await obey(site, row.round)
                online = await pace.look(site.store.devices.not_gone)
            now, readable = site.clock.monotonic(), len(progress.answered) >= quorum and is_enough(progress.answered)
            answers = progress.answers(wanted, online, readable=readable, slow=slow)
            progress.needed = answers.needed
            decision = closing_decision(answers, timing, began=began, now=now, quorum_at=quorum_at)
            if decision.step == "close":
                return
            if decision.step == "give up":
                raise RoundAbortedError(decision.reason)
            quorum_at = decision.quorum_at
            await site.wait_change(min(decision.until - now, longest))

    async def _aggregate(self, row: RoundRow) -> None:
        """Make the model; model, report, outbox and the round's state change in one transaction."""
        site, number = self.site, row.round
        counted = await asyncio.to_thread(site.store.updates.counted, self._task, number)
        if sum_in(row) is not None:
            await self._closing.enter(row, counted, partial(self._secure.model, row, counted))
            return
        if site.joint is not None:
            cohort = await asyncio.to_thread(site.cohort, row, counted)
            made = await site.joint.next_model(row.begun.base, cohort, partial(obey, site, number))
            await self._closing.enter(row, counted, lambda: made, start=made.weights)  # it was held to theirs there
            return
        changes, found, before = await self._judge_in_passing(row, counted)

        def work() -> NextModel:
            if found is not None and found.weights is not None:
                state = site.optimizer_of(found.optimizer)
            else:
                state = site.optimizer_after(site.store.models.get(self._task, row.begun.version))
            cohort = site.cohort(replace(row, **changes), counted, starts_of(site, row, counted))
            return next_model(cohort, site.rule, site.settings.preset.server_for(number, site.horizon), state)

        await self._closing.enter(row, counted, work, changes=changes, before=before)
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
        self.site.metrics.alarm()
        self._warn(number, detection["sentence"])
        if found.weights is not None:
            detection["trained_from"] = row.begun.base
        values, settle = await asyncio.to_thread(judgement.settling, number, found, detection)

        def enter(tx: sa.Connection) -> None:
            judgement.note_set_aside(tx, number, detection)
            settle(tx)

        return values, found, enter
