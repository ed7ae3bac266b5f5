"""What rounds with noise have given away so far: (epsilon, delta)-differential privacy of a device's whole data.

Two fleets are neighbours where one device's updates are there or are zero (zero-out; Kairouz et al. 2021,
https://arxiv.org/abs/2103.00039): how many take part is not hidden. Both ways to compose rounds are those of Google's
`dp-accounting`, with Poisson subsampling: privacy loss distributions (PLD; Koskela et al. 2020,
https://arxiv.org/abs/1906.03049, Doroshenko et al. 2022, https://arxiv.org/abs/2207.04380), and Renyi differential
privacy (RDP; Mironov et al. 2019, https://arxiv.org/abs/1908.10530), a looser bound in less memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from auricle.errors import SettingsError, extra_command

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 1024)
"""Of the Renyi divergence; the least epsilon over them holds, and more of them could only lower it."""
LARGEST_OF_PLD = 200.0
"""Epsilon by RDP above which no distribution is computed: it would take gigabytes, and so much is no promise."""
INTERVAL = 1e-3
"""Of privacy loss, in nats, to which a distribution is rounded, always upwards; a tenth of it gives less than 0.1 %."""
STEP = 100
"""Multipliers are rounded down to a hundredth, so that like rounds are computed once."""


class Release(NamedTuple):
    """A model that a round published."""

    sampling: float
    """Probability with which a device was drawn for it, 0 to 1."""
    multiplier: float
    """Standard deviation of the noise in the sum of its updates, divided by the clipping norm."""


Accounting = Literal["PLD", "RDP"]


class Spent(NamedTuple):
    """What releases have given away."""

    epsilon: float
    """0 without releases; infinity where one had no noise."""
    accounting: Accounting
    """What computed it."""


def require_accounting() -> None:
    """SettingsError where `dp-accounting` is not installed."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"Rounds with noise are accounted for by dp-accounting: {extra_command('privacy')}."
        ) from error


def fleet_epsilon(releases: Iterable[Release], delta: float) -> Spent:
    """Epsilon towards those who see the models and trust the coordinator, or a secure sum, with single updates.

    Each release is a sampled Gaussian mechanism of its own probability and multiplier. Both accountings bound epsilon
    from above: the lesser one counts, which is that of PLD up to `LARGEST_OF_PLD`.

    Parameters
    ----------
    releases
        Every model that was made with noise.
    delta
        Above 0, below 1.
    """
    often = Counter(Release(each.sampling, math.floor(each.multiplier * STEP) / STEP) for each in releases)
    if not often:
        return Spent(0.0, "PLD")
    if any(each.multiplier <= 0 for each in often):
        return Spent(math.inf, "RDP")
    renyi = epsilon_by("RDP", often, delta)
    if renyi > LARGEST_OF_PLD:
        return Spent(renyi, "RDP")
    exact = epsilon_by("PLD", often, delta)
    return Spent(exact, "PLD") if exact <= renyi else Spent(renyi, "RDP")


def epsilon_by(accounting: Accounting, often: Mapping[Release, int], delta: float) -> float:
    """Epsilon of releases, each as often as it says, by one accounting."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld, rdp

    accountant = (
        rdp.RdpAccountant(ORDERS) if accounting == "RDP" else pld.PLDAccountant(value_discretization_interval=INTERVAL)
    )
    for each, count in sorted(often.items()):
        accountant.compose(PoissonSampledDpEvent(each.sampling, GaussianDpEvent(each.multiplier)), count)
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
