"""The detection of FedVSA in the coordinator: alarm, Shapley values over the cached round, repair (6.2-6.4)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from auricle.errors import StorageError
from auricle.process.times import how_many
from auricle.wire.tensors import Flat, encode
from auricle_cloud.detection.alarm import alarm, believed, next_reference, set_aside
from auricle_cloud.detection.coalitions import fedvsa_models, rule_models, worth
from auricle_cloud.detection.repair import Repair, hotfix, reaggregate
from auricle_cloud.detection.shapley import Shapley, shapley
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.settings import Detection
from auricle_cloud.states.report import Document
from auricle_cloud.states.round import State
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.rows import ModelRow, RoundChanges, RoundRow, UpdateRow
from auricle_cloud.storage.schema import devices
from auricle_learning.aggregation.cohort import Cohort

Progress = Callable[[int, int], None]
"""Told how many evaluations are done, and of how many."""


@dataclass(frozen=True)
class Found:
    """What came of an alarm."""

    sentence: str
    detail: Document
    """For the round's report."""
    bad: tuple[str, ...] = ()
    weights: Flat | None = None
    """(P,) the model to go on from; None: the one there is."""
    optimizer: bytes | None = field(default=None, repr=False)
    parent: int | None = None
    """The version before the poisoned one."""


class Judgement:
    """Judges the model that a round starts from.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    settings
        How to judge and repair.
    evaluator
        Accuracy on the operator's validation set; None without one.
    """

    def __init__(self, site: RoundContext, settings: Detection, evaluator: Evaluator | None) -> None:
        self.site, self._settings, self._evaluator, self._task = site, settings, evaluator, site.task

    def compare(self, row: RoundRow) -> tuple[State, Document]:
        """Compare the losses of a round's model with the reference (eq. 12); the next state, and what was found."""
        said = self.site.store.rounds.losses(self._task, row.round, row.begun.base)
        detection = self._compared(row, {name: entry.loss for name, entry in said.items()})
        return ("alarm" if detection["fires"] else "inviting"), detection

    def _compared(self, row: RoundRow, said: Mapping[str, float | None]) -> Document:
        losses = {name: math.nan if loss is None else loss for name, loss in said.items()}
        doubted = set_aside(losses)
        losses = {name: loss for name, loss in losses.items() if name not in doubted}
        reference, previous = self._reference(row.round)
        found = alarm(losses, reference, previous)
        return {
            "reference": found.reference,
            "losses": dict(said),
            "set_aside": list(doubted),
            "votes": list(found.voted),
            "fires": found.fires,
            "sentence": found.sentence,
            "warning": found.warning,
            "false_alarm": found.false_alarm,
            "next_reference": next_reference(reference, losses, found.fires),
        }

    def note_set_aside(self, tx: sa.Connection, number: int, detection: Document) -> None:
        """Enter an event for each device whose loss was not believed."""
        for name in detection["set_aside"]:
            detail = f"a loss of {detection['losses'][name]:.4g}, far from all others'"
            note(tx, "loss set aside", device=name, task=self._task, number=number, detail=detail)

    async def in_passing(self, row: RoundRow, counted: list[UpdateRow]) -> tuple[Document, Found | None]:
        """One-phase: compare the losses that came with a round's updates, and after an alarm find who is to blame.

        Returns
        -------
        tuple
            What was found, for the report; and what came of an alarm.
        """
        losses = {update.device: update.loss for update in counted}
        detection = await asyncio.to_thread(self._compared, row, losses)
        if not detection["fires"]:
            return detection, None
        found = await self.find(row.round, row.begun.version)
        return self._verdict(detection, found), found

    def _reference(self, number: int) -> tuple[float | None, int | None]:
        """The largest loss of the last clean cohort, and that cohort's size."""
        for earlier in self.site.store.rounds.listed(self._task, limit=50, before=number):
            known = earlier.detection
            if known is not None and "next_reference" in known:
                return known["next_reference"], len(known["losses"]) - len(known.get("set_aside", ())) or None
        return None, None

    async def find(self, number: int, version: int) -> Found:
        """Find who poisoned the model of this version, from which a round starts, and make a repaired one."""
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            what = {"round": number, "done": done, "total": total}
            loop.call_soon_threadsafe(lambda: self.site.announcements.tell("progress", **what))

        return await asyncio.to_thread(self._find, number, version, progress)

    def _find(self, number: int, version: int, progress: Progress) -> Found:
        models, rounds = self.site.store.models, self.site.store.rounds
        current = models.get(self._task, version)
        if current.origin != "round" or current.round is None:
            sentence = f"The model of round {number} was not made by a round ({current.origin}): it stays."
            return Found(sentence, {"method": "none", "repair": None})
        judged = rounds.get(self._task, current.round)
        before = models.get(self._task, judged.begun.version)
        detail: Document = {"judged_round": judged.round}
        if self._evaluator is None:
            return self._last_good(before, detail, "There is no validation set to judge devices by")
        counted = self.site.store.updates.counted(self._task, judged.round)
        try:
            cohort = self.site.cohort(judged, counted)
        except StorageError:  # an operator went back to a model whose updates retention has given up
            return self._last_good(before, detail, f"The updates of round {judged.round} are not kept any more")
        values = self._shapley(cohort, judged.round, progress)
        return self._repaired(cohort, values, judged, before, self.site.weights(current.blob), detail)

    def _last_good(self, before: ModelRow, detail: Document, why: str) -> Found:
        sentence = f"{why}: back to the last good model, version {before.version}."
        optimizer = None if before.optimizer is None else self.site.blobs.get(before.optimizer)
        detail |= {"method": "last good model", "repair": "rolled back", "shapley": {}, "bad": []}
        return Found(sentence, detail, (), self.site.weights(before.blob), optimizer, before.version)

    def _shapley(self, cohort: Cohort, number: int, progress: Progress) -> Shapley:
        assert self._evaluator is not None
        evaluator, told = self._evaluator, self._settings
        cohort, rule = self.site.rule.game(cohort)
        name, set_to = self.site.rule.name, self.site.rule.options
        options: Document = {option: set_to[option] for option in ("clip", "limit") if option in set_to}
        models = fedvsa_models(cohort, **options) if name == "fedvsa" else rule_models(cohort, rule)
        game = worth(cohort, models, lambda batch: evaluator.scores(batch).accuracy)
        rng = np.random.default_rng([self.site.settings.seed, number])
        return shapley(
            cohort.ids,
            game,
            rng,
            permutations=told.permutations,
            tolerance=told.tolerance,
            margin=told.margin,
            progress=progress,
        )

    def _repaired(
        self, cohort: Cohort, values: Shapley, judged: RoundRow, before: ModelRow, sent: Flat, detail: Document
    ) -> Found:
        assert self._evaluator is not None
        phi = zip(cohort.ids, values.phi.tolist(), values.error.tolist(), strict=True)
        detail |= {
            "method": "exact" if values.permutations is None else "monte-carlo",
            "bad": list(values.bad),
            "shapley": {name: {"value": value, "error": error} for name, value, error in phi},
            "efficiency_gap": values.efficiency_gap,
            "evaluations": values.evaluations,
            "accuracy_before": float(self._evaluator.scores(sent[None]).accuracy[0]),
        }
        if not values.bad:
            cost = f"cost more accuracy than {self._settings.margin:g}"
            sentence = f"Nobody in round {judged.round} {cost}: the model stays."
            return Found(sentence, {**detail, "repair": None})
        repair = self._repair(cohort, values.bad, judged.round, before)
        after = float(self._evaluator.scores(np.asarray(repair.weights, np.float32)[None]).accuracy[0])
        kind = "re-aggregated" if self._settings.repair == "re-aggregate" else "hotfix"
        sentence = (
            f"Round {judged.round} was poisoned by {', '.join(values.bad)}. {repair.sentence} "
            f"Validation accuracy {detail['accuracy_before']:.3f} -> {after:.3f}."
        )
        optimizer = None if repair.optimizer is None else repair.optimizer.to_bytes()
        weights = np.asarray(repair.weights, np.float32)
        return Found(
            sentence,
            {**detail, "repair": kind, "accuracy_after": after},
            values.bad,
            weights,
            optimizer,
            before.version,
        )

    def _repair(self, cohort: Cohort, bad: tuple[str, ...], number: int, before: ModelRow) -> Repair:
        site = self.site
        server = site.settings.preset.server_for(number, site.horizon)
        state = site.optimizer_after(before)
        if self._settings.repair == "re-aggregate":
            return reaggregate(cohort, bad, site.rule, server, state)
        return hotfix(cohort, site.rule(cohort), bad, server, state, tau=self._settings.tau)

    def settle(self, row: RoundRow, found: Found) -> None:
        """Enter the verdict and the repaired model, and go on to inviting, in one transaction."""
        number, detection = row.round, self._verdict(row.detection or {}, found)
        values, enter = self.settling(number, found, detection)
        with self.site.store.rounds.moving(self._task, number, "alarm", "inviting", **values) as tx:
            enter(tx)

    @staticmethod
    def _verdict(told: Document, found: Found) -> Document:
        """What was found in all, for the report."""
        detection = {**told, **found.detail, "sentence": f"{told.get('sentence', '')} {found.sentence}".strip()}
        if found.weights is None and "shapley" in found.detail:
            # Nobody is to blame, so these losses are those of a clean model.
            losses = {name: math.nan if loss is None else loss for name, loss in told["losses"].items()}
            detection["next_reference"] = next_reference(told["reference"], believed(losses), fired=False)
        return detection

    def settling(
        self, number: int, found: Found, detection: Document
    ) -> tuple[RoundChanges, Callable[[sa.Connection], None]]:
        """Keep the repaired model's files; the round's new columns, and what has to be entered together with them."""
        site, blob, optimizer = self.site, None, None
        values: RoundChanges = {"detection": detection}
        if found.weights is not None:
            blob = site.blobs.put(encode(found.weights))
            optimizer = None if found.optimizer is None else site.blobs.put(found.optimizer)
            newest = site.store.models.all(self._task, 1)[0].version
            values |= {"base": blob, "base_version": newest + 1}

        def enter(tx: sa.Connection) -> None:
            if blob is not None:
                site.store.models.add(
                    tx,
                    self._task,
                    blob,
                    optimizer=optimizer,
                    origin="repair",
                    number=number,
                    accuracy=found.detail.get("accuracy_after"),
                    parent=found.parent,
                )
            note(tx, "alarm", task=self._task, number=number, detail=detection["sentence"])
            self._blame(tx, found, number)

        return values, enter

    def _blame(self, tx: sa.Connection, found: Found, number: int) -> None:
        """Count a verdict for each harmful device, and quarantine whoever has too many."""
        for name in found.bad:
            row = devices.c.device == name
            tx.execute(sa.update(devices).where(row).values(harmful_count=devices.c.harmful_count + 1))
            value = found.detail["shapley"][name]["value"]
            about: Document = {"device": name, "task": self._task, "number": number}
            note(tx, "verdict", **about, detail=f"Shapley value {value:.4f} in round {found.detail['judged_round']}")
            limit = self._settings.quarantine_after
            verdicts = tx.execute(sa.select(devices.c.harmful_count).where(row)).scalar() or 0
            if limit and verdicts >= limit:
                reason = f"harmful in {how_many(verdicts, 'round')}"
                here = row & (devices.c.standing == "approved")
                tx.execute(sa.update(devices).where(here).values(standing="quarantined", reason=reason))
                note(tx, "quarantined", **about, who="policy", detail=reason)
