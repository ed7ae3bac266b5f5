"""Whether, and how often, a device reports how well it hears: the table `[report]`."""

from __future__ import annotations

from typing import Annotated

import msgspec


class ReportSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing is reported unless the owner of the device says so here."""

    hearing: bool = False
    """Whether the coordinator is told coarse figures of what was heard, see docs/hearing-reports.md."""
    words: bool = False
    """Whether they say how often each keyword was heard, too."""
    minutes: Annotated[float, msgspec.Meta(ge=15, le=1440)] = 60.0
    """Time between two reports."""
