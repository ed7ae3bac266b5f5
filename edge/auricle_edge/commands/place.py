"""Which device a command is about: the folder it keeps, from an option, the environment or its settings file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auricle.errors import SettingsError
from auricle.settings import read_toml
from auricle_edge.ota.installation import CONFIG, Installation

if TYPE_CHECKING:
    from auricle_edge.settings import EdgeSettings

STATE_VARIABLE, CONFIG_VARIABLE = "AURICLE_EDGE_STATE", "AURICLE_EDGE_CONFIG"
STATE_HELP = "State folder of the device [that of the settings file]."
CONFIG_HELP = f"Settings file [{CONFIG}]."

State = Annotated[Path | None, typer.Option("--state", envvar=STATE_VARIABLE, help=STATE_HELP)]
Config = Annotated[Path | None, typer.Option("--config", envvar=CONFIG_VARIABLE, help=CONFIG_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def config_file(config: Path | None) -> Path | None:
    """The settings file: the one that is named, or that of an installed device."""
    return config or (CONFIG if CONFIG.is_file() else None)


def settings_of(config: Path | None) -> EdgeSettings | None:
    """Settings of the device; None where there is no settings file."""
    file = config_file(config)
    if file is None:
        return None
    from auricle_edge.settings import read_settings  # of all that a device does: most commands need its folder alone

    return read_settings(file, {})


def state_folder(state: Path | None, config: Path | None) -> Path:
    """The state folder that a command is about; SettingsError where nothing names one."""
    if state is not None:
        return state
    file = config_file(config)
    if file is None:
        raise SettingsError(f"Name the device's folder with --state (or {STATE_VARIABLE}), or its file with --config.")
    named = read_toml(file).get("state")
    if not isinstance(named, str) or not named:
        raise SettingsError(f"{file}: name the device's folder: --state FOLDER, or state in its settings file.")
    return Path(named)


def why_absent(folder: Path) -> str | None:
    """Why no service may run in the folder of a device that was installed from a bundle; None: it is no such folder."""
    installation = Installation()
    root = installation.place.parent.parent
    if folder != root / "var/lib/auricle" or installation.journal.active is None:
        return None
    if (root / "etc/auricle/claim.token").exists():
        return (
            "The agent starts once this board has claimed its certificate: systemctl status auricle-claim says what "
            "that waits for."
        )
    return "The agent of this board does not run: systemctl status auricle-edge says why."
