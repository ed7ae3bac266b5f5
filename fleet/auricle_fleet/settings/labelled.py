"""What `--labelled` names: a folder, the validation speakers' clips, or a share of the devices' own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auricle.errors import SettingsError

if TYPE_CHECKING:
    from auricle_fleet.settings.fleet_settings import FleetSettings

VALIDATION = "validation"
SHARE = "share:"
MOST_SHARE = 0.5
"""Of the devices' clips that a coordinator can take."""


def labelled_share(labelled: str | None) -> float | None:
    """The share of the devices' clips that the coordinator takes, with their labels; None where it takes none.

    Raises
    ------
    SettingsError
        What follows `share:` is not a number above 0 and at most `MOST_SHARE`.
    """
    if labelled is None or not labelled.startswith(SHARE):
        return None
    try:
        share = float(labelled.removeprefix(SHARE))
    except ValueError:
        share = 0.0
    if not 0 < share <= MOST_SHARE:
        raise SettingsError(
            f'--labelled "{labelled}" is not a valid share: say {SHARE} and a number above 0 and at most '
            f"{MOST_SHARE:g}, such as {SHARE}0.03."
        )
    return share


def labelled_folder(labelled: str | None) -> str | None:
    """The folder of labelled clips; None where none is named."""
    return None if labelled == VALIDATION or labelled_share(labelled) is not None else labelled


def check_labelled(told: FleetSettings) -> None:
    """SettingsError for a share that is not allowed, and for the clips of validation speakers where there are none."""
    labelled_share(told.labelled)
    if told.labelled == VALIDATION and not told.validation:
        raise SettingsError(
            "--labelled validation takes the clips of the validation speakers: add --validation, or name a folder of "
            "this name as ./validation."
        )
