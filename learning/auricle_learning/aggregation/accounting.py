"""What rounds with noise have given away so far: (epsilon, delta)-differential privacy of a device's whole data.

Two fleets are neighbours where one device's updates are there or are zero (zero-out; Kairouz et al. 2021,
https://arxiv.org/abs/2103.00039): how many take part is not hidden. Composition is that of Renyi differential privacy
(Mironov 2017, https://arxiv.org/abs/1702.07476), with Poisson subsampling (Mironov et al. 2019,
https://arxiv.org/abs/1908.10530), by Google's `dp-accounting`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from auricle.errors import SettingsError

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 1024)
"""Of the Renyi divergence; the least epsilon over them holds, and more of them could only lower it."""
STEP = 100
"""Multipliers are rounded down to a hundredth, so that like rounds are computed once."""


class Release(NamedTuple):
    """A model that a round published."""

    sampling: float
    """Probability with which a device was drawn for it, 0 to 1."""
    multiplier: float
    """Standard deviation of the noise in the sum of its updates, divided by the clipping norm."""


def require_accounting() -> None:
    """SettingsError where `dp-accounting` is not installed."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            'Rounds with noise are accounted for by dp-accounting: pip install "auricle[privacy]".'
        ) from error


def fleet_epsilon(releases: Iterable[Release], delta: float) -> float:
    """Epsilon towards those who see the models and trust the coordinator, or a secure sum, with single updates.

    Each release is a sampled Gaussian mechanism of its own probability and multiplier.

    Parameters
    ----------
    releases
        Every model that was made with noise.
    delta
        Above 0, below 1.

    Returns
    -------
    float
        0 without releases; infinity where one had no noise.
    """
    import dp_accounting
    from dp_accounting import rdp

    often = Counter(Release(each.sampling, math.floor(each.multiplier * STEP) / STEP) for each in releases)
    if not often:
        return 0.0
    if any(each.multiplier <= 0 for each in often):
        return math.inf
    accountant = rdp.RdpAccountant(ORDERS)
    for each, count in sorted(often.items()):
        noise = dp_accounting.GaussianDpEvent(each.multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(each.sampling, noise), count)
    return float(accountant.get_epsilon(delta))


def device_epsilon(multipliers: Sequence[float], delta: float) -> float:
    """Epsilon towards a coordinator that looks at every single update of one device.

    It knows who sent what, so that no draw helps; and any data of the device may stand for any other, so that an update
    may move by 2 C. Gaussian mechanisms compose to one of multiplier 1 / sqrt(sum 1 / z_r^2), whose epsilon is that of
    the analytic Gaussian mechanism (Balle and Wang 2018, https://arxiv.org/abs/1805.06530).

    Parameters
    ----------
    multipliers
        Of each of its rounds: standard deviation of the device's own noise, divided by 2 C.
    delta
        Above 0, below 1.

    Returns
    -------
    float
        0 without rounds; infinity where one had no noise.
    """
    from dp_accounting import get_epsilon_gaussian

    if not multipliers:
        return 0.0
    if min(multipliers) <= 0:
        return math.inf
    return float(get_epsilon_gaussian(1 / math.sqrt(sum(z**-2 for z in multipliers)), delta))
