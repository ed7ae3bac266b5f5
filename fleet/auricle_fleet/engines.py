"""The table of execution engines, and which of them a run is with."""

from __future__ import annotations

from auricle.errors import SettingsError, nearest
from auricle_fleet.engine import Engine
from auricle_fleet.live.federation import Federation
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.fleet import VirtualFleet

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
