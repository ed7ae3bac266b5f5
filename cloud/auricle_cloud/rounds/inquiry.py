"""Was a model poisoned, by whom, and what takes its place: FedVSA's detection (6.2-6.4) on values alone.

Who asks knows where cohorts, models and losses are kept; nothing here does. `Judgement` asks for a coordinator's
rounds, and the virtual engine of `fleet` for its own, so that both blame the same devices and repair alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from auricle.wire.tensors import Flat
from auricle_cloud.detection.alarm import alarm, believed, next_reference, set_aside
from auricle_cloud.detection.coalitions import loss_models, rule_models, worth
from auricle_cloud.detection.repair import Repair, hotfix, reaggregate
from auricle_cloud.detection.shapley import Shapley, shapley
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.rounds.model_check import UnsoundModelError, require_model
from auricle_cloud.settings import Detection, Limits
from auricle_cloud.states.report import Document
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods.plugins import RuleError

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
    seconds: float = 0.0
    """That finding it took."""


@dataclass(frozen=True, eq=False)
class Before:
    """The model that a judged round began with."""

    version: int
    weights: Flat
    """(P,)"""
    optimizer: bytes | None = field(repr=False)
    """The `ServerState` kept with it."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the rounds of one run.

    Parameters
    ----------
    settings
        How to judge and repair.
    rule
        That made their models.
    evaluator
        Accuracy on the operator's validation set.
    seed
        Of the run.
    limits
        What an update may be, and so a model.
    """

    settings: Detection
    rule: BoundedRule
    evaluator: Evaluator
    seed: int
    limits: Limits = field(default_factory=Limits)

    def find(
        self,
        cohort: Cohort,
        number: int,
        before: Before,
        sent: Flat,
        server: OptimizerSettings,
        progress: Progress = lambda *_: None,
    ) -> Found:
        """Find who poisoned a model, by the Shapley values of its round (eq. 13), and make one without them (A44).

        Parameters
        ----------
        cohort, number
            The round that made it.
        before
            The model that this round began with.
        sent
            (P,) the model that it made.
        server
            The server optimizer's settings in it.
        progress
            Told how far it is.
        """
        try:
            values = self._shapley(cohort, number, progress)
        except RuleError as error:
            return last_good(number, before, f"Nobody can be named, {str(error).rstrip('.')}")
        phi = zip(cohort.ids, values.phi.tolist(), values.error.tolist(), strict=True)
        detail: Document = {
            "judged_round": number,
            "method": "exact" if values.permutations is None else "monte-carlo",
            "bad": list(values.bad),
            "shapley": {name: {"value": value, "error": error} for name, value, error in phi},
            "efficiency_gap": values.efficiency_gap,
            "evaluations": values.evaluations,
            "accuracy_before": self._accuracy(sent),
        }
        if not values.bad:
            cost = f"cost more accuracy than {self.settings.margin:g}"
            return Found(f"Nobody in round {number} {cost}: the model stays.", {**detail, "repair": None})
        try:
            repair = self._repair(cohort, values.bad, before, server)
            made = NextModel(np.asarray(repair.weights, np.float32), repair.optimizer, repair.aggregate)
            require_model(made, before.weights, self.limits, self.rule.name)
        except (RuleError, UnsoundModelError):
            return last_good(number, before, f"Without {', '.join(values.bad)} the model could not be published")
        after = self._accuracy(made.weights)
        sentence = (
            f"Round {number} was poisoned by {', '.join(values.bad)}. {repair.sentence} "
            f"Validation accuracy {detail['accuracy_before']:.3f} -> {after:.3f}."
        )
        kind = "re-aggregated" if self.settings.repair == "re-aggregate" else "hotfix"
        optimizer = None if repair.optimizer is None else repair.optimizer.to_bytes()
        detail |= {"repair": kind, "accuracy_after": after}
        return Found(sentence, detail, values.bad, made.weights, optimizer, before.version)

    def _accuracy(self, weights: Flat) -> float:
        return float(self.evaluator.scores(weights[None]).accuracy[0])

    def _shapley(self, cohort: Cohort, number: int, progress: Progress) -> Shapley:
        cohort, rule = self.rule.game(cohort)
        set_to = self.rule.options
        options: Document = {option: set_to[option] for option in ("clip", "limit") if option in set_to}
        models = loss_models(cohort, **options) if self.rule.rule.by_losses else rule_models(cohort, rule)
        game = worth(cohort, models, lambda batch: self.evaluator.scores(batch).accuracy)
        return shapley(
            cohort.ids,
            game,
            np.random.default_rng([self.seed, number]),
            permutations=self.settings.permutations,
            tolerance=self.settings.tolerance,
            margin=self.settings.margin,
            progress=progress,
        )

    def _repair(self, cohort: Cohort, bad: tuple[str, ...], before: Before, server: OptimizerSettings) -> Repair:
        state = ServerState.from_bytes(before.optimizer, before.weights.size).optimizer
        if self.settings.repair == "re-aggregate":
            return reaggregate(cohort, bad, self.rule, server, state)
        return hotfix(cohort, self.rule(cohort), bad, server, state, tau=self.settings.tau)


def last_good(number: int, before: Before, why: str) -> Found:
    """Go back to the model that a round began with, where nobody can be named.

    Parameters
    ----------
    number
        Of the round.
    why
        A sentence without its full stop.
    """
    sentence = f"{why}: back to the last good model, version {before.version}."
    detail: Document = {"judged_round": number, "method": "last good model", "repair": "rolled back"}
    detail |= {"shapley": {}, "bad": []}
    return Found(sentence, detail, (), before.weights, before.optimizer, before.version)


def not_judged(number: int, origin: str) -> Found:
    """What comes of an alarm about the model of round `number` where no round made it, but its `origin` did."""
    sentence = f"The model of round {number} was not made by a round ({origin}): it stays."
    return Found(sentence, {"method": "none", "repair": None})


def leave_model(why: str) -> Found:
    """What comes of a model that nobody complained of and that cannot be judged; `why` as of `last_good`."""
    return Found(f"{why}: it stays.", {"method": "none", "repair": None})


def without_comparison() -> Document:
    """As of `compared`, where no losses are: whether it fires is known when the model was judged."""
    nothing: Document = {"reference": None, "losses": {}, "set_aside": [], "votes": [], "fires": False}
    return {**nothing, "sentence": "", "warning": None, "false_alarm": 0.0, "next_reference": None}


def with_seconds(comparison: Document, seconds: float) -> Document:
    """A comparison with the seconds that it took, for the report."""
    return {**comparison, "seconds": {"comparison": round(seconds, 6), "shapley": 0.0}}


def compared(said: Mapping[str, float | None], reference: float | None, previous: int | None) -> Document:
    """Compare the losses of a round's model with the reference (eq. 12), without those that nobody believes.

    Parameters
    ----------
    said
        By device; None: not a finite number.
    reference, previous
        As of `alarm`.
    """
    losses = _numbers(said)
    doubted = set_aside(losses)
    losses = {name: loss for name, loss in losses.items() if name not in doubted}
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


def verdict(comparison: Document, found: Found) -> Document:
    """What was found in all, for the report: in a comparison whose alarm fired, or without one, and after it."""
    detection = {**comparison, **found.detail, "sentence": f"{comparison.get('sentence', '')} {found.sentence}".strip()}
    detection["seconds"] = {**comparison.get("seconds", {}), "shapley": round(found.seconds, 6)}
    detection["fires"] = comparison.get("fires", True) or found.weights is not None
    if found.weights is None and "shapley" in found.detail:
        # Nobody is to blame, so these losses are those of a clean model.
        losses = believed(_numbers(comparison["losses"]))
        detection["next_reference"] = next_reference(comparison["reference"], losses, fired=False)
    return detection


def _numbers(said: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if loss is None else loss for name, loss in said.items()}
