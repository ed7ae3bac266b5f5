"""One synchronous round without links: who is invited, who answers in time, and the model that comes of it.

It closes on a clock that only counts, by the coordinator's own rule and without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from auricle.errors import AuricleError, WireError
from auricle.wire.messages import Invite, Update
from auricle.wire.tensors import Flat
from auricle.wire.update_codec import length_of
from auricle.wire.vectors import bytes_of
from auricle_cloud.rounds.cohort_choice import broken_report
from auricle_cloud.rounds.cohort_progress import Doubts
from auricle_cloud.rounds.model_check import UnsoundModelError, make_model
from auricle_cloud.rounds.policy import Timing, total_failure
from auricle_cloud.states.selection import choose
from auricle_fleet.virtual.client import BOOT, FLEET, Answer
from auricle_fleet.virtual.clock import Heard, RoundEnd, heard_of, round_end
from auricle_fleet.virtual.cohort import Cohorts
from auricle_fleet.virtual.crew import Asked, Call, Crew
from auricle_fleet.virtual.detection import VirtualDetection, maker_of
from auricle_fleet.virtual.device import Work
from auricle_fleet.virtual.model import Model, explain_model, own_models
from auricle_fleet.virtual.order import NOT_JUDGED, TASK, Ended, Judged, Order
from auricle_fleet.virtual.privacy import VirtualPrivacy
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.train import LocalState


@dataclass(eq=False)
class _Answers:
    """What came of the invitations to a round."""

    answers: dict[str, Answer] = field(default_factory=dict)
    updates: dict[str, tuple[Update, Flat]] = field(default_factory=dict)
    """Those that can count, with their weights (P,)."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why others cannot."""
    arrivals: dict[str, float] = field(default_factory=dict)
    """Seconds after the invitation at which who is not refused answers."""
    end: RoundEnd = field(default_factory=lambda: RoundEnd(None, 0.0))

    @property
    def reasons(self) -> dict[str, str]:
        """Why devices have no update."""
        return {name: answer.reason for name, answer in self.answers.items() if answer.update is None}

    @property
    def doubts(self) -> Doubts:
        """Which devices find the round's model worse than one they had."""
        found = Doubts()
        for name, answer in self.answers.items():
            found.hear(name, answer.doubt or "")
        return found


