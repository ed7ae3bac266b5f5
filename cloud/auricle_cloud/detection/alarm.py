"""Was the model that a round sent out poisoned? Comparison of inference losses (FedVSA, step 1, eq. 12).

The reference of eq. 12 is the largest loss of a cohort, which one client could set to whatever it likes: with 10^6 no
later loss is ever above it. What stands in the formula is not changed; it is given what is believable.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

SMALLEST_SURE_COHORT = 10
"""With fewer clients the alarm is often false: 1.6 % at 10 and 8 % at 5 where losses do not fall (A39)."""
SPREAD = 6.0
"""Scaled median deviations from the median; 20 speakers' losses of a pack's trained model reach 5.7."""
LEAST_SPREAD = 0.1
"""Of the median, what a deviation is taken for at least: equal devices differ by little more than rounding."""
NEAR = 1.0
"""Nats from the median within which every loss is believed: a trained fleet's median is near 0, and some speakers stay
hard. A reference that is higher by as much still is far below the losses of a replaced model."""
FEWEST = 4
"""With fewer losses nothing tells which of them is wrong."""
NORMAL_TIMES = 1.4826
"""Times the median deviation is the standard deviation, of a normal distribution."""


@dataclass(frozen=True)
class Alarm:
    """The verdict on a model that the clients of a cohort were sent."""

    fires: bool
    """Dr = 1: the round that made this model goes to Shapley (A41)."""
    votes: int
    """Clients whose loss is above the reference or is not finite."""
    cohort: int
    """K, the clients that were asked."""
    voted: tuple[str, ...]
    """Who voted, in ascending order."""
    reference: float | None
    """The largest loss of the previous clean cohort in nats; None without one."""
    false_alarm: float
    """Probability of this alarm if nothing had happened and losses had merely not fallen, see `false_alarm`."""
    sentence: str
    """The verdict, for the log."""
    warning: str | None = None
    """What makes the verdict doubtful, for the log; a caller shows it once."""


def alarm(losses: Mapping[str, float], reference: float | None, previous: int | None = None) -> Alarm:
    """Compare the losses of the received model with the worst of the round before (eq. 12).

    votes = #{k ∈ S_t : F_k(w^t) > max_{j ∈ S_{t-1}} F_j(w^{t-1})}, strictly; a loss that is NaN or infinite is a vote.
    The alarm fires where votes ≥ K/2, K being the cohort (A39). It never fires without a reference or without clients.

    Parameters
    ----------
    losses
        F_k(w^t) by client id: raw, unclipped mean losses of the received model, in nats.
    reference
        What `next_reference` kept of the rounds before; None or not finite where nothing was kept.
    previous
        Clients behind the reference, for the probability of a false alarm; without, as many as now.
    """
    limit = reference if reference is not None and math.isfinite(reference) else None
    voted = () if limit is None else tuple(sorted(k for k, x in losses.items() if x > limit or not math.isfinite(x)))
    cohort, votes = len(losses), len(voted)
    judged = limit is not None and cohort > 0
    fires = judged and 2 * votes >= cohort
    return Alarm(
        fires=fires,
        votes=votes,
        cohort=cohort,
        voted=voted,
        reference=limit,
        false_alarm=false_alarm(cohort, previous),
        sentence=_sentence(fires, votes, cohort, limit),
        warning=_warning(cohort, previous) if judged and cohort < SMALLEST_SURE_COHORT else None,
    )


def false_alarm(cohort: int, previous: int | None = None) -> float:
    """Probability that eq. 12 fires where the losses of both rounds are exchangeable.

    Half of K new losses exceed all K' old ones exactly where the m = ⌈K/2⌉ largest of all are new:
    C(K, m) / C(K + K', m). Losses that fall from round to round make it smaller.

    Parameters
    ----------
    cohort
        K, now.
    previous
        K', behind the reference; without, K.
    """
    if not cohort:
        return 0.0
    needed = (cohort + 1) // 2
    return math.comb(cohort, needed) / math.comb(cohort + (cohort if previous is None else previous), needed)


def reference_of(losses: Mapping[str, float]) -> float | None:
    """Return the largest finite loss of a cohort, raw and unclipped; None where no loss is finite."""
    return max((loss for loss in losses.values() if math.isfinite(loss)), default=None)


def next_reference(reference: float | None, losses: Mapping[str, float], fired: bool) -> float | None:
    """Return what the next round is compared with: this cohort's maximum, or after an alarm the last clean one.

    Once the clients have computed their losses again on the repaired model, hand those in with `fired` False (A39).

    Parameters
    ----------
    reference
        Of the rounds before.
    losses
        F_k(w^t) by client id. A round that asked nobody leaves the reference as it is.
    fired
        Whether the alarm fired on these losses.
    """
    return reference if fired or not losses else reference_of(losses)


def _sentence(fires: bool, votes: int, cohort: int, reference: float | None) -> str:
    if not cohort:
        return "No client reported the loss of this model: it cannot be judged."
    if reference is None:
        return "There is no clean round to compare with: the model is taken as it is."
    compared = f"{votes} of {cohort} clients have a loss above {reference:.4g}, the largest of the last clean round"
    if fires:
        return f"Alarm: {compared}; half of them are enough, the model is suspected of being poisoned."
    return f"No alarm: {compared}; it takes half of them."


def _warning(cohort: int, previous: int | None) -> str:
    often = f"{100 * false_alarm(cohort, previous):.2g} %"
    return (
        f"With {cohort} clients an alarm is false in {often} of the rounds in which losses do not fall: let at least "
        f"{SMALLEST_SURE_COHORT} take part."
    )


def set_aside(losses: Mapping[str, float]) -> tuple[str, ...]:
    """Name whose loss is too far from the others' to be one, either way, in ascending order.

    Further than 6 s, and than 1 nat, from the median m, with s = max(1.4826 median |F_k - m|, 0.1 m). It holds for
    fewer than half of the cohort. A loss that is not finite is not named: it is a vote (A39).

    Parameters
    ----------
    losses
        F_k(w^t) by client id, in nats.
    """
    finite = {client: loss for client, loss in losses.items() if math.isfinite(loss)}
    if len(finite) < FEWEST:
        return ()
    middle = statistics.median(finite.values())
    deviation = statistics.median(abs(loss - middle) for loss in finite.values())
    reach = max(NEAR, SPREAD * max(NORMAL_TIMES * deviation, LEAST_SPREAD * abs(middle)))
    return tuple(sorted(client for client, loss in finite.items() if abs(loss - middle) > reach))


def believed(losses: Mapping[str, float]) -> dict[str, float]:
    """The losses without those that `set_aside` names."""
    doubted = set(set_aside(losses))
    return {client: loss for client, loss in losses.items() if client not in doubted}
