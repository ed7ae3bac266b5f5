"""Signs of life for systemd: the sd_notify protocol, and a watchdog that is fed only while sound flows."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends states to systemd; does nothing where none asked for them.

    Parameters
    ----------
    environment
        Where `NOTIFY_SOCKET` and `WATCHDOG_USEC` stand (sd_notify(3)).
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._status = ""
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        limit = environment.get("WATCHDOG_USEC", "0")
        self.interval = int(limit) / 2e6 if mine and limit.isdecimal() and int(limit) else None
        """Seconds after which systemd wants a sign of life again (half its limit); None without a watchdog."""

    def ready(self, status: str) -> None:
        """The service listens."""
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """What `systemctl status` shows; sent when it changed."""
        if sentence != self._status:
            self._status = sentence
            self._send(f"STATUS={sentence}")

    def stopping(self) -> None:
        """The service is going."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError:
            return  # systemd is gone or busy; the next sign follows


class Pulse:
    """Whether the watchdog may be fed: sound flows, or whoever looks after it is seen to be at work.

    Parameters
    ----------
    silence
        Seconds without a sign after which the service had better be started again.
    """

    def __init__(self, silence: float = 30.0) -> None:
        self._silence = silence
        self._seen: tuple[float | None, int] = (None, 0)
        self._since: float | None = None

    def beats(self, progress: float | None, restarts: int, muted: bool, now: float) -> bool:
        """Whether all is well.

        Parameters
        ----------
        progress
            `time.monotonic()` of the newest sound; None before the first.
        restarts
            How often the capture was restarted: a microphone that is unplugged makes this grow, and a restart of the
            whole service would not plug it in.
        muted
            No sound is to be expected.
        now
            `time.monotonic()`.
        """
        if muted or self._since is None or (progress, restarts) != self._seen:
            self._seen, self._since = (progress, restarts), now
        return now - self._since < self._silence
