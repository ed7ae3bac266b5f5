"""What time it is at least, on a board whose clock forgets.

A Raspberry Pi without a battery begins each day in the past: metadata that ran out long ago would look fresh to it. So
time is never earlier than what is known to have passed: the newest metadata that was found in order, the installation
and the interpreter. A clock that somebody keeps right (NTP) is believed against the latter two, which a wrong clock may
have written, but not against the first: NTP can be forged, and a time before that of metadata which was found in order
has passed. Where nothing keeps the clock right, and something seems to have run out, the clock may be wrong the other
way: that is no refusal, but to be tried again.

The floor cannot be driven into the future: the time that is remembered was before the end of what was signed.
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auricle.files import read_kept, write_durably

REMEMBERED = "time"
NO_DATE = 253_402_300_800
"""Seconds since 1970 of the year 10000: what was damaged so far cannot be a time."""


@dataclass(frozen=True)
class TrustedTime:
    """A moment, and how sure it is."""

    seconds: float
    """Since 1970."""
    kept: bool | None
    """Whether something keeps the clock right; None: nobody knows."""

    @property
    def moment(self) -> datetime.datetime:
        """With its zone."""
        return datetime.datetime.fromtimestamp(self.seconds, datetime.timezone.utc)


def judge_time(clock: float, kept: bool | None, floors: Iterable[float], signed: float = 0.0) -> TrustedTime:
    """The time to judge by.

    Parameters
    ----------
    clock
        What the system says, seconds since 1970.
    kept
        Whether something keeps it right.
    floors
        Moments that have passed as far as files say that a clock has dated.
    signed
        Moment at which signed metadata was in order. A clock before it is wrong, even if NTP says otherwise.
    """
    if kept:
        return TrustedTime(max(clock, signed), clock >= signed)
    return TrustedTime(max((clock, signed, *floors)), kept)


def time_here(folder: Path, installed: Path | None) -> TrustedTime:
    """The time to judge by on this device.

    Parameters
    ----------
    folder
        Where the metadata is kept, and the time at which it was last in order.
    installed
        A file that was written at the installation.
    """
    places = [Path(sys.executable).resolve(), *([] if installed is None else [installed])]
    floors = [place.stat().st_mtime for place in places if place.exists()]
    return judge_time(time.time(), is_synchronised(), floors, _last_date(folder))


def remember(folder: Path, now: TrustedTime) -> None:
    """Keep the time at which everything was in order."""
    write_durably(folder / REMEMBERED, str(int(now.seconds)).encode())


def _last_date(folder: Path) -> float:
    try:
        seconds = int(read_kept(folder / REMEMBERED)[:20])
    except (OSError, ValueError):
        return 0.0
    return float(seconds) if 0 <= seconds < NO_DATE else 0.0


def is_synchronised() -> bool | None:
    """Whether the system's clock is kept right, as systemd says; None: it does not say."""
    program = shutil.which("timedatectl")
    if program is None:
        return None
    try:
        said = subprocess.run(
            [program, "show", "--property=NTPSynchronized", "--value"],
            capture_output=True,
            text=True,
            timeout=5,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(said)
