"""One synchronous round without links: who is invited, who answers in time, and the model that comes of it.

It closes on a clock that only counts, by the coordinator's own rule and without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.errors import AuricleError, WireError
from auricle.packs.pack import Pack
from auricle.wire.messages import Invite, Update
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import Flat
from auricle.wire.update_codec import length_of
from auricle.wire.vectors import Declared, bytes_of, split_vectors
from auricle_cloud.evaluation.labelled_clips import LabelledClips
from auricle_cloud.link.update_checks import require_body, require_header
from auricle_cloud.rounds.cohort_choice import broken_report
from auricle_cloud.rounds.cohort_progress import Doubts
from auricle_cloud.rounds.model_check import UnsoundModelError, require_model
from auricle_cloud.rounds.policy import Timing, total_failure
from auricle_cloud.rounds.read_cohort import with_labels, with_vectors
from auricle_cloud.settings import Limits
from auricle_cloud.states.selection import choose
from auricle_fleet.virtual.client import BOOT, FLEET, Answer, Beside
from auricle_fleet.virtual.clock import Heard, RoundEnd, heard_of, round_end
from auricle_fleet.virtual.crew import Asked, Call, Crew
from auricle_fleet.virtual.detection import Watch, put_onto
from auricle_fleet.virtual.device import VirtualDevice, Work
from auricle_fleet.virtual.inquiry import asked, in_passing, maker_of, told_of
from auricle_fleet.virtual.model import Model, explained, own_models, starts
from auricle_fleet.virtual.order import TASK, Ended, Order
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.caps import total_of
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.extras import MAGIC, Extras, RuleState
from auricle_learning.aggregation.feature_synthesis import lent_after
from auricle_learning.aggregation.next_model import next_model, optimizer_in
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.methods.passes import planned_steps
from auricle_learning.methods.vectors import declared, lent_sizes, method_of
from auricle_learning.training.train import LocalState


@dataclass(frozen=True, eq=False)
class VirtualRounds:
    """Makes the rounds of one run.

    Parameters
    ----------
    pack
        Whose plug-in it is.
    fleet
        The devices, by name.
    rule, limits, timing, labelled
        As of a coordinator.
    crew
        Who trains the devices.
    state
        Gives what a device has learnt; None: nothing yet.
    watch
        Looks for who poisons; None: nobody does.
    work
        What rounds ask of devices; None: training takes no time.
    """

    pack: Pack
    fleet: Mapping[str, VirtualDevice]
    rule: BoundedRule
    limits: Limits
    timing: Timing
    labelled: LabelledClips
    crew: Crew
    state: Callable[[str], LocalState | None]
    watch: Watch | None = None
    work: Work | None = None

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
        barred = self.watch.barred if self.watch is not None else frozenset()
        there = (device for device in self.fleet.values() if device.device not in barred)
        able = [device for device in there if device.comes(order.began) <= order.began]
        invited = choose(able, order.size, f"{order.seed}/{order.number}")
        judged = asked(self, order, invited, model)
        if judged.repaired is not None:
            model, before = judged.repaired, None
        lent = self._lent(model)
        vectors = self._vectors(order, model)
        has_it = bool(judged.losses) and judged.repaired is None  # the model, since it was asked for its loss
        fetched = len(lent) + sum(vector.nbytes for vector in vectors.values())
        fetched += 0 if has_it else 4 * self.pack.plugin_table.size
        later = replace(order, began=order.began + judged.seconds)
        beside = self._beside(lent, vectors)
        answers, updates, end, heard = self._answers(later, invited, model, beside, fetched, judged.barred)
        names, seconds = end.names, judged.seconds + end.seconds
        failed = {name: answer.reason for name, answer in answers.items() if answer.update is None}
        doubts = Doubts()
        for name, answer in answers.items():
            doubts.hear(name, answer.doubt or "")
        report: dict[str, object] = {
            "invited": invited,
            "failed": failed,
            "rule": self.rule.name,
            "rule_options": dict(self.rule.options),
            "wanted": order.wanted,
            "clock": {"began": order.began, "lasted": seconds, "available": len(able)},
            "doubts": doubts.reported(),
            "detection": judged.detection,
            **({"waits_for": slow} if (slow := [name for name in order.slow if name in {*invited}]) else {}),
            **broken_report({name: rounds for name, rounds in order.broken.items() if name in {*invited}}),
            **({} if self.watch is None else {"passed_over": self.watch.passed_over()}),
        }
        failure = total_failure(order.number, invited, failed)
        if failure is not None:
            raise AuricleError(failure)
        if doubts.prevail(invited) and before is not None:
            reason = f"{len(doubts.said)} of {len(invited)} devices find the model worse than one they had before"
            told = {**report, "reason": reason}
            return Ended(None, True, tuple(invited), 0, 0, answers, fetched, told, seconds, None, heard, judged)
        if names is None:
            told = {**report, "reason": end.reason}
            return Ended(None, False, tuple(invited), 0, 0, answers, fetched, told, seconds, None, heard, judged)
        table = self.pack.plugin_table
        weights = length_of(table, order.plan.codec)
        more = [split_vectors(answers[name].body, weights, updates[name][0].vectors or ())[1] for name in sorted(names)]
        came = [updates[name] for name in sorted(names)]
        asked_before = judged
        judged, start = in_passing(self, order, judged, [update for update, _ in came], model)
        if start is not model:
            came = [(update, put_onto(start.weights, model.weights, trained)) for update, trained in came]
        made = next_model(self.cohort(came, start, order, more), self.rule, order.server, self._optimizer(start))
        try:
            require_model(made.aggregate, made.weights, start.weights, self.limits)
        except UnsoundModelError as error:
            told = {**report, "reason": str(error)}
            return Ended(None, False, tuple(invited), 0, 0, answers, fetched, told, seconds, None, heard, asked_before)
        following = Model(made.weights, made.kept, own_models(start, made.aggregate))
        counted = [update for update, _ in came]
        told, out = {**report, **explained(made.aggregate, counted)}, len(made.aggregate.left_out)
        sent = [(update, answers[update.device].body) for update in counted]
        told, maker = told_of(self.watch, told, made), maker_of(self.watch, order, judged, start, model, sent)
        evaluated, count = None if made.aggregate.evaluated is None else made.evaluated, len(names) - out
        told["detection"] = judged.detection
        done = Ended(following, False, tuple(invited), count, out, answers, fetched, told, seconds, evaluated, heard)
        return replace(done, judged=judged, maker=maker)

    def _answers(
        self,
        order: Order,
        invited: list[str],
        model: Model,
        beside: Beside,
        fetched: int,
        barred: frozenset[str],
    ) -> tuple[dict[str, Answer], dict[str, tuple[Update, Flat]], RoundEnd, Heard]:
        """What devices answered, the updates that can count, how the round ended, and what a coordinator says of it.

        Whoever comes too late is called off and does not train. Who fails or is `barred` makes room for a later one.
        """
        due = self.due(order)
        sent = length_of(self.pack.plugin_table, order.plan.codec) + bytes_of(due)
        times = {
            name: self.fleet[name].arrival(order.number, order.began, sent, fetched, self.work) for name in invited
        }
        arrivals = {name: at for name, at in times.items() if at is not None}
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
            length=4 * self.pack.plugin_table.size,
            codec="float32",
            chunks=1,
        )
        answers: dict[str, Answer] = {}
        updates: dict[str, tuple[Update, Flat]] = {}
        failed: dict[str, float] = {}
        refused: dict[str, str] = {}
        while True:
            slow, broken = order.slow.keys() & {*invited}, len(order.broken.keys() & {*invited})
            end = round_end(arrivals, failed, len(invited), order.wanted, self.timing, slow, broken)
            asked = [name for name in (arrivals if end.names is None else end.names) if name not in answers]
            if not asked:
                return answers, updates, end, heard_of(updates, refused, arrivals, end)
            call = Call(invite, model.weights, model.own, beside)
            told = [Asked(self.fleet[name].place, name, self.state(name)) for name in asked]
            for name, answer in zip(asked, self.crew.answers(call, told), strict=True):
                answers[name] = answer
                weights = self._checked(answer, model.start(name), due, refused)
                if weights is not None and name in barred:
                    weights, refused[name] = None, "quarantined"
                if answer.update is None or weights is None:
                    failed[name] = arrivals.pop(name)
                else:
                    updates[name] = answer.update, weights

    def due(self, order: Order) -> tuple[Declared, ...]:
        """The vectors that updates may bring."""
        return declared(order.plan, self.pack, gradients=self.rule.rule.tuning is not None)

    def _vectors(self, order: Order, model: Model) -> dict[str, Flat]:
        """What the plan's method has go out with a model."""
        method = method_of(order.plan)
        return {} if method is None else method.sent(self._state(model), lent_sizes(order.plan, self.pack))

    def _lent(self, model: Model) -> bytes:
        """What devices are lent to tune their classifiers by, as it travels; empty where the rule has nothing of it."""
        tuning = self.rule.rule.tuning
        if tuning is None:
            return b""
        return lent_after(self._state(model), model.weights, self.pack.plugin_table, tuning).to_bytes()

    def _beside(self, lent: bytes, vectors: Mapping[str, Flat]) -> Beside:
        """What devices make of what comes beside the model."""
        shape = self.pack.plugin_table.specs[-2].shape
        return Beside(PriorKnowledge.from_bytes(lent, *shape) if lent else None, vectors)

    def _checked(self, answer: Answer, base: Flat, due: Sequence[Declared], refused: dict[str, str]) -> Flat | None:
        """The weights that a coordinator would count; None where it refuses them, for a reason that is noted."""
        if answer.update is None:
            return None
        try:
            require_header(answer.update, self.pack.plugin_table, self.limits, due)
            table, limits = self.pack.plugin_table, self.limits
            return require_body(answer.update, answer.body, base, table, limits, due, travelled=False)
        except WireError as error:
            refused[answer.update.device] = str(error)
            return None

    def _optimizer(self, model: Model) -> OptimizerState | None:
        """The server optimizer's state after a model; None before its first step, or where the rule is its step."""
        return optimizer_in(model.kept, self.pack.plugin_table.size)

    def _state(self, model: Model) -> RuleState | None:
        """The rule's state after a model; None before its first round, or where it keeps none."""
        if model.kept is None or not model.kept.startswith(MAGIC):
            return None
        return RuleState.from_bytes(model.kept, self.pack.plugin_table.size)

    def _extras(self, model: Model, order: Order, updates: list[Update], more: list[dict[str, Flat]]) -> Extras:
        """What rules may need beyond the updates."""
        found = Extras(
            steps=np.array([update.steps for update in updates], np.float64),
            rate=order.plan.rate,
            labelled=with_labels([(update.samples, update.unsupervised or 0) for update in updates]),
        )
        found = with_vectors(found, more, self.pack.plugin_table)
        if not self.rule.rule.needs:
            return found
        clips = [device.registered for device in self.fleet.values()]
        return replace(
            found,
            planned=planned_steps(self.pack, order.plan) if "steps" in self.rule.rule.needs else None,
            clients=len(self.fleet),
            total_samples=total_of(clips, self.rule.factor),
            state=self._state(model),
            round=order.number,
            objectives=self.labelled.objectives,
            reference_samples=float(self.labelled.count),
            starts=starts(model, [update.device for update in updates]),
        )

    def cohort(
        self, counted: list[tuple[Update, Flat]], model: Model, order: Order, more: list[dict[str, Flat]]
    ) -> Cohort:
        updates = [update for update, _ in counted]
        return Cohort.build(
            ids=[update.device for update in updates],
            weights=np.stack([weights for _, weights in counted]),
            samples=[update.samples for update in updates],
            losses=[update.loss for update in updates],
            start=model.weights,
            layers=layers_of((spec.name, spec.size, spec.layer) for spec in self.pack.plugin_table.specs),
            registered=[np.nan if update.unsupervised else self.fleet[update.device].registered for update in updates],
            extras=self._extras(model, order, updates, more),
        )
