"""What a home is told of a device that listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auricle import __version__
from auricle_edge.listening.events.home_assistant import HomeState

if TYPE_CHECKING:
    from auricle_edge.service.parts import Parts


def home_state(parts: Parts) -> HomeState:
    """How the device is now, in what a home shows of it."""
    state, updates = parts.capture.state, parts.updates.standing()
    under_way = updates.state in ("fetching", "trial")
    return HomeState(
        muted=state.muted,
        level=state.level_dbfs if state.running else None,
        rounds=parts.rounds,
        pack=f"{parts.pack.manifest.name} {parts.pack.identity[:12]}",
        version=updates.version or __version__,
        rollout=updates.rollout or None if under_way else None,
        reason=updates.reason if under_way else "",
    )
