"""Events as lines of JSON on standard output."""

from __future__ import annotations

import asyncio
import sys

from auricle_edge.listening.events.outputs import line_of
from auricle_edge.listening.sound import Event


class Stdout:
    """Standard output; who does not read it holds up nothing else.

    Parameters
    ----------
    device
        Name that stands in the events.
    """

    name = "stdout"

    def __init__(self, device: str) -> None:
        self._device = device

    async def open(self) -> None:
        """Nothing to do."""

    async def deliver(self, event: Event) -> None:
        """Write one line."""
        await asyncio.to_thread(print, line_of(event, self._device), file=sys.stdout, flush=True)

    async def close(self) -> None:
        """Nothing to do."""
