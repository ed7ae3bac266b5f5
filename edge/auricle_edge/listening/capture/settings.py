"""What the table `[capture]` of a device's settings may say."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0.5, le=3600)]


class CaptureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the sound comes from, and when it counts as gone."""

    source: str = "mic"
    """`mic`, `mic:NAME`, `alsa:CARD=ID`, `alsa:usb=VVVV:PPPP`, `arecord:PCM`, `file:`, `folder:` or `fifo:PATH`."""
    rate: Annotated[int, msgspec.Meta(ge=4000, le=192_000)] | None = None
    """Hz at which the device is opened first; None takes the device's own. A FIFO's rate [16,000]."""
    channels: Annotated[int, msgspec.Meta(ge=1, le=32)] | None = None
    """How many are opened; None takes what the device has, at most two. A FIFO's channels [1]."""
    channel: Annotated[int, msgspec.Meta(ge=0, le=31)] | None = None
    """Number of the one to listen to, from 0; None takes their mean."""
    high_pass: Annotated[float, msgspec.Meta(ge=0, le=200)] = 20.0
    """Hz below which sound is taken out, an offset with it; 0 takes out nothing. 80 also helps against hum."""
    block: Annotated[float, msgspec.Meta(ge=0.01, le=0.5)] = 0.05
    """Seconds of sound in a block."""
    open_within: Seconds = 3.0
    """Seconds within which a started child must give its first sound; doubled, up to a minute, while it does not."""
    stall_after: Seconds = 1.5
    """Seconds without sound after which the child is restarted."""
    silence_after: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 3.0
    """Seconds of nothing but zeros, or of a repeated block, after which the child is restarted; 0 never."""
    mute_switch: str = ""
    """File that mutes while it exists and does not say 0, or `gpio:CHIP:LINE`; `gpio:CHIP:LINE:low` is active low."""
