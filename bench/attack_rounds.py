"""Rounds of a method with both its halves, in which some of the devices attack; and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from auricle.errors import AuricleError, WireError
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_cloud.link.update_checks import require_weights
from auricle_cloud.rounds.model_check import UnsoundModelError, require_model
from auricle_cloud.settings import Limits
from auricle_fleet.virtual.cohort import Cohorts
from auricle_fleet.virtual.model import Model, own_models
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.caps import UNBOUNDED
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.extras import BY_CLASS
from auricle_learning.aggregation.inputs import ServerInputs, build_cohort, with_training
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods import Method, get_method
from auricle_learning.methods.passes import planned_steps
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.train import RoundResult
from bench.attack_fleet import Fleet
from bench.attack_moves import MOVES, Move, View

PLAN = Plan(mode="supervised", rate=0.02, epochs=1)
SERVE = "serve"
"""What `auricle cloud serve` does where nobody says otherwise: its method, and how its devices train."""
LIMITS, FOLLOWS = Limits(), OptimizerSettings(kind="none")
LEFT_OUT = 0.1
"""Who counts for less than this part of what devices count for on average was left out of a model."""
CLAIMED_SAMPLES, CLAIMED_LOSS, CLAIMED_STEPS, CLAIMED_VECTORS = 10**7, 1e6, 1, -1e3
"""What liars say of themselves; their vectors are so many times their own, as far as a coordinator takes them."""
LARGEST_CLAIM = 1e4


@dataclass(frozen=True)
class Setup:
    """A method as a fleet runs it."""

    method: Method
    plan: Plan
    rule: BoundedRule


@dataclass(frozen=True)
class Played:
    """What came of the rounds; shares, from 0 to 1."""

    right: float
    """Of the unheard speakers' clips, after the last round."""
    turned: float
    """Of their clips of other words with the trigger in them: what it turns into the target."""
    named: float
    """Of the attackers in all rounds: who was left out; 0 without attackers."""
    wronged: float
    """Of the others in all rounds."""


@dataclass(frozen=True)
class Header:
    """What an update says beside its weights."""

    device: str
    samples: int
    loss: float
    steps: int
    unsupervised: int | UnsetType | None = UNSET


def setup_of(text: str, *, alone: bool = False) -> Setup:
    """A method by its name and options, `lpa` or `lpa prune_low=0 prune_high=0.3`, or `SERVE`.

    Parameters
    ----------
    alone
        Whether its rule is alone, without the coordinator's bound.
    """
    name, *options = text.split()
    if name == SERVE:
        preset = CoordinatorSettings().preset_for(trained=True)
        method, plan = preset.method.get_method(), preset.plan
    else:
        pairs = (each.partition("=") for each in options)
        method = get_method(name, **{option: msgspec.json.decode(value) for option, _, value in pairs})
        plan = method.rule_for_rounds.plan_for(PLAN)
    rule = method.rule_for_rounds
    return Setup(method, plan, BoundedRule(rule, UNBOUNDED, prune_few=False) if alone else BoundedRule(rule))