@dataclass(frozen=True, eq=False)
class VirtualRounds:
    """Makes the rounds of one run.

    Parameters
    ----------
    cohorts
        The devices, and what counts of what they send.
    timing
        As of a coordinator.
    crew
        Who trains the devices.
    state
        Gives what a device has learnt; None: nothing yet.
    detection
        Looks for who poisons; None: nobody does.
    work
        What rounds ask of devices; None: training takes no time.
    privacy
        What rounds with noise give away; None: they have none.
    """

    cohorts: Cohorts
    timing: Timing
    crew: Crew
    state: Callable[[str], LocalState | None]
    detection: VirtualDetection | None = None
    work: Work | None = None
    privacy: VirtualPrivacy | None = None

    def run(self, order: Order, model: Model, before: Model | None) -> Ended:
        """Make a round.

        Parameters
        ----------
        order
            What it is told.
        model, before
            The newest model, and the one that it was made from.

        Raises
        ------
        TrainingStopped
            The run ends.
        AuricleError
            All devices failed.
        """
        detection, judged = self.detection, NOT_JUDGED
        able, invited = self._invited(order)
        if order.refusal is not None:
            report = {**self._report(order, [], able, _Answers(), 0.0), "reason": order.refusal}
            return Ended(invited=(), answers={}, fetched=0, report=report, lasted=0.0, heard=Heard(), judged=judged)
        if detection is not None:
            judged = detection.ask(order, invited, model, self.crew, self.timing.deadline)
        if judged.repaired is not None:
            model, before = judged.repaired, None
        beside, fetched = self.cohorts.beside(order.plan, model)
        if not judged.losses or judged.repaired is not None:  # who was asked for its loss has the model
            fetched += model.weights.nbytes
        later = replace(order, began=order.began + judged.seconds)
        came = self._collect(later, invited, model, beside, fetched, judged.barred)
        seconds, doubts = judged.seconds + came.end.seconds, came.doubts
        report = self._report(order, invited, able, came, seconds) | {"detection": judged.detection}
        failure = total_failure(order.number, invited, came.reasons)
        if failure is not None:
            raise AuricleError(failure)
        ended = partial(
            Ended,
            invited=tuple(invited),
            answers=came.answers,
            fetched=fetched,
            lasted=seconds,
            heard=heard_of(came.updates, came.refused, came.arrivals, came.end),
        )
        if doubts.prevail(invited) and before is not None:
            reason = f"{len(doubts.said)} of {len(invited)} devices find the model worse than one they had before"
            return ended(went_back=True, judged=judged, report={**report, "reason": reason})
        if came.end.names is None:
            return ended(judged=judged, report={**report, "reason": came.end.reason})
        return self._aggregate(order, model, judged, came, came.end.names, report, ended)

    def _invited(self, order: Order) -> tuple[int, list[str]]:
        """How many devices can take part, and who of them is asked to."""
        barred = frozenset() if self.detection is None else self.detection.barred
        there = (device for device in self.cohorts.fleet.values() if device.device not in barred)
        able = [device for device in there if device.comes(order.began) <= order.began]
        if order.drawn is not None:
            return len(able), list(order.drawn)
        return len(able), choose(able, order.size, f"{order.seed}/{order.number}")

    def _report(
        self, order: Order, invited: Sequence[str], able: int, came: _Answers, seconds: float
    ) -> dict[str, object]:
        """What a round's report says before there is a model."""
        rule, slow = self.cohorts.rule, [name for name in order.slow if name in {*invited}]
        return {
            "invited": invited,
            "failed": came.reasons,
            "rule": rule.name,
            "rule_options": rule.options,
            "wanted": order.wanted,
            "clock": {"began": order.began, "lasted": seconds, "available": able},
            "doubts": came.doubts.as_report(),
            **({"waits_for": slow} if slow else {}),
            **broken_report({name: rounds for name, rounds in order.broken.items() if name in {*invited}}),
            **({} if self.detection is None else {"passed_over": self.detection.passed_over()}),
            **({} if self.privacy is None else self.privacy.report(order)),
        }

    def _aggregate(
        self,
        order: Order,
        sent: Model,
        judged: Judged,
        came: _Answers,
        names: Sequence[str],
        report: dict[str, object],
        ended: Callable[..., Ended],
    ) -> Ended:
        """Make the next model of the updates of these devices, which trained from `sent`."""
        detection, cohorts, start, before = self.detection, self.cohorts, sent, judged
        updates = [came.updates[name] for name in sorted(names)]
        counted = [(update, came.answers[update.device].body, weights) for update, weights in updates]
        headers = [update for update, _ in updates]
        if detection is not None:
            judged, start = detection.in_passing(order, judged, headers, sent)
        trained_from = None if start is sent else sent.weights
        cohort = cohorts.build(counted, order.plan, order.number, start, trained_from)
        make = partial(next_model, cohort, cohorts.rule, order.server, cohorts.optimizer(start))
        try:
            made = make_model(make, start.weights, cohorts.limits, cohorts.rule.name)
        except UnsoundModelError as error:
            return ended(judged=before, report={**report, "reason": str(error)})
        scores = {name: came.answers[name].scores for name in names}
        report = {**report, **explain_model(made.aggregate, headers, scores), "detection": judged.detection}
        if self.privacy is not None:
            report |= self.privacy.report_model(order, len(made.aggregate.ids))
        maker = None
        if detection is not None:
            report["accuracy"], report["loss"] = detection.score(made.evaluated)
            maker = maker_of(order, judged, start, sent, [(update, body) for update, body, _ in counted])
        out = len(made.aggregate.left_out)
        return ended(
            model=Model(made.weights, made.kept, own_models(start, made.aggregate)),
            counted=len(names) - out,
            left_out=out,
            report=report,
            evaluated=None if made.aggregate.evaluated is None else made.evaluated,
            judged=judged,
            maker=maker,
            cohort=cohort,
        )

    def _collect(
        self, order: Order, invited: list[str], model: Model, beside: LentData, fetched: int, barred: frozenset[str]
    ) -> _Answers:
        """Have devices train until the round ends.

        Whoever comes too late is called off and does not train. Who fails or is `barred` makes room for a later one.
        """
        cohorts, found, failed = self.cohorts, _Answers(), dict[str, float]()
        table = cohorts.pack.plugin_table
        sent = length_of(table, order.plan.codec) + bytes_of(cohorts.due(order.plan))
        for name in invited:
            at = cohorts.fleet[name].arrival(order.number, order.began, sent, fetched, self.work)
            if at is not None:
                found.arrivals[name] = at
        invite = Invite(
            fleet=FLEET,
            device="coordinator",
            boot=BOOT,
            task=TASK,
            round=order.number,
            epoch=1,
            base=model.base,
            ttl=self.timing.deadline,
            plan=order.plan,
            length=4 * table.size,
            codec="float32",
            chunks=1,
        )
        slow, broken = order.slow.keys() & {*invited}, len(order.broken.keys() & {*invited})
        while True:
            found.end = round_end(found.arrivals, failed, len(invited), order.wanted, self.timing, slow, broken)
            due = found.arrivals if found.end.names is None else found.end.names
            asked = [name for name in due if name not in found.answers]
            if not asked:
                return found
            call = Call(invite, model.weights, model.own, beside)
            told = [Asked(cohorts.fleet[name].place, name, self.state(name)) for name in asked]
            for name, answer in zip(asked, self.crew.answers(call, told), strict=True):
                found.answers[name] = answer
                weights = self._checked(answer, model.start(name), order, found.refused)
                if weights is not None and name in barred:
                    weights, found.refused[name] = None, "quarantined"
                if answer.update is None or weights is None:
                    failed[name] = found.arrivals.pop(name)
                else:
                    found.updates[name] = answer.update, weights

    def _checked(self, answer: Answer, base: Flat, order: Order, refused: dict[str, str]) -> Flat | None:
        """The weights that a coordinator would count; None where it refuses them, for a reason that is noted."""
        if answer.update is None:
            return None
        try:
            return self.cohorts.weights(answer.update, answer.body, base, order.plan)
        except WireError as error:
            refused[answer.update.device] = str(error)
            return None
