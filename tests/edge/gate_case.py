"""A board with which nothing is wrong, and what its gate decides at a first look."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from auricle_edge.board.gate import Closed, Decision, GateSettings, Readings, Throttling, look

NOON = datetime(2026, 5, 4, 12, 0)
FINE = Readings(
    power="mains", battery=80.0, temperature=50.0, throttling=Throttling(), load=0.2, memory=500.0, network="free"
)
DEFAULT = GateSettings()


def changed(**changes: Any) -> GateSettings:
    return msgspec.structs.replace(DEFAULT, **changes)


def decide(readings: Readings, settings: GateSettings, now: datetime) -> Decision:
    """What a gate decides that remembers nothing."""
    return look(Closed(), readings, settings, now, 0.0)[1]
