"""Who a synchronous round invites, with which plan, and what its report says from the beginning on."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import to_builtins
from msgspec.structs import replace

from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle.wire.secure_sum.sizes import MOST
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.policy import devices_invited, updates_wanted
from auricle_cloud.rounds.privacy import NOBODY_DRAWN
from auricle_cloud.states.attendance import broken_devices, rounds_back
from auricle_cloud.states.report import Document
from auricle_cloud.states.selection import choose
from auricle_cloud.storage.rows import DeviceRow

DEVIATIONS = 8.0
"""Of the noise that a value may be away from the clip before the bound of a secure sum cuts it: next to never."""


@dataclass(frozen=True)
class Choice:
    """A cohort that was chosen, or why nobody was."""

    names: list[str]
    plan: Plan
    report: Document
    refusal: str | None = None
    """Why the round must not begin."""
    broken: Mapping[str, int] = field(default_factory=dict)
    """Who of them does not count for the quorum, and how many rounds running brought nothing of it."""


def choose_cohort(site: RoundContext, number: int, fit: Sequence[DeviceRow], others: dict[str, str]) -> Choice:
    """Choose who is invited: fairly over time, or in rounds with noise each device by the same chance.

    Parameters
    ----------
    number
        The round's.
    fit
        Devices that can be invited, at least one.
    others
        Why the other devices cannot.
    """
    settings, privacy = site.settings, site.privacy
    plan = settings.preset.plan_for(number, site.horizon, settings.seed)
    wanted = updates_wanted(len(fit), settings.participation, fewest(site))
    report: Document = {"passed_over": others, "wanted": wanted}
    if privacy is None:
        size = devices_invited(len(fit), wanted, settings.over_selection)
        names = choose(fit, size, f"{settings.seed}/{number}")
        broken = _broken(site, number, names, len(fit) + len(others))
        return _hidden(site, Choice(names, plan, {**report, **broken_report(broken)}, broken=broken))
    names = privacy.draw(fit)
    broken = _broken(site, number, names, len(fit) + len(others))
    begun = privacy.begin(len(names) - len(broken))
    report.update(wanted=min(wanted, len(names)), privacy=to_builtins(begun), **broken_report(broken))
    refusal = privacy.refusal(number, begun) if names else NOBODY_DRAWN
    return _hidden(site, Choice(names, replace(plan, noise=privacy.plan(begun)), report, refusal, broken))


def _broken(site: RoundContext, number: int, names: Sequence[str], known: int) -> dict[str, int]:
    back = rounds_back(known, len(names))
    return broken_devices(site.store.attendance.nothing(site.task, number, names, back))


def broken_report(broken: Mapping[str, int]) -> Document:
    """What a round's report says of those that do not count for its quorum."""
    return {"broken": dict(broken)} if broken else {}


def fewest(site: RoundContext) -> int:
    """Devices without which no round begins."""
    return FEWEST_DEVICES if site.settings.secure_sum.on else 1


def _hidden(site: RoundContext, choice: Choice) -> Choice:
    """The choice with a secure sum in its plan, where the coordinator is to learn no single update."""
    told, noise, count = site.settings.secure_sum, choice.plan.noise, len(choice.names)
    if not told.on or choice.refusal is not None:
        return choice
    if not FEWEST_DEVICES <= count <= MOST:
        refusal = (
            f"a secure sum is of {FEWEST_DEVICES} to {MOST} devices, and {count} were drawn: nothing was given away"
        )
        return dataclasses.replace(choice, refusal=refusal)
    bound = max(told.bound, noise.clip + DEVIATIONS * noise.deviation) if noise else told.bound
    plan = replace(choice.plan, secure_sum=SecureSum(id=secrets.token_hex(16), bound=bound))
    return dataclasses.replace(choice, plan=plan)
