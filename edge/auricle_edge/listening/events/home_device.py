"""What a home is told of a device, and may do to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auricle.wire.kinds import DeviceId
from auricle_edge.listening.events.home_assistant import HomeState


@dataclass(frozen=True)
class HomeDevice:
    """A device at the home's broker."""

    name: DeviceId
    model: str
    """Name of its pack."""
    keywords: Sequence[str]
    """Every word that it may hear."""
    state: Callable[[], HomeState]
    """How it is now; the last word is known here."""
    mute: Callable[[bool], object]
    """Closes or opens the microphone; from a thread of its own."""
