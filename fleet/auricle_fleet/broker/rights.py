"""Who may read and write which topic: `auricle.mqtt_link.broker_rights`, from which the cloud makes its files too."""

from __future__ import annotations

from auricle.mqtt_link.broker_rights import Rights, Roles, acl_file, check_names, covers

__all__ = ["Rights", "Roles", "acl_file", "check_names", "covers"]
