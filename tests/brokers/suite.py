"""Every check, one after the other, on one broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from auricle.errors import SettingsError, nearest
from tests.brokers import delivery, limits, rights, sharing
from tests.brokers.check import CHECKS, Check, Outcome, Target

MODULES = (rights, delivery, limits, sharing)
"""Those that register checks, in the order in which they are tried."""


def check_names(names: Iterable[str]) -> list[str]:
    """The names of checks, all where none is given; SettingsError where there is none of a name."""
    wanted = list(names)
    for name in wanted:
        if name not in CHECKS:
            raise SettingsError(f'There is no check "{name}": {nearest(name, CHECKS)}')
    return wanted or [
        each.name for module in MODULES for each in CHECKS.values() if each.run.__module__ == module.__name__
    ]


def check_of(name: str) -> Check:
    """The check of a name."""
    return CHECKS[name]


async def outcomes(target: Target, names: Iterable[str] = ()) -> AsyncIterator[Outcome]:
    """Try them."""
    for name in check_names(names):
        yield await CHECKS[name].outcome(target)


def failures(results: Iterable[Outcome]) -> list[str]:
    """Names of the required checks that a broker does not hold, or does not offer."""
    return [one.name for one in results if one.need == "required" and one.verdict in ("missed", "not offered")]
