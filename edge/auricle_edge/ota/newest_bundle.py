"""Which newer bundle is on offer for this device: `python -m auricle_edge.ota.newest_bundle`.

The settings are its input. It is a process of its own, as the one that fetches a pack is: the client of the signed
metadata costs the device that listens no memory. It only looks. Root, who installs, asks the server itself.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from auricle.errors import AuricleError
from auricle.wire.kinds import UNDECODABLE, Short, Token
from auricle_edge.ota.installation import BUNDLE, Installation
from auricle_edge.ota.records import FOLDER, short
from auricle_edge.settings import EdgeSettings


class NewestBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What the signed metadata says."""

    version: Token = ""
    """Of the newest bundle that fits; empty: there is none that is newer."""
    reason: Short = ""
    """Why nobody knows; empty: it is known."""


def find_newest(settings: EdgeSettings) -> NewestBundle:
    """Look for it; AuricleError: the metadata cannot be had, or is not in order."""
    from auricle_edge.board.trusted_time import time_here
    from auricle_edge.ota.bundle_upgrade import first_root, newest_bundle  # loads python-tuf
    from auricle_edge.ota.signed_targets import SignedTargets, alone
    from auricle_edge.ota.update_server import server_of

    installation = Installation()
    runs = installation.running()
    if runs is None:
        return NewestBundle()
    folder = settings.folder / FOLDER / "tuf"
    with alone(folder):
        now = time_here(folder, runs.slot / BUNDLE)
        server, root = server_of(settings.updates.url, settings.folder), first_root(settings.updates.root, runs)
        targets = SignedTargets(folder / "metadata", server, root, now)
        target = newest_bundle(targets, runs, installation.journal.last)
    return NewestBundle(version="" if target is None else target.description.version or "")


async def ask_process(settings: EdgeSettings) -> NewestBundle:
    """What a process of its own came to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "auricle_edge.ota.newest_bundle"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    try:
        answer, _ = await process.communicate(msgspec.json.encode(settings))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        return msgspec.json.decode(answer, type=NewestBundle)
    except UNDECODABLE:
        return NewestBundle(reason=f"What looked for a newer bundle ended with {process.returncode}.")


def main() -> int:
    """Look, and say on standard output what there is."""
    from auricle_edge.board.memory import be_small
    from auricle_edge.board.priority import yield_to_detection

    be_small()
    yield_to_detection()
    try:
        newest = find_newest(msgspec.json.decode(sys.stdin.buffer.read(), type=EdgeSettings))
    except AuricleError as error:
        newest = NewestBundle(reason=short(str(error)))
    sys.stdout.buffer.write(msgspec.json.encode(newest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
