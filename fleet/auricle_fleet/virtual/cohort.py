"""The updates of a round without links, held against what a coordinator takes, and what rules are given of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auricle.packs.pack import Pack
from auricle.wire.messages import Update
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import Flat
from auricle.wire.update_codec import length_of
from auricle.wire.vectors import Declared, split_vectors
from auricle_cloud.evaluation.labelled_clips import LabelledClips
from auricle_cloud.link.update_checks import require_body, require_header
from auricle_cloud.settings import Limits
from auricle_fleet.virtual.device import VirtualDevice
from auricle_fleet.virtual.model import Model, starts
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.feature_synthesis import lent_after
from auricle_learning.aggregation.inputs import ServerInputs, build_cohort, put_onto, with_training
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods.passes import planned_steps
from auricle_learning.methods.vectors import declared, lent_sizes, method_of
from auricle_learning.training.mechanism import LentData


@dataclass(frozen=True, eq=False)
class Cohorts:
    """Of the rounds of one run.

    Parameters
    ----------
    pack
        Whose plug-in it is.
    fleet
        The devices, by name.
    rule, limits, labelled
        As of a coordinator.
    """

    pack: Pack
    fleet: Mapping[str, VirtualDevice]
    rule: BoundedRule
    limits: Limits
    labelled: LabelledClips

    def due(self, plan: Plan) -> tuple[Declared, ...]:
        """The vectors that updates may bring."""
        return declared(plan, self.pack, gradients=self.rule.rule.tuning is not None)

    def beside(self, plan: Plan, model: Model) -> tuple[LentData, int]:
        """What comes to devices beside a model, and how many bytes that is: what classifiers are tuned by, vectors."""
        table, tuning, method, prior = self.pack.plugin_table, self.rule.rule.tuning, method_of(plan), b""
        if tuning is not None:
            prior = lent_after(self._state(model, self.rule.name), model.weights, table, tuning).to_bytes()
        vectors = {} if method is None else method.sent(self._state(model, method.name), lent_sizes(plan, self.pack))
        read = PriorKnowledge.from_bytes(prior, *table.specs[-2].shape) if prior else None
        return LentData(read, vectors), len(prior) + sum(vector.nbytes for vector in vectors.values())

    def weights(self, update: Update, body: bytes, base: Flat, plan: Plan) -> Flat:
        """The weights (P,) of an update that was trained from `base` (P,).

        Raises
        ------
        WireError
            A coordinator would refuse it.
        """
        table, due = self.pack.plugin_table, self.due(plan)
        require_header(update, table, self.limits, due)
        found = require_body(update, body, base, table, self.limits, due, travelled=False)
        assert found is not None  # it is no part of a secure sum
        return found

    def build(
        self,
        counted: Sequence[tuple[Update, bytes, Flat]],
        plan: Plan,
        number: int,
        model: Model,
        trained_from: Flat | None = None,
    ) -> Cohort:
        """The updates that a round counts as arrays.

        Parameters
        ----------
        counted
            Each with its body, and its weights (P,) as they were trained.
        plan, number
            Of the round.
        model
            That it goes on from.
        trained_from
            (P,) what its devices trained from, where that is another.
        """
        table, names = self.pack.plugin_table, [update.device for update, _, _ in counted]
        server = ServerInputs(
            number=number,
            registered=lambda: [device.registered for device in self.fleet.values()],
            state=lambda: self._state(model, self.rule.name),
            objectives=self.labelled.objectives,
            labelled=self.labelled.count,
        )
        headers, length = [update for update, _, _ in counted], length_of(table, plan.codec)
        steps, began = (lambda: planned_steps(self.pack, plan)), starts(model, names)
        told = with_training(server.extras(self.rule), self.rule, plan, headers, steps, began)
        start, weights = model.weights, [weights for _, _, weights in counted]
        if trained_from is not None:
            weights = [put_onto(start, trained_from, each) for each in weights]
        return build_cohort(
            table,
            start,
            headers,
            weights,
            [split_vectors(body, length, update.vectors or ())[1] for update, body, _ in counted],
            registered={name: self.fleet[name].registered for name in names},
            extras=told,
        )

    def optimizer(self, model: Model) -> OptimizerState | None:
        """The server optimizer's state after a model; None before its first step, or where the rule is its step."""
        return ServerState.from_bytes(model.kept, self.pack.plugin_table.size).optimizer

    def _state(self, model: Model, rule: str) -> RuleState | None:
        return ServerState.from_bytes(model.kept, self.pack.plugin_table.size).of_rule(rule)
