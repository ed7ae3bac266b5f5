"""Whether rounds helped: what the shared model gets right of clips that devices hold out, before and after them.

Devices are compared with themselves, each counts alike, and what one says is a share: none can turn the answer alone
where the others agree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.process.times import how_many

EVERY_ROUNDS = 10
"""Rounds after which it is said again."""
FAR_ROUNDS = 100
"""Rounds back that are looked at."""
NORMAL = 1.96
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""0.975 quantiles of Student's t with 1 to 30 degrees of freedom; the last serves all above."""


@dataclass(frozen=True)
class Held:
    """What a device said of the shared model on the clips that it holds out, early and late."""

    before: float
    after: float
    """Shares that are right, from 0 to 1."""
    clips_before: int
    clips_after: int

    @property
    def change(self) -> float:
        """Of the share."""
        return self.after - self.before

    @property
    def variance(self) -> float:
        """Of the change, as if other clips had been drawn; never 0, as with two more of each (Agresti and Coull)."""
        return _variance(self.before, self.clips_before) + _variance(self.after, self.clips_after)


@dataclass(frozen=True)
class Learnt:
    """By how much the share changed, and between which changes it lies with 95 %."""

    change: float
    low: float
    high: float
    devices: int

    def sentence(self, what: str) -> str:
        """Say what came of `what`, e.g. "rounds 1 to 10"."""
        if self.low > 0:
            said = f"{what} helped"
        else:
            said = f"{what} did not help" if self.high < 0 else f"whether {what} helped cannot be told yet"
        who = f"{how_many(self.devices, 'device')} hold{'s' if self.devices == 1 else ''}"
        told = (
            f"{said[0].upper()}{said[1:]}: the shared model's accuracy on clips that {who} out changed by "
            f"{100 * self.change:+.1f} percentage points (95 % interval {100 * self.low:+.1f} to "
            f"{100 * self.high:+.1f})"
        )
        return f"{told}; auricle cloud models rollback goes back to an earlier one." if self.high < 0 else f"{told}."


def learnt(held: Sequence[Held]) -> Learnt | None:
    """What rounds brought these devices, in the mean; None where no device says it.

    The interval is the wider of two: Student's, of the devices' changes, and the one that comes of their few clips.
    """
    count = len(held)
    if not count:
        return None
    change = statistics.fmean(each.change for each in held)
    half = NORMAL * math.sqrt(statistics.fmean(each.variance for each in held) / count)
    if count > 1:
        spread = statistics.stdev([each.change for each in held]) / math.sqrt(count)
        half = max(half, STUDENT[min(count - 1, len(STUDENT)) - 1] * spread)
    return Learnt(change, change - half, change + half, count)


def _variance(share: float, clips: int) -> float:
    smooth = (share * clips + 2) / (clips + 4)
    return smooth * (1 - smooth) / (clips + 4)
