"""Who a synchronous round invites, with which plan, and what its report says from the beginning on."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import to_builtins
from msgspec.structs import replace

from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.kinds import FEWEST
from auricle.wire.secure_sum.quantised import MOST
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.policy import devices_invited, updates_wanted
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
        return _hidden(site, Choice(choose(fit, size, f"{settings.seed}/{number}"), plan, report))
    names = privacy.draw(fit)
    begun = privacy.begin(len(names))
    report.update(wanted=min(wanted, len(names)), privacy=to_builtins(begun))
    refusal = privacy.refusal(number, begun) if names else "the draw left every device out: nothing was given away"
    return _hidden(site, Choice(names, replace(plan, noise=privacy.plan(begun)), report, refusal))


def fewest(site: RoundContext) -> int:
    """Devices without which no round begins."""
    return FEWEST if site.settings.secure_sum.on else 1


def _hidden(site: RoundContext, choice: Choice) -> Choice:
    """The choice with a secure sum in its plan, where the coordinator is to learn no single update."""
    told, noise, count = site.settings.secure_sum, choice.plan.noise, len(choice.names)
    if not told.on or choice.refusal is not None:
        return choice
    if not FEWEST <= count <= MOST:
        refusal = f"a secure sum is of {FEWEST} to {MOST} devices, and {count} were drawn: nothing was given away"
        return dataclasses.replace(choice, refusal=refusal)
    bound = max(told.bound, noise.clip + DEVIATIONS * noise.deviation) if noise else told.bound
    plan = replace(choice.plan, secure_sum=SecureSum(id=secrets.token_hex(16), bound=bound))
    return dataclasses.replace(choice, plan=plan)
