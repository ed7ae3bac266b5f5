"""Who may read and write which topic: `auricle.broker_rights`, which the cloud part generates its files from too."""

from __future__ import annotations

from auricle.broker_rights import Rights, Roles, acl_file, check_names, covers

__all__ = ["Rights", "Roles", "acl_file", "check_names", "covers"]
