"""When detection looks at a round without links: at losses said before training, or at those that come with updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from auricle.wire.messages import Update
from auricle.wire.update_codec import length_of
from auricle.wire.vectors import split_vectors
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.link.update_checks import require_body
from auricle_cloud.rounds.inquiry import Judge
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.crew import Asked, Question
from auricle_fleet.virtual.detection import Watch, ask, put_onto
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import NOT_JUDGED, Judged, Maker, Order
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.presets import Preset

if TYPE_CHECKING:
    from auricle_fleet.virtual.round import VirtualRounds


def watch_of(settings: FleetSettings, preset: Preset, rule: BoundedRule, evaluator: Evaluator) -> Watch:
    """What looks for who poisons in a run with these settings, which begins."""
    judge = Judge(settings.detection, rule, evaluator, settings.seed, settings.limits)
    return Watch(judge, lambda number: preset.server_for(number, settings.rounds), settings.limits)


def asked(rounds: VirtualRounds, order: Order, invited: list[str], model: Model) -> Judged:
    """Two-phase rounds: what detection makes of the losses that devices say of a model before they train.

    Parameters
    ----------
    rounds
        Of the run.
    order
        What the round is told.
    invited, model
        Who is, and what it begins with.
    """
    watch, size = rounds.watch, 4 * rounds.pack.plugin_table.size
    if watch is None or watch.judge.settings.one_phase:
        return NOT_JUDGED
    times = {name: rounds.fleet[name].says_loss(order.began, size) for name in invited}
    wait = min(watch.judge.settings.wait, rounds.timing.deadline)

    def losses_of(names: list[str]) -> Iterable[tuple[float, int]]:
        known = {name: watch.trained.get(name, 0) for name in names}
        places = [Asked(rounds.fleet[name].place, name, None) for name in names]
        return rounds.crew.answers(Question(model.weights, known), places)

    said, seconds = ask(watch, times, wait, losses_of)
    losses = {name: one.loss for name, one in said.items()}
    judged = watch.look(order.number, losses, lambda maker: cohort_again(rounds, maker), model)
    return replace(judged, losses=said, fetched=size, seconds=seconds)


def in_passing(
    rounds: VirtualRounds, order: Order, judged: Judged, came: Sequence[Update], model: Model
) -> tuple[Judged, Model]:
    """One-phase rounds: what detection makes of the losses that came with updates, and what the round goes on from.

    Parameters
    ----------
    rounds, order, model
        As of `asked`.
    judged
        What is known of it already.
    came
        The updates that count.
    """
    watch = rounds.watch
    if watch is None or not watch.judge.settings.one_phase:
        return judged, model
    losses = {update.device: update.loss for update in came}
    judged = watch.look(order.number, losses, lambda maker: cohort_again(rounds, maker), model)
    if judged.repaired is None or judged.detection is None:
        return judged, model
    return replace(judged, detection={**judged.detection, "trained_from": model.base}), judged.repaired


def told_of(watch: Watch | None, report: dict[str, object], made: NextModel) -> dict[str, object]:
    """A round's report with how good its model is on the operator's clips, where there are some."""
    if watch is None:
        return report
    accuracy, loss = watch.score(made.evaluated)
    return {**report, "accuracy": accuracy, "loss": loss}


def maker_of(
    watch: Watch | None,
    order: Order,
    judged: Judged,
    start: Model,
    sent: Model,
    updates: Sequence[tuple[Update, bytes]],
) -> Maker | None:
    """What detection has to know of a round that makes a model; None where there is none.

    Parameters
    ----------
    start, sent
        The model that the round goes on from, and the one that its devices trained from.
    updates
        Those that it counts, and their bodies.
    """
    if watch is None:
        return None
    version = order.version if judged.repaired is None else order.newest + 1
    trained_from = None if start is sent else sent.weights
    return Maker("round", order.number, version, start, order.plan, tuple(updates), trained_from)


def cohort_again(rounds: VirtualRounds, maker: Maker) -> Cohort:
    """The updates of a round that has made a model, as it counted them."""
    assert maker.before is not None and maker.plan is not None
    order = Order(maker.number, maker.plan, OptimizerSettings(), 0, 0, 0)
    start, due, table = maker.before.weights, rounds.due(order), rounds.pack.plugin_table
    base, length = start if maker.trained_from is None else maker.trained_from, length_of(table, maker.plan.codec)
    counted, more = [], []
    for update, body in maker.updates or ():
        weights = require_body(update, body, base, table, rounds.limits, due, travelled=False)
        assert weights is not None
        counted.append((update, weights if base is start else put_onto(start, base, weights)))
        more.append(split_vectors(body, length, update.vectors or ())[1])
    return rounds.cohort(counted, maker.before, order, more)
