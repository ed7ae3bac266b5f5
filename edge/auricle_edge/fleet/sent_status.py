"""What a device says of what left it in rounds."""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.wire.kinds import Count

SentKind = Literal["masked sum", "noisy update", "plain update"]
"""A part of a secure sum, which shows nothing without the others'; an update with noise; one as it was trained."""


class SentUpdates(msgspec.Struct, frozen=True, kw_only=True):
    """What left the device in rounds since its state folder was made."""

    masked: Count = 0
    """Rounds in which a masked part of a secure sum left."""
    noisy: Count = 0
    plain: Count = 0
    bytes: Count = 0
    """Of the updates, each counted once however often it was sent."""
    last_round: Count | None = None
    last_kind: SentKind | None = None
    precision: float = 0.0
    """Sum over the rounds with noise of 1 / z^2, with z the noise's standard deviation divided by 2 C."""


class SentStatus(SentUpdates, frozen=True, kw_only=True):
    """The same, with what it means and what the owner set."""

    epsilon: float | None = 0.0
    """Of the rounds with noise, towards who sees the device's single updates; None: more than 700."""
    delta: float = 1e-5
    largest_epsilon: float | None = None
    require: str | None = None
