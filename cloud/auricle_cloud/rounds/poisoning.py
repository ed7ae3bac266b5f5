"""The detection of FedVSA in the coordinator: alarm, Shapley values over the cached round, repair (6.2-6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import sqlalchemy as sa

from auricle.errors import SettingsError
from auricle.wire.tensors import encode
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.rounds.blame import note_set_aside, note_verdict
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.inquiry import Before, Found, Judge, Progress, verdict, with_seconds
from auricle_cloud.rounds.inquiry_memory import DetectionMemory, Suspect, inquire
from auricle_cloud.settings import Detection
from auricle_cloud.states.report import Document
from auricle_cloud.states.round import State
from auricle_cloud.storage.rows import RoundChanges, RoundRow, UpdateRow


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

    Raises
    ------
    SettingsError
        Each round would be judged, and nothing is there to judge it on.
    """

    def __init__(self, site: RoundContext, settings: Detection, evaluator: Evaluator | None) -> None:
        if not settings.losses and evaluator is None:
            raise SettingsError(
                "With losses = false each round is judged on labelled clips: name some with --validation."
            )
        self.site, self._settings, self._evaluator, self._task = site, settings, evaluator, site.task

    def compare(self, row: RoundRow) -> tuple[State, Document]:
        """Compare the losses of a round's model with the reference (eq. 12); the next state, and what was found."""
        said = self.site.store.rounds.losses(self._task, row.round, row.begun.base)
        detection = self._compared(row, {name: entry.loss for name, entry in said.items()})
        return ("alarm" if detection["fires"] else "inviting"), detection

    def _compared(self, row: RoundRow, said: Mapping[str, float | None]) -> Document:
        earlier = self.site.store.rounds.listed(self._task, limit=50, before=row.round)
        return DetectionMemory.from_rounds(each.detection for each in earlier).compare(said)

    def note_set_aside(self, tx: sa.Connection, number: int, detection: Document) -> None:
        """Enter an event for each device whose loss was not believed."""
        note_set_aside(tx, self._task, number, detection)

    async def in_passing(self, row: RoundRow, counted: list[UpdateRow]) -> tuple[Document, Found | None]:
        """One-phase: compare the losses that came with a round's updates, and after an alarm find who is to blame.

        Returns
        -------
        tuple
            What was found, for the report; and what came of an alarm.
        """
        losses, began = {update.device: update.loss for update in counted}, self.site.clock.monotonic()
        detection = await asyncio.to_thread(self._compared, row, losses)
        detection = with_seconds(detection, self.site.clock.monotonic() - began)
        if not detection["fires"]:
            return detection, None
        found = await self.find(row.round, row.begun.version)
        return verdict(detection, found), found

    async def find(self, number: int, version: int) -> Found:
        """Find who poisoned the model of this version, from which a round starts, and make a repaired one."""
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            what = {"round": number, "done": done, "total": total}
            loop.call_soon_threadsafe(lambda: self.site.announcements.tell("progress", **what))

        return await asyncio.to_thread(self._find, number, version, progress)

    def _find(self, number: int, version: int, progress: Progress) -> Found:
        site, judge = self.site, None
        if self._evaluator is not None:
            judge = Judge(self._settings, site.rule, self._evaluator, site.settings.seed, site.settings.limits)
        return inquire(judge, number, self._suspect(version), site.clock, progress)

    def _suspect(self, version: int) -> Suspect:
        """The model of this version, with the round that made it."""
        site, models = self.site, self.site.store.models
        current = models.get(self._task, version)
        weights = partial(site.weights, current.blob)
        if current.origin != "round" or current.round is None:
            return Suspect(weights, current.origin)
        judged = site.store.rounds.get(self._task, current.round)
        row = models.get(self._task, judged.begun.version)
        optimizer = None if row.optimizer is None else site.blobs.get(row.optimizer)
        counted = site.store.updates.counted(self._task, judged.round)
        return Suspect(
            weights,
            current.origin,
            judged.round,
            Before(row.version, site.weights(row.blob), optimizer),
            lambda: site.cohort(judged, counted),
            site.settings.preset.server_for(judged.round, site.horizon),
        )

    def settle(self, row: RoundRow, found: Found) -> Document:
        """Enter the verdict and the repaired model, and go on to inviting, in one transaction; the verdict."""
        number, detection = row.round, verdict(row.detection or {}, found)
        values, enter = self.settling(number, found, detection)
        with self.site.store.rounds.moving(self._task, number, "alarm", "inviting", **values) as tx:
            enter(tx)
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
            if detection["fires"]:
                note_verdict(tx, self._task, number, detection, self._settings.quarantine_after)

        return values, enter
