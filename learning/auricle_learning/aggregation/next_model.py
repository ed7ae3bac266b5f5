"""From a cohort to the next model: apply the rule, then the server's optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from auricle.wire.tensors import Flat
from auricle_learning.aggregation.cohort import Aggregate, Cohort, FloatArray
from auricle_learning.aggregation.server_optimizer import OptimizerSettings, OptimizerState, first_state, step
from auricle_learning.aggregation.server_state import ServerState

DIVERGED = "the server optimizer's step is not finite: the model is unchanged; lower its learning rate"


@dataclass(frozen=True)
class NextModel:
    """What a round made."""

    weights: Flat
    optimizer: OptimizerState | None
    aggregate: Aggregate

    @property
    def evaluated(self) -> Flat:
        """(P,) what the round is judged by: the model, with what its rule puts in place of some weights for that."""
        instead = self.aggregate.evaluated
        if instead is None:
            return self.weights
        return np.where(instead == self.aggregate.weights, self.weights, instead).astype(np.float32)

    @property
    def kept(self) -> bytes | None:
        """What is kept with the model for the next round: the server optimizer's state, the rule's, or both."""
        return ServerState(self.optimizer, self.aggregate.state).to_bytes()


def next_model(
    cohort: Cohort, rule: Callable[[Cohort], Aggregate], server: OptimizerSettings, state: OptimizerState | None
) -> NextModel:
    """Aggregate a cohort and let the model follow.

    Parameters
    ----------
    cohort
        The round's updates, in device order.
    rule, server
        How to average, and how the model follows the average.
    state
        The server optimizer's state; None before its first step.
    """
    aggregate = rule(cohort)
    if not aggregate.kept.any():
        return NextModel(np.asarray(aggregate.weights, np.float32), state, aggregate)
    return follow(cohort.start, aggregate, server, state)


def follow(
    start: FloatArray, aggregate: Aggregate, server: OptimizerSettings, state: OptimizerState | None
) -> NextModel:
    """Let the model go from w^t towards an aggregate; a step that is not finite keeps model and state, with a flag.

    An aggregate that is not finite is no step: it is the model, for the check of what a round made to name its rule.

    Parameters
    ----------
    start
        (P,) w^t.
    aggregate
        What the rule made.
    server, state
        As in `next_model`.
    """
    with np.errstate(over="ignore"):
        average = np.asarray(aggregate.weights, np.float32)
    if server.kind == "none" or not np.isfinite(average).all():
        return NextModel(average, state, aggregate)
    before = np.asarray(start, np.float32)
    with np.errstate(over="ignore"):
        moved, new = step(state or first_state(before.size, server), before, aggregate.weights, server)
    if not all(np.isfinite(numbers).all() for numbers in (new, moved.m, moved.v)):
        return NextModel(before.copy(), state, replace(aggregate, flag=DIVERGED))
    return NextModel(np.asarray(new, np.float32), moved, aggregate)
