"""Execution engines: what every one of them gives a run, and the table of those there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from auricle.errors import SettingsError, nearest
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RoundDone
from auricle_fleet.emulation.federation import Federation
from auricle_fleet.emulation.forecast.constants import Constants
from auricle_fleet.emulation.virtual_fleet import VirtualFleet
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group


class Engine(Protocol):
    """Carries out the rounds of one run.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    state
        Folder for what the run goes on with: an engine made over the same folder takes up the rounds there.
    """

    constants: ClassVar[Constants]
    """What a forecast cannot measure quickly."""
    lighter: ClassVar[str | None]
    """The engine to take where a run does not fit this one; None: there is no smaller one."""

    def __init__(self, settings: FleetSettings, data: FleetData, judging: FleetJudging, state: Path) -> None: ...

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """Why a run of these settings cannot be with this engine, a sentence; None where it can."""

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """See that what the engine needs beside this machine is there, before any speech is made; AuricleError."""

    @property
    def names(self) -> Sequence[str]:
        """Of the devices."""

    @property
    def groups(self) -> Sequence[Group | None]:
        """Of each device; None: it is in none."""

    @property
    def models(self) -> Sequence[str]:
        """Architecture of each device's own model."""

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator to ask about rounds, from the first one on; None of an engine without one."""

    @property
    def bytes_sent(self) -> int:
        """By all devices since this process began."""

    @property
    def bytes_received(self) -> int:
        """By all devices since this process began."""

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run the rounds that are not done yet; cancelling it ends it cleanly.

        Parameters
        ----------
        start
            The first model.
        watch
            Called after every round, which waits for it. The round's report has `updates`, of each device that counted
            its `device`, `samples`, `loss` and `personal_accuracy`, and `layers`, what `Aggregate.explain` gives; what
            else a coordinator reports is entered where it is there.
        say
            Told in a sentence what the devices run on.

        Raises
        ------
        AuricleError
            The rounds cannot go on.
        """


ENGINES: dict[str, type[Engine]] = {
    "live": Federation,
    "virtual": VirtualFleet,
}
"""By the word of `--engine`."""


def engine_name(settings: FleetSettings) -> str:
    """The engine that the settings name, whether or not it can run them; SettingsError for an unknown one.

    Where they name none: virtual, whose models are those of a live fleet, unless a network or a fault is asked for, or
    what only a live fleet has.
    """
    if settings.engine is not None:
        if settings.engine not in ENGINES:
            raise SettingsError(f'There is no engine "{settings.engine}"; {nearest(settings.engine, ENGINES)}')
        return settings.engine
    faulty = any(not group.network.is_perfect or group.delay or group.drop_out for group in settings.groups)
    only_live = faulty or VirtualFleet.refusal(settings) is not None
    return "live" if only_live and Federation.refusal(settings) is None else "virtual"


def require_engine(settings: FleetSettings) -> str:
    """The engine of the settings, as of `engine_name`; SettingsError for one that is unknown or cannot run them."""
    name = engine_name(settings)
    if (reason := ENGINES[name].refusal(settings)) is not None:
        raise SettingsError(reason)
    return name
