"""Detection of harmful updates without links: what a coordinator keeps of it in its database, a run keeps here.

Verdicts and repairs are those of `auricle_cloud.rounds.inquiry`, with the same seeds: both engines blame the same
devices and go on from the same models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from auricle.errors import StorageError
from auricle.wire.messages import Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, decode, encode
from auricle_cloud.rounds.blame import barred_for, is_barred
from auricle_cloud.rounds.finished import SaidLoss
from auricle_cloud.rounds.inquiry import Before, Found, Judge, compared, last_good, not_judged, reference_after, verdict
from auricle_cloud.settings import Limits
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import FIRST, REPAIR, Judged, Maker
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.server_optimizer import OptimizerSettings


class _Made(msgspec.Struct, frozen=True):
    """A `Maker` as it is kept; the models' weights as they travel."""

    origin: str
    number: int
    version: int
    before: tuple[bytes, bytes] | None
    plan: Plan | None
    updates: tuple[tuple[Update, bytes], ...] | None
    trained_from: bytes | None


class _Kept(msgspec.Struct, frozen=True):
    """A `Watch` as it is kept."""

    reference: float | None
    previous: int | None
    harmful: dict[str, int]
    trained: dict[str, int]
    maker: _Made
    older: _Made


class Watch:
    """What detection knows between two rounds.

    Parameters
    ----------
    judge
        Of the run.
    server_of
        The server optimizer's settings in a round.
    limits
        What devices may claim.
    """

    def __init__(self, judge: Judge, server_of: Callable[[int], OptimizerSettings], limits: Limits) -> None:
        self.judge, self._server_of, self._limits = judge, server_of, limits
        self._reference: tuple[float | None, int | None] = None, None
        self._harmful: dict[str, int] = {}
        self.trained: dict[str, int] = {}
        """The last round in which each device trained: of its clips it says its loss."""
        self._maker = self._older = FIRST
        """Of the current model, and of the one before it."""

    @property
    def barred(self) -> frozenset[str]:
        """Devices that take no more part."""
        limit = self.judge.settings.quarantine_after
        return frozenset(name for name, count in self._harmful.items() if is_barred(count, limit))

    def passed_over(self) -> dict[str, str]:
        """Why devices cannot be invited, for a round's report."""
        return {name: f"is quarantined: {barred_for(self._harmful[name])}" for name in sorted(self.barred)}

    def score(self, weights: Flat) -> tuple[float, float]:
        """Accuracy and loss of a model (P,) on the operator's clips."""
        found = self.judge.evaluator.scores(weights[None])
        return float(found.accuracy[0]), float(found.loss[0])

    def said(self, told: Mapping[str, tuple[float, int]]) -> dict[str, SaidLoss]:
        """The losses that a coordinator takes, of those that devices say, each with its number of clips."""
        limits = self._limits
        return {
            name: SaidLoss(loss if 0 <= loss <= limits.loss else None, samples)
            for name, (loss, samples) in sorted(told.items())
            if 1 <= samples <= limits.samples
        }

    def look(
        self, number: int, losses: Mapping[str, float | None], cohort_of: Callable[[Maker], Cohort], model: Model
    ) -> Judged:
        """Compare the losses of the model that a round began with, and after an alarm find who is to blame.

        Parameters
        ----------
        number
            Of the round.
        losses
            By device; None: not a finite number.
        cohort_of
            Reads the updates of the round that made the model.
        model
            The one that is suspected.
        """
        told = compared(losses, *self._reference)
        if not told["fires"]:
            return Judged(told)
        found = self._find(number, cohort_of, model)
        repaired = None if found.weights is None else Model(found.weights, found.optimizer)
        blamed = {name: self._harmful.get(name, 0) + 1 for name in found.bad}
        limit = self.judge.settings.quarantine_after
        barred = frozenset(name for name, count in blamed.items() if is_barred(count, limit))
        return Judged(verdict(told, found), repaired=repaired, barred=barred)

    def _find(self, number: int, cohort_of: Callable[[Maker], Cohort], model: Model) -> Found:
        maker = self._maker
        if maker.origin != "round" or maker.before is None:
            return not_judged(number, maker.origin)
        before = Before(maker.version, maker.before.weights, maker.before.kept)
        if maker.updates is None:
            return last_good(maker.number, before, f"The updates of round {maker.number} are not kept any more")
        server = self._server_of(maker.number)
        return self.judge.find(cohort_of(maker), maker.number, before, model.weights, server)

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
        told = judged.detection
        if told is not None:
            self._reference = reference_after(told)
            for name in told.get("bad", ()) if told["fires"] else ():
                self._harmful[name] = self._harmful.get(name, 0) + 1
        self.trained.update(dict.fromkeys(trained, number))
        if judged.repaired is not None:
            self._maker, self._older = REPAIR, FIRST
        if made is not None:
            self._maker, self._older = made, replace(self._maker, updates=None, trained_from=None)
        elif went_back:
            self._maker = self._older

    def to_bytes(self) -> bytes:
        """All of it, for a run that goes on."""
        maker, older = _plain(self._maker), _plain(self._older)
        return msgspec.msgpack.encode(_Kept(*self._reference, self._harmful, self.trained, maker, older))

    def restore(self, data: bytes, size: int) -> None:
        """Take up what `to_bytes` gave.

        Parameters
        ----------
        size
            P.

        Raises
        ------
        StorageError
            It cannot be read.
        """
        if not data:  # before the first round
            return
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except msgspec.MsgspecError as error:
            raise StorageError(
                "What detection knew is damaged, so that this run cannot go on: begin another."
            ) from error
        self._reference, self._harmful, self.trained = (kept.reference, kept.previous), kept.harmful, kept.trained
        self._maker, self._older = _maker(kept.maker, size), _maker(kept.older, size)


def ask(
    watch: Watch,
    times: Mapping[str, float | None],
    wait: float,
    losses_of: Callable[[list[str]], Iterable[tuple[float, int]]],
) -> tuple[dict[str, SaidLoss], float]:
    """Two-phase rounds: the losses of a round's model that devices say in time, and how long that takes.

    Parameters
    ----------
    watch
        Says which of them are taken.
    times
        Seconds after the question at which each device answers; None: it does not.
    wait
        Seconds after which nobody is waited for any more.
    losses_of
        The loss that each of some devices says, and of how many clips.
    """
    names = [name for name, at in times.items() if at is not None and at <= wait]
    said = watch.said(dict(zip(names, losses_of(names), strict=True)))
    return said, max((times[name] or 0.0 for name in said), default=0.0) if len(said) == len(times) else wait


def put_onto(start: Flat, sent: Flat, weights: Flat) -> Flat:
    """What an update (P,) that was trained from the model `sent` (P,) is worth after another one (P,), as (P,)."""
    return np.asarray(start + (weights.astype(np.float64) - sent), np.float32)


def _plain(made: Maker) -> _Made:
    before = None if made.before is None else (encode(made.before.weights), made.before.kept or b"")
    sent = None if made.trained_from is None else encode(made.trained_from)
    return _Made(made.origin, made.number, made.version, before, made.plan, made.updates, sent)


def _maker(kept: _Made, size: int) -> Maker:
    before = None if kept.before is None else Model(decode(kept.before[0], size), kept.before[1] or None)
    sent = None if kept.trained_from is None else decode(kept.trained_from, size)
    return Maker(kept.origin, kept.number, kept.version, before, kept.plan, kept.updates, sent)
