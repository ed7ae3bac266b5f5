"""Weighting by how even a client's classes are, FedDisco (Ye et al. 2023, https://arxiv.org/abs/2305.19229)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle.errors import WireError
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Float64Array
from auricle_learning.aggregation.options import NotNegative, Options, Positive
from auricle_learning.aggregation.rules.average import average, sample_share, unchanged
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import of_clients
from auricle_learning.methods.method import Kept, Method, Needs, Sent, Trained, Vector

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

NAME = "feddisco"
SCORE = "discrepancy of the client's classes"
MOST_CLIPS = 1e9


class FedDiscoOptions(Options, frozen=True):
    """Options of `feddisco`."""

    a: Annotated[NotNegative, Meta(description="By how much a client counts less for its d.")] = 0.5
    b: Annotated[NotNegative, Meta(description="What every client has beside its size.")] = 0.1
    metric: Annotated[Literal["kl", "l2", "l1", "cosine"], Meta(description="d.")] = "kl"
    target: Annotated[
        Annotated[tuple[Positive, ...], Meta(min_length=1)] | None,
        Meta(description="T, one positive number a class in any scale; None for all equal."),
    ] = None


def feddisco(cohort: Cohort, options: FedDiscoOptions) -> Aggregate:
    """Average the models by size, less for clients whose classes are far from the target's.

    w = Σ p_k w_k with p_k ∝ ReLU(n_k - a d_k + b), n_k relative to the cohort; d_k is KL(D_k ‖ T) divided by its sum
    over the cohort, as the authors' code has it, or the l2 or l1 distance or 1 - cosine as it is. Where all p are 0,
    p_k ∝ n_k.

    Parameters
    ----------
    cohort
        K updates with `extras.class_counts` (K, C), or `extras.vectors` with the histogram of each. A
        client without clips counts as even, d = 0.

    Returns
    -------
    Aggregate
        `weights` (P,); `score` (K,) d. w^t with a flag where the cohort is empty.

    Raises
    ------
    CohortError
        The class counts are not known, negative, or of another number of classes than the target.
    """
    if not cohort.ids:
        return unchanged(cohort)
    far = discrepancies(class_counts_of(cohort), options.metric, options.target)
    everyone = np.ones((len(cohort.ids), 1), np.bool_)
    sizes = sample_share(cohort.samples, everyone)[:, 0]
    wanted = np.maximum(0.0, sizes - options.a * far + options.b)
    share = sample_share(wanted if wanted.any() else sizes, everyone)[:, 0]
    by_layer = np.repeat(share[:, None], len(cohort.layers), axis=1)
    return of_clients(cohort, average(cohort, by_layer), share, score=far, score_of=SCORE)


def class_counts_of(cohort: Cohort) -> Float64Array:
    """(K, C) clips of each class; CohortError where they are not known or negative."""
    counts = cohort.extras.class_counts
    brought = cohort.extras.vectors.get(HISTOGRAM.name, ())
    if counts is None and brought and all(one is not None for one in brought):
        counts = np.stack([np.asarray(one, np.float64) for one in brought])
    if counts is None or counts.ndim != 2 or (counts < 0).any():
        raise CohortError("the rule needs each client's number of clips by class, at least 0.")
    return counts


def discrepancies(counts: Float64Array, metric: str, target: Sequence[float] | None) -> Float64Array:
    """(K,) d of class counts (K, C), see `feddisco`."""
    classes = counts.shape[1]
    if target is not None and len(target) != classes:
        raise CohortError(f"the target has {len(target)} classes, the clients have {classes}.")
    wanted = np.full(classes, 1 / classes) if target is None else np.asarray(target, np.float64) / np.sum(target)
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), wanted)
    if metric == "l2":
        return np.asarray(np.sqrt(np.square(shares - wanted).sum(axis=1)))
    if metric == "l1":
        return np.asarray(np.abs(shares - wanted).sum(axis=1))
    if metric == "cosine":
        lengths = np.sqrt(np.square(shares).sum(axis=1) * np.square(wanted).sum())
        return np.asarray(1 - shares @ wanted / lengths)
    ratio = np.where(shares > 0, shares / wanted, 1.0)
    divergence: Float64Array = np.maximum(0.0, (shares * np.log(ratio)).sum(axis=1))
    total = divergence.sum()
    return divergence / total if total > 0 else np.zeros(len(counts))


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients send how many clips of each word they train on."""
    return {HISTOGRAM.name: trained.received.histogram}, {}


def _counts(pack: Pack, histogram: Flat, largest: float) -> None:
    if (histogram < 0).any() or (histogram > MOST_CLIPS).any():
        raise WireError(f"A histogram of clips has a number below 0 or above {MOST_CLIPS:g}.")


HISTOGRAM = Vector("histogram", lambda pack, plan: len(pack.labels), allowed_by="histogram", check=_counts)
"""Training clips of each word, in the order of the pack's labels."""

FEDDISCO = Method(
    Rule(NAME, feddisco, FedDiscoOptions(), mean=True, needs=("device-half",)), Needs(up=(HISTOGRAM,)), after=after
)
