"""What becomes of an update, and the codes of refusals: a fixed vocabulary, so that no device can make up another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from auricle_cloud.states.round import TAKING, State

CODES = frozenset(
    (
        "frame",
        "schema",
        "signature",
        "upgrade_required",
        "body",
        "identity",
        "unregistered",
        "standing",
        "codec",
        "shape",
        "vectors",
        "samples",
        "loss",
        "part",
        "memory",
        "hash",
        "values",
        "norm",
        "rate",
        "type",
        "round",
        "base",
        "not invited",
        "hearing",
        "sum",
        "pending",
        "quarantined",
        "revoked",
    )
)
OTHER = "other"


@dataclass(frozen=True)
class Verdict:
    """What becomes of an update."""

    code: str
    """accepted, duplicate, conflict, late, closed, stale, or rejected:<reason>."""
    counts: bool = False
    staleness: int = 0
    """Models that were made since the one the update started from."""
    counted_in: int = 0

    @property
    def weight(self) -> float:
        """The factor by which a stale update counts, 1 / sqrt(1 + staleness); 0 where it was too old.

        FedBuff, Nguyen et al. 2022 (https://arxiv.org/abs/2106.06639), section 5 and appendix E.
        """
        if self.code != "stale":
            return 1.0
        return staleness_weight(self.staleness) if self.counts else 0.0


def verdict_in(state: State, number: int) -> Verdict:
    """Of an update to a synchronous round in this state: it counts, comes late, or the round was given up."""
    if state == "aborted":
        return Verdict("closed")
    return Verdict("accepted", counts=True, counted_in=number) if state in TAKING else Verdict("late")


def verdict_behind(newer: int, stale_limit: int, number: int | None) -> Verdict:
    """Of an update to asynchronous rounds that started so many models ago: up to the limit it counts in the open one.

    Parameters
    ----------
    newer
        Models that were made since the one it started from.
    stale_limit
        The most with which it counts.
    number
        The round that is open; None: there is none.
    """
    if number is None:
        return Verdict("closed")
    if newer > stale_limit:
        return Verdict("stale", staleness=newer)
    return Verdict("stale" if newer else "accepted", counts=True, staleness=newer, counted_in=number)


def staleness_weight(staleness: float) -> float:
    """The polynomial weight of FedBuff, 1 / sqrt(1 + staleness)."""
    return float(1.0 / math.sqrt(1.0 + staleness))


def refusal_code(reason: str) -> str:
    """The code that a reason begins with, up to its colon; `other` where that is not one."""
    code = reason.partition(":")[0]
    return code if code in CODES else OTHER
