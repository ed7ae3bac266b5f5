"""The capture child: opens one source and writes its sound to the listener until one of them ends.

Started by `child_process` with `main`'s options, one `name=value` an argument. It is a process of its own because
PortAudio lists devices once a process, a driver that hangs can only be killed, and training must not keep a microphone
waiting. It imports no more than its source needs, so that it stays small: these files and, of Python's library, next to
nothing, neither json nor typing nor pathlib (`bench/edge_footprint.py --parts 5`).
"""

from __future__ import annotations

import os
import select
import sys
import time

from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.child_parts import Refusal, die_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from auricle.speech.sound_faults import Finding
    from auricle_edge.listening.capture.child_parts import ChildOptions, Origin

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
            import fcntl

            try:  # noqa: SIM105 - contextlib makes the child bigger
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            except OSError:  # over this user's allowance: the pipe stays at 64 kB
                pass

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


def origin(options: ChildOptions, tell: Callable[[Finding], None]) -> Origin:
    """Open the source; Refusal when that cannot be done now. `tell` is called with what is wrong with a file."""
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

    return Recordings(options, tell)


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


def options_of(arguments: list[str]) -> ChildOptions:
    """What `arguments_of` of `child_process` has written."""
    told = dict(argument.split("=", 1) for argument in arguments)

    def number(name: str) -> int | None:
        return int(told[name]) if told.get(name) else None

    return {
        "kind": told["kind"],
        "target": told.get("target", ""),
        "fast": bool(number("fast")),
        "loop": bool(number("loop")),
        "rate": number("rate"),
        "channels": number("channels"),
        "least": number("least") or 1,
        "block": float(told.get("block", "0")),
        "first": number("first") or 0,
        "parent": int(told["parent"]),
    }


def main(arguments: list[str]) -> None:
    """Run until the source or the listener ends."""
    outlet = Outlet(os.dup(1))
    os.dup2(2, 1)  # nothing a library prints may get between the frames
    options = options_of(arguments)
    die_with(options["parent"])
    try:  # noqa: SIM105 - contextlib makes the child bigger
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    except OSError:  # only some may go before others
        pass

    def say(kind: int, message: bytes) -> None:
        outlet.send(child_parts.text(kind, message, time.monotonic()), wait=True)

    def tell(finding: Finding) -> None:
        told: dict[str, str | int] = {"reason": finding.reason, "sentence": finding.sentence}
        say(child_parts.FINDING, child_parts.object_text({**told, "is_used": finding.is_used}))

    try:
        if options["kind"] == "list":
            import json

            from auricle_edge.listening.capture.microphone import listing

            return say(child_parts.LISTED, json.dumps(listing()).encode())
        source = origin(options, tell)
        opened: dict[str, str | int] = {"device": source.device, "rate": source.rate, "channels": source.channels}
        say(child_parts.OPENED, child_parts.object_text(opened))
        child_parts.give_back_code()
        carry(source, outlet, options["first"])
        say(child_parts.ENDED, b"{}")
    except BrokenPipeError:
        pass
    except Refusal as refusal:
        say(child_parts.FAILED, child_parts.object_text({"reason": refusal.reason, "sentence": str(refusal)}))
    except Exception as error:  # noqa: BLE001 - a library's error of any kind is told to the listener, who restarts
        sentence = f"{type(error).__name__}: {error}"[:1000]
        say(child_parts.FAILED, child_parts.object_text({"reason": "failed", "sentence": sentence}))
    return None
