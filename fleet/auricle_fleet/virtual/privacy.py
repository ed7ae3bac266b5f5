"""Rounds with noise on devices that have no links: a coordinator's draw, noise, budget and account.

Who is drawn and what noise is added is of the system's randomness, as on boards, so that such a run is not the same
twice, and what it says of epsilon holds for its model as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import msgspec
from msgspec import to_builtins

from auricle_cloud.rounds.privacy import NOBODY_DRAWN, PrivacyLedger
from auricle_cloud.states.report import Document
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.device import VirtualDevice
from auricle_fleet.virtual.order import TASK, Order


class VirtualPrivacy:
    """What the rounds of one run give away.

    Parameters
    ----------
    settings
        Of the run, with a clipping norm.
    fleet
        The devices, by name.
    earlier
        What the reports of the rounds so far say of their noise, by number.
    """

    def __init__(
        self, settings: FleetSettings, fleet: Mapping[str, VirtualDevice], earlier: Mapping[int, Document]
    ) -> None:
        self._fleet, self._earlier, self._drawn = fleet, dict(earlier), frozenset[str]()
        share = settings.participation * settings.over_selection
        self._ledger = PrivacyLedger(settings.privacy, self, task=TASK, quorum=settings.quorum, sampling=share)

    @property
    def budget_refusal(self) -> str | None:
        """Why no further round may begin."""
        return self._ledger.spent_out

    def draw(self, able: Iterable[VirtualDevice]) -> tuple[str, ...]:
        """A cohort of those that can be invited; may be empty."""
        return tuple(self._ledger.draw(list(able)))

    def begin(self, order: Order, drawn: tuple[str, ...]) -> Order:
        """The order of a round of these devices, with noise in its plan, or why it must not begin."""
        begun = self._ledger.begin(len(drawn) - len(order.broken.keys() & {*drawn}))
        refusal = self._ledger.refusal(order.number, begun) if drawn else NOBODY_DRAWN
        plan = msgspec.structs.replace(order.plan, noise=self._ledger.plan(begun))
        return replace(order, plan=plan, drawn=drawn, noisy=begun, refusal=refusal)

    def report(self, order: Order) -> Document:
        """What the report of a round says of its noise as long as it has made no model; nothing without any."""
        return {} if order.noisy is None or order.refusal is not None else {"privacy": to_builtins(order.noisy)}

    def report_model(self, order: Order, counted: int) -> Document:
        """What the report of a round that made a model of so many updates says, and what all up to it give away."""
        assert order.noisy is not None
        self._drawn = frozenset(order.drawn or ())
        this = msgspec.structs.replace(order.noisy, counted=counted)
        return {"privacy": self._ledger.spent(order.number, this)}

    def note(self, number: int, report: Mapping[str, object]) -> None:
        """Remember a round that has ended, of which each device's `selected` knows."""
        self._drawn = frozenset()
        if (noise := report.get("privacy")) is not None:
            self._earlier[number] = msgspec.convert(noise, Document)

    # -- what the account asks of earlier rounds

    def noisy(self, _task: str, after: int) -> Mapping[int, Document]:
        """As of `EarlierRounds`."""
        return {number: noise for number, noise in self._earlier.items() if number > after}

    def most_invited(self, _task: str, numbers: Collection[int]) -> int:
        """As of `EarlierRounds`: every round of a run has noise."""
        often = max((each.selected + (name in self._drawn) for name, each in self._fleet.items()), default=0)
        return min(len(numbers), often)
