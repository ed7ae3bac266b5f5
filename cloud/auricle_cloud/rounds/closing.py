"""The end of every round: the model is entered, published, and what is not needed any more is forgotten.

A round may end before its time: given up, aborted by an operator, or because every device failed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable

import sqlalchemy as sa
from msgspec import convert
from msgspec.structs import replace

from auricle.errors import AuricleError, StorageError
from auricle.wire.tensors import Flat, encode
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.rounds.context import POLL, RoundContext
from auricle_cloud.rounds.learning import note_learning
from auricle_cloud.rounds.model_check import UnsoundModelError, make_model
from auricle_cloud.rounds.model_report import report_model
from auricle_cloud.rounds.personal import keep_made
from auricle_cloud.rounds.privacy import NoisyRound
from auricle_cloud.rounds.rule_events import note_mended, note_rule
from auricle_cloud.settings import RoundDone
from auricle_cloud.states.outcome import Outcome
from auricle_cloud.states.report import Document
from auricle_cloud.states.round import GAVE_UP, counted_words
from auricle_cloud.states.round_outcomes import count_outcomes
from auricle_cloud.storage.cohort_report import report_with_cohort
from auricle_cloud.storage.rows import ModelRow, RoundChanges, RoundRow, UpdateRow
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.next_model import NextModel

log = logging.getLogger("auricle.cloud")

Entry = Callable[[sa.Connection], None]


class RoundAbortedError(AuricleError):
    """The round ends here; the sentence says why."""


class WorseModelError(RoundAbortedError):
    """Most devices find the round's model worse than an earlier one; the next round begins with version `back`."""

    def __init__(self, sentence: str, back: int) -> None:
        super().__init__(sentence)
        self.back = back


class RoundFailedError(AuricleError):
    """Every device of a round failed; the sentence says what the first of them said."""


async def obey(site: RoundContext, number: int) -> None:
    """Do what an operator asked of a round; RoundAbortedError where it is to end."""
    if await asyncio.to_thread(site.store.rounds.request_for, site.task, number) == "abort":
        raise RoundAbortedError("aborted by an operator")


