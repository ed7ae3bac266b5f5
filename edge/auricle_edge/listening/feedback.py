"""What a person says of a detection: by command, button, the home's broker or HTTP on the device."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer."""

    verdict: Literal["confirm", "deny", "missed"]
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")] | None = None
    """Of the detection that is confirmed or denied; None: the newest one, if nobody answered it yet."""
    word: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """The word that was said and missed."""
