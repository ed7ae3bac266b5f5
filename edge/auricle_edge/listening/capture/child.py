"""The capture child: opens one source and writes its sound to the listener until one of them ends.

Started as `python -m auricle_edge.listening.capture.child OPTIONS`, with the options as JSON. It is a process of its
own because PortAudio lists devices once a process, a driver that hangs can only be killed, and training must not keep a
microphone waiting. It imports no more than its source needs, so that it stays small.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
import time
from contextlib import suppress

from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.child_parts import Options, Origin, Refusal, die_with

_PIPE_BYTES = 1 << 20
"""Wanted for the pipe: five seconds at 48 kHz stereo, the most that waits for a slow listener."""


_PRIORITY = -10
"""Nice value wanted: it does little, but in time."""


class Outlet:
    """The pipe to the listener: the kernel's buffer is the queue, and what does not fit is dropped whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(b"")
        os.set_blocking(descriptor, False)
        if sys.platform.startswith("linux"):
            with suppress(OSError):  # over this user's allowance: the pipe stays at 64 kB
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def send(self, message: bytes, wait: bool) -> bool:
        """Write a frame; False when it was dropped because the listener has not made room for it."""
        if not self._flush(wait):
            return False
        self._rest = memoryview(message)
        self._flush(wait)
        return True

    def _flush(self, wait: bool) -> bool:
        while len(self._rest):
            try:
                self._rest = self._rest[os.write(self._descriptor, self._rest) :]
            except BlockingIOError:
                if not wait:
                    return False
                select.select([], [self._descriptor], [])
        return True


def origin(options: Options) -> Origin:
    """Open the source; Refusal when that cannot be done now."""
    if options["kind"] in ("mic", "alsa"):
        from auricle_edge.listening.capture.microphone import Microphone

        return Microphone(options)
    if options["kind"] == "arecord":
        from auricle_edge.listening.capture.alsa import Arecord

        return Arecord(options)
    if options["kind"] == "fifo":
        from auricle_edge.listening.capture.recordings import Fifo

        return Fifo(options)
    from auricle_edge.listening.capture.recordings import Recordings

    return Recordings(options)


def carry(source: Origin, outlet: Outlet, first: int) -> None:
    """Carry sound to the listener until the source ends."""
    lost = False
    while (piece := source.read()) is not None:
        now = time.monotonic()
        size = len(piece.data) // (2 * source.channels)
        lost |= piece.lost
        frame = child_parts.sound(piece.data, source.channels, source.rate, first, lost, now)
        first += size
        if outlet.send(frame, source.waits):
            lost = False


def main() -> None:
    """Run until the source or the listener ends."""
    outlet = Outlet(os.dup(1))
    os.dup2(2, 1)  # nothing a library prints may get between the frames
    options = json.loads(sys.argv[1])
    die_with(options["parent"])
    with suppress(OSError):  # only some may go before others
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)

    def say(kind: int, message: object) -> None:
        outlet.send(child_parts.text(kind, json.dumps(message).encode(), time.monotonic()), wait=True)

    try:
        if options["kind"] == "list":
            from auricle_edge.listening.capture.microphone import listing

            return say(child_parts.LISTED, listing())
        source = origin(options)
        say(child_parts.OPENED, {"device": source.device, "rate": source.rate, "channels": source.channels})
        carry(source, outlet, options["first"])
        say(child_parts.ENDED, {})
    except BrokenPipeError:
        pass
    except Refusal as refusal:
        say(child_parts.FAILED, {"reason": refusal.reason, "sentence": str(refusal)})
    except Exception as error:  # noqa: BLE001 - a library's error of any kind is told to the listener, who restarts
        say(child_parts.FAILED, {"reason": "failed", "sentence": f"{type(error).__name__}: {error}"[:1000]})
    return None


if __name__ == "__main__":
    main()
