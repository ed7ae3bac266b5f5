"""A device that joined a home by a code keeps its place there: it renews its certificate, and finds a hub that moved.

Another process does it, `auricle edge renew`: what it takes to speak TLS and mDNS stays in no device's memory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from auricle.files import read_kept
from auricle.mqtt_link.private_link import FOLDER
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.fleet.agent_context import read_fleet_record

LOOK_SECONDS = 60.0
AWAY_SECONDS = 180.0
"""Without its broker for so long, it asks where its hub is; and as seldom again."""
DAY_SECONDS = 86_400.0
CLAIM = "claim.json"


class _Claim(msgspec.Struct, frozen=True):
    """Of what the claim left, the part that says whether it was by a code."""

    home: bool = False


def is_of_home(state: Path) -> bool:
    """Whether the device of a state folder joined by a code."""
    try:
        return msgspec.json.decode(read_kept(state / FOLDER / CLAIM), type=_Claim).home
    except (OSError, *UNDECODABLE):
        return False


async def renew(state: Path) -> None:
    """Renew as `auricle edge renew` does, which says nothing here: it is tried again."""
    quiet = asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "auricle", "edge", "renew", "--state", str(state))
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment)
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def watch_home(
    state: Path,
    broker: str | None,
    is_reached: Callable[[], bool],
    move: Callable[[str], None],
    renew: Callable[[Path], Awaitable[None]] = renew,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Look after it until cancelled, or until the hub has moved.

    Parameters
    ----------
    state
        The device's state folder.
    broker
        Where it connects now.
    is_reached
        Whether it is connected.
    move
        Called with the broker once the hub says that it is elsewhere.
    renew
        Asks the hub.
    clock
        Whom it asks for the time.
    """
    heard = asked = clock.monotonic()
    while True:
        await clock.pause(LOOK_SECONDS)
        now = clock.monotonic()
        heard = now if is_reached() else heard
        is_away = now - heard >= AWAY_SECONDS and now - asked >= AWAY_SECONDS
        if not is_away and now - asked < DAY_SECONDS:
            continue
        asked, before = now, read_fleet_record(state)
        await renew(state)
        after = read_fleet_record(state)
        follows = before is not None and before.broker == broker  # it may have been given another one
        if follows and after is not None and after.broker != broker:
            move(after.broker)
            return
