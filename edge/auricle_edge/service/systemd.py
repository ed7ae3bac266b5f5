"""What systemd needs: the device's unit, for the interpreter that runs, signs of life, and a watchdog."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

FILE = "service/auricle-edge.service"
INSTALLED = Path("/opt/auricle")
"""Where a bundle installs the agent: what the unit names as it is written."""
HOMES = (Path("/home"), Path("/root"))
GUARD = "# Root's own, outside the sandbox"
"""Begins the comment before the line that only a bundle's installation has."""


def unit_text(prefix: Path | None = None, python: Path | None = None) -> str:
    """The unit as it starts this installation.

    Parameters
    ----------
    prefix, python
        The environment and its interpreter; without, those of this process. Where they are a bundle's, the unit is as
        it was written; elsewhere it names this environment's `auricle` and leaves out the guard of versions on trial.
    """
    prefix, python = prefix or Path(sys.prefix), python or Path(sys.executable)
    text = resources.files("auricle_edge").joinpath(FILE).read_text("utf-8")
    if prefix.is_relative_to(INSTALLED):
        return text
    program = python.parent / "auricle"
    start = _word(program) if program.exists() else f"{_word(python)} -m auricle"
    before, _, rest = text.partition(GUARD)
    after = rest[rest.index("ExecStart=") :]
    made = before + after.replace(f"ExecStart={INSTALLED}/bin/auricle", f"ExecStart={start}", 1)
    return made.replace("ProtectHome=yes", "ProtectHome=read-only") if in_a_home(prefix) else made


def in_a_home(prefix: Path) -> bool:
    """Whether an environment lies where the unit's own user can hardly read it."""
    return any(prefix.is_relative_to(home) for home in HOMES)


def _word(path: Path) -> str:
    """A path as systemd reads it in a command."""
    text = str(path).replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return f'"{text}"' if " " in text else text


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
