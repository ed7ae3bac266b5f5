"""Kinds of values in messages, each with its bounds: nothing longer, larger or finer crosses the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

DeviceId = Annotated[str, Meta(pattern=r"^[a-z0-9-]{4,64}\Z", max_length=64)]
FleetName = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,64}\Z", max_length=64)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64)]
Token = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=64)]
"""A name of printable ASCII: it ends up in logs and on terminals."""
Short = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Round = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
"""Fits a database's integer."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rounded = Literal[0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
"""A coarse count: nothing between these numbers, and nothing above the last, can be said."""
Quarters = Annotated[int, Meta(ge=0, le=96)]
"""Whole quarter hours, a day at most."""
Decibels = Annotated[int, Meta(ge=-96, le=0, multiple_of=3)]
"""Of full scale, in steps of 3."""
Sensitivity = Annotated[int, Meta(ge=-2, le=2)]
"""Steps by which all thresholds are lower (above 0: more is heard, also wrongly) or higher than the device's own."""
TargetPath = Annotated[str, Meta(pattern=r"^(?!.*\.\.)[a-z0-9][a-z0-9._/-]*\Z", max_length=200)]
"""Name of a target in the signed metadata of updates: a relative path without `..`."""