class Closing:
    """Ends rounds of either mode.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    evaluator
        Judges each model on the operator's validation set, where there is one.
    """

    def __init__(self, site: RoundContext, evaluator: Evaluator | None) -> None:
        self.site, self._evaluator, self._task = site, evaluator, site.task
        self._evaluated: tuple[int, Flat] | None = None  # of the newest round whose rule has such weights

    def failures(self, number: int) -> dict[str, str]:
        """Who failed or declined, and what they said."""
        invited = self.site.store.rounds.invited(self._task, number)
        return {name: row.reason or "" for name, row in invited.items() if row.state in GAVE_UP}

    def report(self, number: int, more: Document) -> Document:
        """What every report has, and more."""
        row = self._round(number)
        return {
            **(row.report or {}),
            "invited": sorted(self.site.store.rounds.invited(self._task, number)),
            "failed": self.failures(number),
            "rule": self.site.rule.name,
            "rule_options": self.site.rule.options,
            "detection": row.detection,
            "base_version": row.base_version,
            **more,
        }

    async def enter(
        self,
        row: RoundRow,
        counted: list[UpdateRow],
        make: Callable[[], NextModel],
        *,
        changes: RoundChanges | None = None,
        before: Entry | None = None,
        start: Flat | None = None,
    ) -> None:
        """Make a round's model and enter it: model, report, outbox and the round's state change in one transaction.

        Parameters
        ----------
        row
            The round.
        counted, make
            Its updates, and what makes the model of them, in a thread.
        changes
            Columns of the round that change as well.
        before
            Enters what comes before the model, in the same transaction: a repaired one.
        start
            (P,) the model that it may not be far from; None: the one that the round began with.

        Raises
        ------
        RoundAbortedError
            The rule made none, or one that must not be published.
        """
        changes = changes or {}
        row = replace(row, **changes)
        site, number = self.site, row.round
        made = await asyncio.to_thread(self._make, row, make, start)
        aggregate = made.aggregate
        site.warn(*aggregate.warnings, aggregate.flag)

        def commit() -> None:
            blob = site.blobs.put(encode(made.weights))
            optimizer = None if made.kept is None else site.blobs.put(made.kept)
            personal = keep_made(site, aggregate)
            accuracy, loss = self._score(made.evaluated)
            if aggregate.evaluated is not None:
                self._evaluated = number, made.evaluated
            report = self._report(row, counted, aggregate, accuracy=accuracy, loss=loss)
            values: RoundChanges = {**changes, "report": report}
            with site.store.rounds.moving(self._task, number, "closing", "aggregated", **values) as tx:
                if before is not None:
                    before(tx)
                hidden = bool((row.report or {}).get("secure_sum"))
                note_rule(tx, aggregate, task=self._task, number=number, rule=site.rule.name, hidden=hidden)
                names = (update.device for update in counted)
                learning = note_learning(tx, self._task, number)
                note_mended(tx, (row.report or {}).get("broken", ()), names, task=self._task, number=number)
                version = site.store.models.add(
                    tx,
                    self._task,
                    blob,
                    optimizer=optimizer,
                    origin="round",
                    number=number,
                    accuracy=accuracy,
                    loss=loss,
                    parent=row.base_version,
                )
                groups = aggregate.clusters
                if "personal-models" in site.rule.rule.needs and (groups is None or groups.models is not None):
                    parent = row.begun.version
                    site.store.personal.enter(tx, self._task, version, parent=parent, number=number, made=personal)
            if learning is not None:
                log.info("%s", learning)

        await asyncio.to_thread(commit)

    def _make(self, row: RoundRow, make: Callable[[], NextModel], start: Flat | None) -> NextModel:
        """The round's model; RoundAbortedError where there is none that may be published."""
        site = self.site
        try:
            return make_model(
                make, site.weights(row.begun.base) if start is None else start, site.settings.limits, site.rule.name
            )
        except UnsoundModelError as error:
            log.error("round %d: %s", row.round, error)
            raise RoundAbortedError(str(error)) from error

    def _score(self, weights: Flat) -> tuple[float | None, float | None]:
        """A model's accuracy and loss on the operator's validation set, where there is one."""
        if self._evaluator is None:
            return None, None
        score = self._evaluator.scores(weights[None])
        return float(score.accuracy[0]), float(score.loss[0])

    def _report(
        self,
        row: RoundRow,
        counted: list[UpdateRow],
        aggregate: Aggregate,
        *,
        accuracy: float | None,
        loss: float | None,
    ) -> Document:
        """The report of a round that made a model."""
        out = {*aggregate.left_out}
        made = {
            **report_model(aggregate, [replace(update, left_out=update.device in out) for update in counted]),
            "accuracy": accuracy,
            "loss": loss,
            **self._privacy(row, len(aggregate.ids)),
            "detection": row.detection,
            "base_version": row.base_version,
        }
        return self.report(row.round, made)

    def heed_budget(self, number: int) -> None:
        """Where the privacy budget is spent: say so once, and plan no further rounds."""
        privacy, store = self.site.privacy, self.site.store
        if privacy is None or privacy.spent_out is None:
            return
        self.site.warn(privacy.spent_out)
        store.journal.note("privacy budget spent", task=self._task, number=number, detail=privacy.spent_out)
        store.rounds.unplan(self._task, number, who="privacy budget")

    def _privacy(self, row: RoundRow, counted: int) -> Document:
        """Of a round with noise: what has been given away up to its model."""
        told = (row.report or {}).get("privacy")
        if self.site.privacy is None or told is None:
            return {}
        this = replace(convert(told, NoisyRound), counted=counted)
        return {"privacy": self.site.privacy.spent(row.round, this)}

    async def publish(self, row: RoundRow) -> None:
        """Publish what is to be published, then call the round published."""
        await self.send_outgoing()
        await self.recall(row.round)
        await asyncio.to_thread(self.site.store.rounds.move, self._task, row.round, "aggregated", "published")

    async def recall(self, number: int) -> None:
        """Take the models that single devices began a round with, and what it lent, back from the broker."""
        asked = await asyncio.to_thread(self.site.store.personal.asked, self._task, number)
        row = await asyncio.to_thread(self._round, number)
        await self.site.messenger.recall(asked.values(), row.everything_lent)

    def _round(self, number: int) -> RoundRow:
        return self.site.store.rounds.get(self._task, number)

    async def send_outgoing(self) -> None:
        """Publish everything in the outbox; an entry is taken out once the broker has it."""
        journal, models = self.site.store.journal, self.site.store.models
        for entry in await asyncio.to_thread(journal.outgoing):
            if entry.kind == "model" and entry.subject == self._task:
                current = await asyncio.to_thread(models.current, self._task)
                if current.version == entry.content["version"]:
                    await self.site.messenger.offer(current)
                    self.site.announcements.tell("model", version=current.version)
            await asyncio.to_thread(journal.sent, entry.id)

    def forget(self, number: int) -> None:
        """Remove what retention gives up after a round: old models, and bodies no detection can ask for any more."""
        site, models = self.site, self.site.store.models
        try:
            old, row = models.superseded(self._task, site.settings.keep_models), self._round(number)
            gone = {blob for version in old for blob in _files(models.get(self._task, version))}
            gone |= {each.blob for each in row.everything_lent}
            gone |= site.store.updates.bodies(self._task, max(1, number - 3), number)
            if old:
                gone |= models.drop(self._task, old)
            gone |= {*site.store.personal.asked(self._task, number).values()}
            site.blobs.remove_all(gone - models.in_use(self._task))
            if site.settings.secure_sum.on:
                site.store.sums.forget(self._task, number)
            site.store.journal.trim(site.settings.keep_events, site.settings.keep_audit)
        except StorageError as error:
            log.warning("files of round %d stay for now: %s", number, error)

    async def finish(self, row: RoundRow, began: float) -> None:
        """Clear up after a finished round, log it, and tell the watcher."""
        site, number = self.site, row.round
        await asyncio.to_thread(self.forget, number)
        invited, counted, outcomes, weights = await self._outcome(number)
        out = outcomes["left_out"]
        seconds = site.clock.monotonic() - began
        words = counted_words(counted, invited, out)
        log.info("round %d %s: %s in %.1f s", number, row.state, words, seconds)
        site.metrics.round(row.state, seconds, outcomes)
        if site.watcher is not None and weights is not None:
            done = RoundDone(number, site.horizon, row.state, weights, seconds, invited, counted, row.report or {}, out)
            of, evaluated = self._evaluated or (number, None)  # a coordinator that was restarted since has the model's
            await site.watcher(dataclasses.replace(done, evaluated=evaluated if of == number else None))

    async def _outcome(self, number: int) -> tuple[int, int, Counter[Outcome], Flat | None]:
        """How many were invited to a round and counted, what became of all, and for a watcher the model after it.

        The round has ended and nobody will come back to it: where the database or the blobs are away, this waits.
        """
        site, place = self.site, (self._task, number)

        def look() -> tuple[int, int, Counter[Outcome], Flat | None]:
            current = None if site.watcher is None else site.store.models.current(self._task).blob
            cohort = site.store.listings.cohort(*place)
            outcomes = count_outcomes(report_with_cohort(self._round(number), cohort))
            return (
                len(cohort),
                len(site.store.updates.counted_devices(*place)) - outcomes["left_out"],
                outcomes,
                None if current is None else site.weights(current),
            )

        while True:
            try:
                return await asyncio.to_thread(look)
            except StorageError as error:
                log.error("round %d has ended and waits to be announced: %s", number, error)
                await site.clock.pause(POLL)


def _files(model: ModelRow) -> list[str]:
    return [blob for blob in (model.blob, model.optimizer) if blob]
