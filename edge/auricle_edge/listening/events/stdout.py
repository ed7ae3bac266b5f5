"""Events as lines on standard output: JSON, or for a person."""

from __future__ import annotations

import asyncio
import sys

from auricle_edge.listening.events.outputs import line_of, sentence_of
from auricle_edge.listening.sound import Event


class Stdout:
    """Standard output; who does not read it holds up nothing else.

    Parameters
    ----------
    device
        Name that stands in the events.
    readable
        Write for a person instead of JSON.
    """

    name = "stdout"

    def __init__(self, device: str, *, readable: bool = False) -> None:
        self._device, self._readable = device, readable

    async def open(self) -> None:
        """Nothing to do."""

    async def deliver(self, event: Event) -> None:
        """Write one line."""
        line = sentence_of(event) if self._readable else line_of(event, self._device)
        await asyncio.to_thread(print, line, file=sys.stdout, flush=True)

    async def close(self) -> None:
        """Nothing to do."""
