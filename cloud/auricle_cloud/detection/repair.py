"""A poisoned round without those who poisoned it (FedVSA): aggregated again, or their updates taken off."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np

from auricle.wire.tensors import Flat
from auricle_cloud.detection.coalitions import subset
from auricle_learning.aggregation.cohort import Aggregate, BoolArray, Cohort, CohortError, FloatArray
from auricle_learning.aggregation.next_model import DIVERGED, NextModel, follow
from auricle_learning.aggregation.options import check_number
from auricle_learning.aggregation.server_optimizer import OptimizerSettings, OptimizerState


@dataclass(frozen=True, eq=False)
class Repair:
    """The model that takes the place of the poisoned one."""

    weights: Flat
    """(P,) the model to send instead."""
    optimizer: OptimizerState | None
    """The server optimizer's state after it: begin the next round with this one."""
    aggregate: Aggregate
    """Who counts in the round as it is now; after a hotfix the shares of those kept are the old ones."""
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    sentence: str
    """What was done, for the log."""


def reaggregate(
    cohort: Cohort,
    bad: Collection[str],
    rule: Callable[[Cohort], Aggregate],
    server: OptimizerSettings,
    before: OptimizerState | None,
) -> Repair:
    """Aggregate the round again over the clients that are kept, their weights renormalised (A44).

    Parameters
    ----------
    cohort
        The K updates of the poisoned round; `start` is the model before it, which stays if nobody is kept.
    bad
        Ids of the clients to leave out.
    rule
        The rule of the round. It sees the kept clients alone.
    server, before
        How the model follows the average, and the optimizer's state *before* the poisoned round.

    Raises
    ------
    CohortError
        A client to leave out is not in the round.
    """
    kept = _keep_mask(cohort, bad)
    aggregate = rule(subset(cohort, kept))
    done = f"The model was aggregated again from {kept.sum()} of {len(kept)} clients."
    return _follow(cohort, kept, aggregate, server, before, done, nobody=not aggregate.kept.any())


def hotfix(
    cohort: Cohort,
    aggregate: Aggregate,
    bad: Collection[str],
    server: OptimizerSettings,
    before: OptimizerState | None,
    *,
    tau: float = 1.0,
) -> Repair:
    """Take the bad clients' weighted updates off the round's average: h = -τ Σ_bad p_k (w_k - w^{t-1}) (A44).

    The others keep the weights they had, so τ = 1 leaves w^{t-1} + Σ_kept p_k (w_k - w^{t-1}). Without a server
    optimizer h is what the sent model changes by. If nobody is kept and τ = 1, w^{t-1} stands again.
    This removes an update wholly only where the rule's model is Σ p_k w_k; after a median, aggregate again.

    Parameters
    ----------
    cohort
        The K updates of the poisoned round.
    aggregate
        What the round's rule made of them; p_k is its `share`, layer by layer.
    bad, server, before
        As in `reaggregate`.
    tau
        τ, at least 0.

    Raises
    ------
    CohortError
        A client to leave out is not in the round, or the aggregate is that of another one.
    SettingsError
        τ is not allowed.
    """
    check_number("tau", tau)
    kept = _keep_mask(cohort, bad)
    if aggregate.ids != cohort.ids or len(aggregate.layers) != len(cohort.layers):
        raise CohortError("the aggregate is not one of this round; take the one that the round's rule made.")
    mended = aggregate.weights.astype(np.float64) + correction(cohort, aggregate, ~kept, tau)
    fixed = replace(
        aggregate,
        weights=mended.astype(cohort.start.dtype),
        kept=aggregate.kept & kept[:, None],
        share=np.where(kept[:, None], aggregate.share, 0.0),
    )
    done = f"The updates of {(~kept).sum()} of {len(kept)} clients were taken off the model."
    return _follow(cohort, kept, fixed, server, before, done, nobody=tau == 1 and not fixed.kept.any())


def correction(cohort: Cohort, aggregate: Aggregate, bad: BoolArray, tau: float = 1.0) -> FloatArray:
    """Return h (P,) float64 for the bad clients (K,): -τ Σ_bad p_k (w_k - w^{t-1}), p_k by layer."""
    h = np.zeros(cohort.start.size)
    for column, layer in enumerate(cohort.layers):
        for k in np.flatnonzero(bad & (aggregate.share[:, column] != 0)):
            for span in layer.slices:
                update = cohort.weights[k, span].astype(np.float64) - cohort.start[span]
                h[span] -= tau * aggregate.share[k, column] * update
    return h


def _keep_mask(cohort: Cohort, bad: Collection[str]) -> BoolArray:
    unknown = sorted(set(bad) - set(cohort.ids) - set(cohort.dropped))
    if unknown:
        raise CohortError(f'client "{unknown[0]}" cannot be left out of a round that it took no part in.')
    return np.array([client not in bad for client in cohort.ids], np.bool_)


def _follow(
    cohort: Cohort,
    kept: BoolArray,
    aggregate: Aggregate,
    server: OptimizerSettings,
    before: OptimizerState | None,
    done: str,
    *,
    nobody: bool,
) -> Repair:
    """Let the model follow the mended average from where it and the optimizer stood before the round."""
    stays = tuple(client for client, is_kept in zip(cohort.ids, kept, strict=True) if is_kept)
    goes = tuple(client for client in cohort.ids if client not in stays)
    if nobody:
        made = NextModel(np.array(cohort.start, np.float32), before, aggregate)
        done = "Nobody of the round is left: the model of the round before it stands again."
    else:
        made = follow(cohort.start, aggregate, server, before)
    said = DIVERGED if made.aggregate.flag == DIVERGED else done
    return Repair(made.weights, made.optimizer, made.aggregate, stays, goes, sentence=said)
