"""The part that runs on a laptop: many real agents, one real broker, one real coordinator."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_fleet.results.live import View
    from auricle_fleet.results.result import DeviceRow, FleetResult, RoundRow
    from auricle_fleet.run import FleetRun
    from auricle_fleet.settings.fleet_settings import FleetSettings
    from auricle_fleet.settings.groups import Group, Network, Trace

__all__ = ["DeviceRow", "FleetResult", "FleetRun", "FleetSettings", "Group", "Network", "RoundRow", "Trace", "View"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "DeviceRow": "auricle_fleet.results.result",
            "FleetResult": "auricle_fleet.results.result",
            "FleetRun": "auricle_fleet.run",
            "FleetSettings": "auricle_fleet.settings.fleet_settings",
            "Group": "auricle_fleet.settings.groups",
            "Network": "auricle_fleet.settings.groups",
            "RoundRow": "auricle_fleet.results.result",
            "Trace": "auricle_fleet.settings.groups",
            "View": "auricle_fleet.results.live",
        },
    )
