"""What may be set about the clips that a device keeps: table `[clips]`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class ClipSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much is kept, in what form, and what of it is trained on."""

    keep: Literal["audio", "features"] = "audio"
    """`features`: mel energies only, for devices that must not keep sound. Such clips cannot be played."""
    key_file: str | None = None
    """Encrypt clips and labels with the key in this file; drawn when the store is made and there is none yet."""
    megabytes: Annotated[float, Meta(ge=0.25, le=1 << 20)] = 64.0
    """Most megabytes (10^6 bytes) of clips; the least valuable and then the oldest go first."""
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = 180.0
    """Most days that a clip is kept, whatever it is; None: no limit."""
    unlabelled_days: Annotated[float, Meta(gt=0, le=36_500)] = 2.0
    """Most days that a clip without a label waits for a model that is sure of it."""
    clips_per_label: Annotated[int, Meta(ge=10, le=100_000)] = 200
    """Most clips of one label; `unlabelled` counts as a label."""
    held_out: Annotated[float, Meta(ge=0, le=0.5)] = 0.2
    """Part of each label's clips that is never trained on."""
    held_out_least: Annotated[int, Meta(ge=0, le=1000)] = 5
    """No quota takes a label's held-out clips below this count."""
    training_clips: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Most clips that a round trains on; bounds its memory: 32 kB a clip."""
    largest_boost: Annotated[float, Meta(ge=1, le=100)] = 4.0
    """Most by which the clips of a rare label are weighted up."""
    patience: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """Seconds to wait for another process that uses the store."""
