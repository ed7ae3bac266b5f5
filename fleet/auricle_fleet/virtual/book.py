"""The coordinator's database of a run without a coordinator: what `auricle cloud` finds in its state folder.

Rounds are written when the run keeps what it goes on with, before that: a run that goes on from an earlier round takes
those after it out, and makes them again to the same bits. No update's weights are kept, and of models the newest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.process.clock import Clock
from auricle.wire.tensors import Flat, encode
from auricle_cloud.rounds.finished import Event, FinishedRound, FinishedRounds, Member, Newcomer
from auricle_cloud.rounds.rule_events import broken_told, mended_told, slow_told
from auricle_cloud.settings import RunSettings
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.states.report import Document
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.database import Pulse
from auricle_cloud.storage.rows import ModelRow
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet.virtual.client import BOOT
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import TASK, Ended, Order
from auricle_learning.aggregation.cohort import Bounded

KEPT = RunSettings.keep_models
"""Newest models that are kept, as of a coordinator."""


class Book:
    """The rows of one run.

    Parameters
    ----------
    folder
        Where a coordinator's state would lie.
    pack
        Whose plug-in is trained.
    clock
        Whom it asks for the time at which something was done.
    limit
        Verdicts after which a device is quarantined; 0: never.
    deadline
        Of its rounds, in seconds.

    Raises
    ------
    StorageError
        The database cannot be opened, or the disk is full.
    """

    def __init__(
        self, folder: Path, pack: Pack, clock: Clock, limit: int = 0, deadline: float = RunSettings.deadline
    ) -> None:
        self._deadline = deadline
        self._store, self._blobs, self._pack, self._clock = Store(folder / FILE), Blobs(folder / "blobs"), pack, clock
        self._rounds = FinishedRounds(self._store.database, TASK, limit)
        self._pending: list[FinishedRound] = []
        self._files: dict[str, Flat] = {}
        """Models of these rounds, by digest."""
        self._newest = 0
        """Version of the last model."""
        self._parent: ModelRow | None = None
        """What devices may have the run go back to."""

    def begin(self, number: int, model: Model, devices: Iterable[Newcomer]) -> None:
        """Go on after a round; a run whose rounds so far are not in here begins with its model.

        Parameters
        ----------
        number
            Of the last round that is kept; 0: it begins.
        model
            The newest one.
        devices
            Of the run.

        Raises
        ------
        StorageError
            The database is of another pack, or the disk is full.
        """
        store = self._store
        self._rounds.forget_after(number)
        if not store.models.tasks():
            self._blobs.put(encode(model.weights))
        store.models.begin(TASK, self._pack.identity, model.base)
        words = [label for label in self._pack.labels if label not in SPECIAL_LABELS]
        store.hearing.name_keywords(self._pack.identity, words)
        self._rounds.welcome(devices, self._pack.identity, BOOT, self._clock.now())
        self._current, (newest, *_) = store.models.current(TASK), store.models.all(TASK, 1)
        self._newest, known = newest.version, {row.version: row for row in store.models.all(TASK, KEPT + 2)}
        self._parent = known.get(self._current.parent) if self._current.parent is not None else None

    def add(self, order: Order, ended: Ended, began: float, spent_out: str | None = None) -> None:
        """Take a round that has ended.

        Parameters
        ----------
        order, ended
            What it was told, and what came of it.
        began
            Seconds since 1970.
        spent_out
            Why no round may begin any more, where that ended it.
        """
        judged, made = ended.judged, list[ModelRow]()
        report: Document = {**ended.report}
        measured = self._current.blob
        if judged.repaired is not None:
            better = (judged.detection or {}).get("accuracy_after"), None
            made.append(self._made(judged.repaired, order.number, "repair", self._current.parent, *better))
            self._current, self._parent = made[-1], None
        base = self._current
        report["base_version"] = base.version
        if ended.model is not None:
            score = report.get("accuracy"), report.get("loss")
            made.append(self._made(ended.model, order.number, "round", base.version, *score))
            self._current, self._parent = made[-1], base
        else:
            report["went_back"] = self._parent.version if ended.went_back and self._parent is not None else None
        events = self._went_back(report) if ended.went_back else []
        if spent_out is not None:
            events += [Event("privacy budget spent", spent_out)]
        slow = {name: order.slow[name] for name in report.get("waits_for", ())}
        events += [
            Event(OUTCOMES["late"].event, detail, name)
            for name, detail in slow_told(slow, order.number, self._deadline)
        ]
        broken, counted = report.get("broken", {}), ended.heard.updates if ended.model is not None else ()
        events += [Event(OUTCOMES["refused"].event, detail, name) for name, detail in broken_told(broken)]
        events += [Event("in quorum again", detail, name) for name, detail in mended_told(broken, counted)]
        updates = report.get("updates", ())
        self._pending.append(
            FinishedRound(
                number=order.number,
                state="aborted" if ended.model is None else "published",
                opened=began,
                closed=self._clock.now(),
                base_version=base.version,
                base=base.blob,
                plan=None if order.refusal is not None else msgspec.msgpack.encode(order.plan),
                report=report,
                detection=judged.detection,
                cohort=cohort_of(ended),
                losses=(measured, judged.losses) if judged.losses else None,
                updates=list(ended.heard.updates.values()),
                ids=[update["device"] for update in updates],
                left_out=[update["device"] for update in updates if update["left_out"]],
                bounded=[Bounded(**entry) for entry in report.get("bounded", ())],
                models=made,
                current=self._current.version,
                events=events,
            )
        )

    def noisy(self) -> dict[int, Document]:
        """What the reports of rounds with noise say of it, of those that are written."""
        return self._store.rounds.noisy(TASK, 0)

    def missed(self, number: int, names: Collection[str], back: int) -> dict[str, list[int]]:
        """The `back` rounds before this one that devices missed since they counted, of those that are written."""
        return self._store.attendance.missed(TASK, number, names, back)

    def nothing(self, number: int, names: Collection[str], back: int) -> dict[str, list[int]]:
        """The `back` rounds before this one that speak against devices, since they counted; as above."""
        return self._store.attendance.nothing(TASK, number, names, back)

    @property
    def version(self) -> int:
        """Of the model that the next round begins with."""
        return self._current.version

    @property
    def newest(self) -> int:
        """Version of the last model."""
        return self._newest

    def _made(
        self, model: Model, number: int, origin: str, parent: int | None, accuracy: float | None, loss: float | None
    ) -> ModelRow:
        """The row of a model that a round made, whose weights are kept until it is written."""
        blob, self._newest = model.base, self._newest + 1
        self._files[blob] = model.weights
        return ModelRow(TASK, self._newest, blob, None, self._clock.now(), parent, origin, number, accuracy, loss)

    def _went_back(self, report: Document) -> list[Event]:
        """Go back to the model before the current one; what is noted of that."""
        if self._parent is None:
            return []
        self._current, self._parent = self._parent, None
        detail = f"version {self._current.version}: {report['reason']}"
        return [Event("rolled back", detail, who="devices")]

    def write(self) -> None:
        """Write the rounds that ended since it was called last, in one transaction.

        Raises
        ------
        StorageError
            The disk cannot take them: none of them is written.
        """
        kept = [model.blob for made in self._pending for model in made.models][-KEPT:]
        self._blobs.put_all([encode(self._files[blob]) for blob in sorted({*kept})])
        self._rounds.enter(self._pending)
        self._pending, self._files = [], {}

    def trim(self, fewest: int = 50) -> None:
        """Forget the models and events that a coordinator would not keep, once the run needs them no more.

        Parameters
        ----------
        fewest
            Models for which it is worth while.

        Raises
        ------
        StorageError
            The disk cannot take it.
        """
        models, old = self._store.models, {*self._store.models.superseded(TASK, KEPT)}
        if len(old) < fewest:
            return
        gone = {row.blob for row in models.all(TASK, KEPT + len(old) + 2) if row.version in old}
        models.drop(TASK, sorted(old))
        for blob in gone - models.in_use(TASK):
            self._blobs.remove(blob)
        self._store.journal.trim(RunSettings.keep_events, RunSettings.keep_audit)

    def close(self) -> None:
        """Say that nobody works on these rows any more, as a coordinator that leaves does, and close the database."""
        with contextlib.suppress(StorageError):  # a full disk: what has become of the run is said already
            self.trim(1)
            self._store.database.beat(Pulse(self._clock.now(), running=False, connected=False))
        self._store.close()


def cohort_of(ended: Ended) -> dict[str, Member]:
    """What became of each invitation to a round, by device."""
    heard, cohort = ended.heard, dict[str, Member]()
    for name in ended.invited:
        answer, state, reason = ended.answers.get(name), "invited", None
        if name in heard.refused:
            state, reason = "refused", heard.refused[name]
        elif answer is not None and answer.update is None:
            state, reason = ("failed" if answer.verdict is None else "declined"), answer.reason
        elif name in heard.late:
            state, reason = "late", "late" if ended.model is not None else "closed"
        elif answer is not None:
            reason = answer.doubt
        cohort[name] = Member(state, reason)
    return cohort
