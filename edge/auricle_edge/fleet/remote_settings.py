"""What the coordinator may change on a device: the table `[remote]`."""

from __future__ import annotations

import msgspec


class RemoteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the owner of the device allows."""

    sensitivity: bool = True
    """Whether the coordinator may make it hear more or less, by at most two steps."""
