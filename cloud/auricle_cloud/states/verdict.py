"""What becomes of an update, and the codes of refusals: a fixed vocabulary, so that no device can make up another."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def staleness_weight(staleness: float) -> float:
    """The polynomial weight of FedBuff, 1 / sqrt(1 + staleness)."""
    return float(1.0 / math.sqrt(1.0 + staleness))


def refusal_code(reason: str) -> str:
    """The code that a reason begins with, up to its colon; `other` where that is not one."""
    code = reason.partition(":")[0]
    return code if code in CODES else OTHER
