"""What a bundle tells its devices: `edge.toml`, and where they claim their certificate."""

from __future__ import annotations

from auricle.packs.pack import Pack, load_pack
from auricle_export.flash.board import Board
from auricle_export.flash.device_files import edge_settings, settings_text
from auricle_export.flash.edge_names import TABLES
from auricle_export.flash.fleet import Fleet

PACK = "/opt/auricle/current/pack.tar.zst"
"""Where a device finds the pack of the version that is active."""


def local_model(board: Board, fleet: Fleet, pack: Pack) -> str | None:
    """The model of a device's own: that of the fleet's settings, or of the profile.

    Where the fleet's pack has no model of the profile's name it is the pack's plug-in on a board whose profile names
    the plug-in of its own pack, and else None: the device takes the pack's larger model.

    Raises
    ------
    PackError
        The pack has no model of the name that the fleet's settings ask for.
    """
    asked = fleet.device.settings.get("local")
    if asked is None and fleet.pack is not None and board.agent.local not in pack.tables:
        small = board.agent.local == load_pack(board.agent.pack).manifest.plugin
        return pack.manifest.plugin if small else None
    named = str(asked or board.agent.local)
    pack.table(named)
    return named


def settings_of(board: Board, fleet: Fleet, pack: Pack) -> str:
    """The text of `edge.toml`: the profile's settings, the fleet's own, and nothing that is one device's, or secret.

    Raises
    ------
    PackError
        The pack has no model of the name that the fleet's settings ask for.
    SettingsError
        The profile has no such microphone, or no line to wire anything to.
    """
    device = fleet.device
    top, tables = edge_settings(board, None, microphone=device.microphone, wired=device.wired)
    top |= {"pack": PACK, "fleet": fleet.name, "broker": fleet.broker, "coordinator": fleet.coordinator}
    local = local_model(board, fleet, pack)
    top = {name: value for name, value in top.items() if name != "local"} | ({} if local is None else {"local": local})
    if fleet.pack_key is not None:
        top["pack_key"] = fleet.pack_key
    for name, value in device.settings.items():
        if name in TABLES:
            tables[name] = {**tables.get(name, {}), **value}
        else:
            top[name] = value
    return settings_text(f"{board.title} in the fleet {fleet.name}: from its profile and fleet.toml.", top, tables)


def claim_environment(fleet: Fleet) -> str:
    """The text of `claim.env`, which systemd reads for the claim."""
    return f"AURICLE_SERVER={fleet.server}\nAURICLE_CA_PIN={fleet.ca_pin}\n"
