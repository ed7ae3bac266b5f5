"""What becomes of an update."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
