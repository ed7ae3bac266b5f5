"""Updates that arrive in parts, put together: one a device, in bounded memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from auricle.errors import WireError
from auricle.wire.messages import Update

BUDGET_BYTES = 64 << 20
"""Bytes of unfinished updates, of all devices together."""
PATIENCE_SECONDS = 600.0
"""Seconds an unfinished update may rest before it makes room for others."""


@dataclass
class _Assembly:
    update: Update
    parts: dict[int, bytes] = field(default_factory=dict)
    touched: float = 0.0
    size: int = 0


class Assemblies:
    """Unfinished updates by device; a device's memory is at most the length of one update.

    Parameters
    ----------
    budget
        Bytes of all together.
    """

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self._budget = budget
        self._kept: dict[str, _Assembly] = {}
        self.size = 0
        """Bytes held."""

    def add(self, update: Update, part: bytes) -> bytes | None:
        """Take in a part; the whole body once the last is there.

        Raises
        ------
        WireError
            `part` or `memory`: the parts are more than the length, or there is no room; what was there is given up.
        """
        if update.parts == 1:
            self.drop(update.device)
            return part
        kept = self._kept.get(update.device)
        if kept is None or (kept.update.body, kept.update.parts) != (update.body, update.parts):
            self.drop(update.device)
            kept = self._kept[update.device] = _Assembly(update)
        grown = len(part) - len(kept.parts.get(update.part, b""))
        if kept.size + grown > update.length:
            self.drop(update.device)
            raise WireError("part: together more than the update's length")
        kept.parts[update.part], kept.touched = part, time.monotonic()
        kept.size += grown
        self.size += grown
        if not self._within_budget():
            self.drop(update.device)
            raise WireError("memory: too many unfinished updates")
        if len(kept.parts) < update.parts:
            return None
        self.drop(update.device)
        return b"".join(kept.parts[i] for i in range(update.parts))

    def drop(self, device: str) -> None:
        """Give up a device's unfinished update."""
        kept = self._kept.pop(device, None)
        if kept is not None:
            self.size -= kept.size

    def _within_budget(self) -> bool:
        """Whether all fit; where they do not, those that have long rested are given up first."""
        if self.size > self._budget:
            oldest = time.monotonic() - PATIENCE_SECONDS
            for device in [name for name, kept in self._kept.items() if kept.touched < oldest]:
                self.drop(device)
        return self.size <= self._budget
