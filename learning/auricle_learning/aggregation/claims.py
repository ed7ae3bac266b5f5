"""What devices say of themselves, held within bounds before any rule sees it: the one place for every such number.

Samples, losses, steps, clips by class and the vectors beside the weights are self-reported (docs/protocol.md). A bound
is a multiple of what the cohort's middle device says, or what its round's plan allows; who is within all of them keeps
every bit. Whether the message itself is one that a device may send was decided before (`require_header`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.caps import FEWEST, SLACK, UNBOUNDED, cap_losses, cap_samples, cap_steps, middle_of
from auricle_learning.aggregation.cohort import Bounded, BoundedWhat, Cohort, Float64Array
from auricle_learning.aggregation.extras import BY_CLASS, COUNTS, Extras
from auricle_learning.aggregation.rules.fedvsa import limit_losses
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import update_norms

LOSS = 5.0
"""Largest loss, in nats, that a rule sees which does not weigh by losses and so has no limit of its own."""
ENOUGH = 5
"""Among fewer devices one that is far from the others is as a rule the one that sounds different."""
LONGEST_VECTOR, LONGEST_OF_FEW = 2.5, 5.0
"""Longest vector beside the weights that counts whole, as a multiple of the middle one; and of fewer than `ENOUGH`."""

Rows = Sequence[NDArray[Any] | None]


def hold(cohort: Cohort, rule: Rule, factor: float) -> tuple[Cohort, list[Bounded]]:
    """Bring what devices say of themselves within bounds, and name those whose rule counts something else then.

    Parameters
    ----------
    cohort
        K updates as they came.
    rule
        That will see them: what it weighs by, and whether it needs steps.
    factor
        Largest multiple of the cohort's middle, at least 1; from `UNBOUNDED` on everything is as it was said.
    """
    if not cohort.ids or factor >= UNBOUNDED:
        return cohort, []
    counts_samples = rule.weighed_by == "samples" or "steps" in rule.needs
    samples = cap_samples(cohort.samples, cohort.registered, factor)
    named = changes(cohort, "samples", cohort.samples, samples) if counts_samples else []
    losses, told = _held_losses(cohort, rule, factor)
    held = replace(cohort, samples=samples, losses=losses)
    extras, more = _held_extras(held, cohort.samples)
    held = replace(held, extras=extras)
    steps, fewer = _held_steps(held, rule, factor)
    return replace(held, extras=replace(extras, steps=steps)), [*named, *told, *fewer, *more]


def changes(cohort: Cohort, what: BoundedWhat, said: Float64Array, counted: Float64Array) -> list[Bounded]:
    """Whose number (K,) counted is another than was said, beyond rounding."""
    other = np.flatnonzero((counted != said) & ~np.isclose(counted, said, rtol=SLACK, atol=0.0, equal_nan=True))
    return [Bounded(cohort.ids[k], what, float(said[k]), float(counted[k])) for k in other]


def hold_vectors(rows: Rows, pieces: int) -> tuple[Rows, Float64Array, float]:
    """Shorten what devices send beside their weights to a multiple of what is usual.

    A vector of C pieces (one a class, or the whole of it) has C lengths. A device's own length is the median of those
    that are not 0, and m is the median of these over the devices (of an even number the lower of the middle two). A
    piece longer than `LONGEST_VECTOR` m, or `LONGEST_OF_FEW` m of few devices, is scaled down to that.

    Parameters
    ----------
    rows
        (K) of each device its vector, of any shape; None of one that sent none.
    pieces
        C; a vector whose numbers are no multiple of it is one piece.

    Returns
    -------
    rows, lengths, limit
        Those that are too long shortened, the others as they came; (K,) the longest piece of each; the length that
        counts whole, infinite where fewer than `FEWEST` devices have a vector that is not 0.
    """
    lengths = [np.zeros(1) if row is None else _lengths(row, pieces) for row in rows]
    own = [middle_of(each[each > 0]) for each in lengths if each.any()]
    limit = _most_of(np.array(own)) if len(own) >= FEWEST else math.inf
    longest = np.array([each.max(initial=0.0) for each in lengths])
    held = [
        row if row is None or top <= limit * (1 + SLACK) else _shortened(row, each, limit)
        for row, each, top in zip(rows, lengths, longest, strict=True)
    ]
    return held, longest, limit


def _most_of(lengths: Float64Array) -> float:
    """The length that counts whole among vectors of these lengths (K,)."""
    return (LONGEST_VECTOR if lengths.size >= ENOUGH else LONGEST_OF_FEW) * middle_of(lengths)


def _held_losses(cohort: Cohort, rule: Rule, factor: float) -> tuple[Float64Array, list[Bounded]]:
    """Losses (K,), and whose were cut; those of a rule that does not weigh by them are from 0 to `LOSS`, or NaN."""
    if rule.weighed_by != "fedvsa":
        return limit_losses(cohort.losses, clip=LOSS, limit="clamp"), []
    settings = rule.settings
    limited = limit_losses(cohort.losses, clip=float(str(settings["clip"])), limit=str(settings["limit"]))
    losses = cap_losses(limited, factor)
    lower = losses < limited
    if not lower.any():
        return cohort.losses, []
    return losses, changes(cohort, "loss", np.where(lower, cohort.losses, losses), losses)


def _held_steps(cohort: Cohort, rule: Rule, factor: float) -> tuple[Float64Array | None, list[Bounded]]:
    """Steps (K,) of a cohort whose samples are held, and whose were changed.

    Rules that keep a mean gradient take it from an update and its steps: it is held as a vector is, by more steps.
    """
    steps, planned = cohort.extras.steps, cohort.extras.planned
    if steps is None:
        return None, []
    fewest, most = np.zeros(steps.size), np.full(steps.size, math.inf)
    if planned is not None:
        fewest, most = planned.fewest(cohort.samples), planned.most(cohort.samples)
    held = cap_steps(steps, fewest, most, factor)
    taken = held > 0
    if "steps" in rule.needs and "server-state" in rule.needs and np.count_nonzero(taken) >= FEWEST:
        slopes = np.where(taken, update_norms(cohort) / np.where(taken, held, 1.0), 0.0)
        usual = _most_of(slopes[taken])
        long = (slopes > usual * (1 + SLACK)) & (usual > 0)
        highest = np.minimum(most, factor * middle_of(held[taken]))
        held = np.where(long, np.maximum(held, np.minimum(highest, held * slopes / (usual or 1.0))), held)
    return held, changes(cohort, "steps", steps, held) if "steps" in rule.needs else []


def _held_extras(cohort: Cohort, said: Float64Array) -> tuple[Extras, list[Bounded]]:
    """Clips by class and vectors of a cohort whose samples are held, and whose were changed; `said` (K,) were those."""
    extras, named, vectors = cohort.extras, list[Bounded](), dict[str, Rows]()
    gradients, maps, counts = extras.gradients, extras.maps, extras.class_counts
    classes = next((one.size for one in extras.vectors.get(COUNTS, ()) if one is not None), 1)
    by_class = next((len(one) for one in gradients or () if one is not None), 1)

    def held(name: str, rows: Rows, pieces: int) -> Rows:
        short, longest, limit = hold_vectors(rows, pieces)
        named.extend(changes(cohort, f"vector {name}", longest, np.minimum(longest, limit)))
        return short

    for name, rows in sorted(extras.vectors.items()):
        if name not in BY_CLASS:
            vectors[name] = held(name, rows, by_class if name == "gradients" else classes)
            continue
        vectors[name] = [_within(one, n) for one, n in zip(rows, cohort.samples, strict=True)]
        sums = np.array([0.0 if one is None else one.sum(dtype=np.float64) for one in rows])
        named += changes(cohort, "counts", sums, np.minimum(sums, said))
    if counts is not None:
        within = [_within(one, n) for one, n in zip(counts, cohort.samples, strict=True)]
        counts = np.array(within, np.float64).reshape(counts.shape)
    if gradients is not None:
        gradients = held("gradients", gradients, by_class)
    if maps is not None:
        maps = np.array(held("maps", list(maps), 1), np.float64).reshape(maps.shape)
    changed = replace(extras, class_counts=counts, vectors=vectors, gradients=gradients, maps=maps)
    return changed, list(dict.fromkeys(named))


def _within(counts: NDArray[Any] | None, samples: float) -> NDArray[Any] | None:
    """Clips by class (C,), scaled down to sum to no more than the samples."""
    total = 0.0 if counts is None else float(counts.sum(dtype=np.float64))
    return (
        counts
        if counts is None or total <= samples * (1 + SLACK)
        else np.asarray(counts * (samples / total), counts.dtype)
    )


def _lengths(row: NDArray[Any], pieces: int) -> Float64Array:
    """(C,) lengths of a vector's pieces, or of the whole; a square can neither overflow nor vanish."""
    parts = row.astype(np.float64).reshape(pieces if row.size and row.size % pieces == 0 else 1, -1)
    largest = np.abs(parts).max(axis=1, initial=0.0)
    scaled = parts / np.where(largest > 0, largest, 1.0)[:, None]
    return np.asarray(largest * np.sqrt(np.square(scaled).sum(axis=1)))


def _shortened(row: NDArray[Any], lengths: Float64Array, limit: float) -> NDArray[Any]:
    scale = np.minimum(1.0, limit / np.where(lengths > 0, lengths, 1.0))
    scaled = row.astype(np.float64).reshape(lengths.size, -1) * scale[:, None]
    return np.asarray(scaled.reshape(row.shape), row.dtype)
