"""Detection of harmful updates without links: what devices say of a model, and what a checkpoint keeps of it.

Verdicts and repairs are those of `auricle_cloud.rounds.inquiry`, with the same seeds: both engines blame the same
devices and go on from the same models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from auricle.errors import StorageError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.messages import Update
from auricle.wire.tensors import Flat, decode, encode
from auricle_cloud.rounds.blame import is_barred
from auricle_cloud.rounds.finished import SaidLoss
from auricle_cloud.rounds.inquiry import Before, Judge, verdict, with_seconds, without_comparison
from auricle_cloud.rounds.inquiry_memory import DetectionMemory, Suspect, inquire
from auricle_cloud.states.report import Document
from auricle_fleet.virtual.cohort import Cohorts
from auricle_fleet.virtual.crew import Asked, Crew, Question
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import FIRST, NOT_JUDGED, REPAIR, Judged, Maker, Order
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.server_optimizer import OptimizerSettings


class _Kept(msgspec.Struct, frozen=True):
    """All of it, as a checkpoint has it."""

    reference: float | None
    previous: int | None
    harmful: dict[str, int]
    trained: dict[str, int]
    maker: Maker
    older: Maker


class VirtualDetection:
    """What looks for who poisons a run.

    Parameters
    ----------
    judge
        Of the run.
    server_of
        The server optimizer's settings in a round.
    cohorts
        Reads updates.
    clock
        Says how long the two steps took.
    """

    def __init__(
        self,
        judge: Judge,
        server_of: Callable[[int], OptimizerSettings],
        cohorts: Cohorts,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._judge, self._settings, self._server_of, self._cohorts = judge, judge.settings, server_of, cohorts
        self._clock = clock
        self._memory = DetectionMemory()
        self.trained: dict[str, int] = {}
        """The last round in which each device trained: of its clips it says its loss."""
        self._maker = self._older = FIRST
        """Of the current model, and of the one before it."""

    @property
    def barred(self) -> frozenset[str]:
        """Devices that take no more part."""
        return self._memory.barred(self._settings.quarantine_after)

    def passed_over(self) -> dict[str, str]:
        """Why devices cannot be invited, for a round's report."""
        return self._memory.passed_over(self._settings.quarantine_after)

    def score(self, weights: Flat) -> tuple[float, float]:
        """Accuracy and loss of a model (P,) on the operator's clips."""
        found = self._judge.evaluator.scores(weights[None])
        return float(found.accuracy[0]), float(found.loss[0])

    def said(self, told: Mapping[str, tuple[float, int]]) -> dict[str, SaidLoss]:
        """The losses that a coordinator takes, of those that devices say, each with its number of clips."""
        limits = self._cohorts.limits
        return {
            name: SaidLoss(loss if 0 <= loss <= limits.loss else None, samples)
            for name, (loss, samples) in sorted(told.items())
            if 1 <= samples <= limits.samples
        }

    def ask(self, order: Order, invited: Sequence[str], model: Model, crew: Crew, deadline: float) -> Judged:
        """Two-phase rounds: what comes of the losses that devices say of a model before they train.

        Parameters
        ----------
        order
            What the round is told.
        invited, model
            Who is, and what it begins with.
        crew
            Asks them.
        deadline
            Of the round, in seconds.
        """
        if self._settings.one_phase:
            return NOT_JUDGED
        if not self._settings.losses:
            return self._inquire(order.number, with_seconds(without_comparison(), 0.0), model)
        begun = self._clock.monotonic()
        fleet, size, wait = self._cohorts.fleet, model.weights.nbytes, min(self._settings.wait, deadline)
        times = {name: fleet[name].says_loss(order.began, size) for name in invited}
        names = [name for name, at in times.items() if at is not None and at <= wait]
        trained = {name: self.trained.get(name, 0) for name in names}
        question = Question(model.weights, order.plan.inference_loss, trained)
        answers = crew.answers(question, [Asked(fleet[name].place, name, None) for name in names])
        said = self.said(dict(zip(names, answers, strict=True)))
        seconds = max((times[name] or 0.0 for name in said), default=0.0) if len(said) == len(times) else wait
        judged = self.look(order.number, {name: one.loss for name, one in said.items()}, model, begun)
        return replace(judged, losses=said, fetched=size, seconds=seconds)

    def in_passing(self, order: Order, judged: Judged, came: Sequence[Update], model: Model) -> tuple[Judged, Model]:
        """One-phase rounds: what comes of the losses that came with updates, and what the round goes on from.

        Parameters
        ----------
        order, model
            As of `ask`.
        judged
            What is known of it already.
        came
            The updates that count.
        """
        if not self._settings.one_phase:
            return judged, model
        judged = self.look(order.number, {update.device: update.loss for update in came}, model)
        if judged.repaired is None or judged.detection is None:
            return judged, model
        return replace(judged, detection={**judged.detection, "trained_from": model.base}), judged.repaired

    def look(self, number: int, losses: Mapping[str, float | None], model: Model, begun: float | None = None) -> Judged:
        """Compare the losses of the model that a round began with, and after an alarm find who is to blame.

        Parameters
        ----------
        number
            Of the round.
        losses
            By device; None: not a finite number.
        model
            The one that is suspected.
        begun
            When the losses were asked for, of its clock; None: they came by themselves.
        """
        begun = self._clock.monotonic() if begun is None else begun
        told = with_seconds(self._memory.compare(losses), self._clock.monotonic() - begun)
        return self._inquire(number, told, model) if told["fires"] else Judged(told)

    def _inquire(self, number: int, told: Document, model: Model) -> Judged:
        """Find who is to blame for a model, after a comparison or without one."""
        found = inquire(self._judge, number, self._suspect(model), self._clock)
        repaired = None if found.weights is None else Model(found.weights, found.optimizer)
        blamed = {name: self._memory.harmful.get(name, 0) + 1 for name in found.bad}
        limit = self._settings.quarantine_after
        barred = frozenset(name for name, count in blamed.items() if is_barred(count, limit))
        return Judged(verdict(told, found), repaired=repaired, barred=barred)

    def _suspect(self, model: Model) -> Suspect:
        maker, size = self._maker, model.weights.size
        if maker.before is None:
            return Suspect(lambda: model.weights, maker.origin, maker.number)
        weights, kept = decode(maker.before[0], size), maker.before[1] or None
        again = None if maker.updates is None else lambda: self._cohort(maker, Model(weights, kept))
        before = Before(maker.version, weights, kept)
        return Suspect(lambda: model.weights, maker.origin, maker.number, before, again, self._server_of(maker.number))

    def _cohort(self, maker: Maker, start: Model) -> Cohort:
        """The updates of a round that has made a model, as it counted them."""
        assert maker.plan is not None
        sent = None if maker.trained_from is None else decode(maker.trained_from, start.weights.size)
        base = start.weights if sent is None else sent
        read = self._cohorts.weights
        counted = [(update, body, read(update, body, base, maker.plan)) for update, body in maker.updates or ()]
        return self._cohorts.build(counted, maker.plan, maker.number, start, sent)

    def take(
        self, judged: Judged, made: Maker | None, *, went_back: bool, number: int, trained: Mapping[str, object]
    ) -> None:
        """Take over what came of a round.

        Parameters
        ----------
        judged
            What detection said in it.
        made
            What made the next model; None: the round was given up.
        went_back
            Whether the next round begins with the model before.
        number, trained
            Of the round, and the devices that trained in it.
        """
        if judged.detection is not None:
            self._memory = self._memory.after(judged.detection)
        self.trained.update(dict.fromkeys(trained, number))
        if judged.repaired is not None:
            self._maker, self._older = REPAIR, FIRST
        if made is not None:
            self._older = msgspec.structs.replace(self._maker, updates=None, trained_from=None)
            self._maker = made
        elif went_back:
            self._maker = self._older

    def to_bytes(self) -> bytes:
        """All of it, for a run that goes on."""
        memory = self._memory
        kept = _Kept(memory.reference, memory.previous, dict(memory.harmful), self.trained, self._maker, self._older)
        return msgspec.msgpack.encode(kept)

    def restore(self, data: bytes) -> None:
        """Take up what `to_bytes` gave; StorageError where it cannot be read."""
        if not data:  # before the first round
            return
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except UNDECODABLE as error:
            raise StorageError(
                "What detection knew is damaged, so that this run cannot go on: begin another."
            ) from error
        self._memory, self.trained = DetectionMemory(kept.reference, kept.previous, kept.harmful), kept.trained
        self._maker, self._older = kept.maker, kept.older


def maker_of(order: Order, judged: Judged, start: Model, sent: Model, updates: Sequence[tuple[Update, bytes]]) -> Maker:
    """What detection has to know of a round that makes a model.

    Parameters
    ----------
    start, sent
        The model that the round goes on from, and the one that its devices trained from.
    updates
        Those that it counts, and their bodies.
    """
    version = order.version if judged.repaired is None else order.newest + 1
    return Maker(
        "round",
        order.number,
        version,
        before=(encode(start.weights), start.kept or b""),
        plan=order.plan,
        updates=tuple(updates),
        trained_from=None if start is sent else encode(sent.weights),
    )
