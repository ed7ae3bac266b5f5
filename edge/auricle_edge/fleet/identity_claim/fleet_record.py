"""What a device was told of its fleet when it claimed, so that its agent needs no other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from auricle.mqtt_link.identity_files import FOLDER
from auricle.wire.kinds import FleetName, Sha256

FILE = "fleet.json"


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and options that say something else count above it."""

    fleet: FleetName
    broker: Annotated[str, msgspec.Meta(max_length=300)]
    coordinator: Sha256
    """Public key, 64 hexadecimal digits."""


def read_fleet_record(state: Path) -> FleetRecord | None:
    """The record in a state folder; None without one, or where this user may not read it."""
    try:
        return msgspec.json.decode((state / FOLDER / FILE).read_bytes(), type=FleetRecord)
    except (OSError, msgspec.DecodeError):
        return None