class Federation:
    """A fleet in its rounds.

    Parameters
    ----------
    fleet, setup
        Who, and by what method.
    bad
        Places of the attackers.
    move
        Their attack; None: they are as honest as the others.
    seed
        Of what they draw.
    """

    def __init__(self, fleet: Fleet, setup: Setup, bad: frozenset[int], move: Move | None, seed: int) -> None:
        self.fleet, self.setup, self.bad, self.move, self.seed = fleet, setup, bad, move, seed
        count = len(fleet.trainers["honest"])
        self.names = [f"dev-{place:03d}" for place in range(count)]
        self.states = [trainer.first_state() for trainer in fleet.trainers["honest"]]
        self.clips = [len(trainer.data.train) for trainer in fleet.trainers["honest"]]
        self.model, self.judged = Model(fleet.start), fleet.start
        self._lends = Cohorts(fleet.pack, {}, setup.rule, LIMITS, fleet.labelled)

    def round(self, number: int) -> NDArray[np.bool_]:
        """Make a round; who (K,) was left out of its model, refused ones and those that could not train included."""
        lent, _ = self._lends.beside(self.setup.plan, self.model)
        results = {place: self._trained(place, number, lent) for place in range(len(self.names))}
        done = {place: result for place, result in results.items() if result is not None}
        weights = {place: result.plugin for place, result in done.items()}
        if self.move is not None and not self.bad.isdisjoint(done) and not self.bad.issuperset(done):
            weights |= self._forged(self.move, weights, number)
            if self.move.lies:
                done |= {place: lie(done[place]) for place in self.bad & done.keys()}
        taken = [place for place in sorted(done) if self._passes(place, weights[place])]
        out = np.ones(len(self.names), bool)
        if taken:
            made = self._aggregated(number, taken, weights, done)
            out[taken] = left_out(made)
        return out

    def _trained(self, place: int, number: int, lent: LentData) -> RoundResult | None:
        """What a device makes of the round; None where its training ends in numbers that are none."""
        clips: str = self.move.clips if self.move is not None and place in self.bad else "honest"
        if clips == "honest" and self.setup.plan.fixmatch:
            clips = "half"
        state, begins, plan = self.states[place], self.model.start(self.names[place]), self.setup.plan
        own = self.setup.method.name if self.setup.rule.rule.tuning else ""
        key = (clips, place, own, msgspec.json.encode(plan))
        result = self.fleet.first.get(key) if number == 1 else None
        try:
            trainer = self.fleet.trainers[clips][place]
            result = result or trainer.run(plan, number, begins, state, lent=lent)
        except AuricleError:
            return None
        if number == 1:
            self.fleet.first[key] = result
        self.states[place] = result.local
        return result

    def _forged(self, move: Move, weights: dict[int, Flat], number: int) -> dict[int, Flat]:
        """What the attackers upload (P,); who begins with a model of its own is moved by as much as the others."""
        sent = self.model.weights.astype(np.float64)
        began = {place: self.model.start(self.names[place]).astype(np.float64) for place in weights}
        seen = {place: each - began[place] + sent for place, each in weights.items()}
        mine = sorted(self.bad & seen.keys())
        honest = np.stack([each for place, each in seen.items() if place not in self.bad])
        view = View(sent, honest, np.stack([seen[place] for place in mine]), 1000 * self.seed + number)
        with np.errstate(over="ignore"):
            made = [each - sent + began[place] for place, each in zip(mine, move.upload(view), strict=True)]
            return {place: each.astype(np.float32) for place, each in zip(mine, made, strict=True)}

    def _passes(self, place: int, weights: Flat) -> bool:
        """Whether a coordinator takes an update (P,)."""
        try:
            require_weights(weights, self.model.start(self.names[place]), LIMITS)
        except WireError:
            return False
        return True

    def _aggregated(
        self, number: int, taken: Sequence[int], weights: dict[int, Flat], done: dict[int, RoundResult]
    ) -> Aggregate:
        """Make the next model; it stays where that could not be an update."""
        rule, plan, table, model = self.setup.rule, self.setup.plan, self.fleet.pack.plugin_table, self.model
        headers = [header_of(self.names[place], done[place]) for place in taken]
        registered = [CLAIMED_SAMPLES if place in self.bad else clips for place, clips in enumerate(self.clips)]
        state = ServerState.from_bytes(model.kept, table.size).of_rule(rule.name)
        server = ServerInputs(
            number, lambda: registered, lambda: state, self.fleet.labelled.objectives, self.fleet.labelled.count
        )
        began = np.stack([model.start(self.names[place]) for place in taken]).astype(np.float64) if model.own else None
        cohort = build_cohort(
            table,
            model.weights,
            headers,
            [weights[place] for place in taken],
            [done[place].vectors for place in taken],
            registered=dict(zip(self.names, map(float, registered), strict=True)),
            extras=with_training(
                server.extras(rule), rule, plan, headers, lambda: planned_steps(self.fleet.pack, plan), began
            ),
        )
        made = next_model(cohort, rule, FOLLOWS, None)
        try:
            require_model(made, model.weights, LIMITS, self.setup.method.name)
        except UnsoundModelError:
            return made.aggregate
        self.model = Model(made.weights, made.kept, own_models(model, made.aggregate))
        self.judged = made.evaluated
        return made.aggregate

    def models(self) -> NDArray[np.float32]:
        """(M, P) what is judged: the fleet's model, or where only devices have any, those of the honest ones."""
        if not self.setup.method.own_model:
            return self.judged[None]
        return np.stack([state.weights for place, state in enumerate(self.states) if place not in self.bad])


def play(fleet: Fleet, setup: Setup, attack: str | None, attackers: int, rounds: int, seed: int) -> Played:
    """Run the rounds; the seed decides who attacks."""
    count = len(fleet.trainers["honest"])
    bad = frozenset(np.random.default_rng(seed).choice(count, attackers, replace=False).tolist())
    federation = Federation(fleet, setup, bad, MOVES[attack] if attack else None, seed)
    out = np.mean([federation.round(number) for number in range(1, rounds + 1)], axis=0)
    attacks = np.isin(np.arange(count), sorted(bad))
    named, wronged = (float(out[who].mean()) if who.any() else 0.0 for who in (attacks, ~attacks))
    models = federation.models()
    return Played(fleet.right(models), fleet.fooled(models), named, wronged)


def header_of(device: str, result: RoundResult) -> Header:
    """What a device says with its update."""
    return Header(device, result.samples, result.loss, result.steps, result.unsupervised)


def lie(result: RoundResult) -> RoundResult:
    """The same with other numbers of samples and steps, another loss and other vectors."""
    vectors = {
        name: np.full_like(vector, CLAIMED_SAMPLES)
        if name in BY_CLASS
        else np.clip(CLAIMED_VECTORS * vector, -LARGEST_CLAIM, LARGEST_CLAIM).astype(np.float32)
        for name, vector in result.vectors.items()
    }
    return replace(result, samples=CLAIMED_SAMPLES, loss=CLAIMED_LOSS, steps=CLAIMED_STEPS, vectors=vectors)


def left_out(made: Aggregate) -> NDArray[np.bool_]:
    """(K,) who counts for less than a tenth of what devices count for on average, over all layers."""
    share = np.abs(np.asarray(made.share, np.float64)).mean(axis=1)
    return np.asarray(share < LEFT_OUT * share.mean()) if share.any() else np.ones(len(share), bool)
