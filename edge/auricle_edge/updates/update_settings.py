"""What may be set about updates."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

PATIENCE = 5.0
"""How many times the healthy time a new version has to get healthy."""

KeyText = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class UpdateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[updates]`."""

    url: str | None = None
    """Where `metadata/` and `targets/` lie; None: `v1/updates` of the server that gave out the certificate."""
    root: str | None = None
    """File of the first signed root; None: `tuf/root.json` of the installed bundle. Without one: no updates."""
    bundle_key: KeyText | None = None
    """Public key in hex that must have signed a bundle, besides those of the signed metadata."""
    check_every: Annotated[float, Meta(ge=60)] | None = None
    """Seconds between two looks for a newer bundle without being asked; None: only when the coordinator asks."""
    health_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """For so long all has to be well until what is on trial stays; five times as long, and it goes."""
