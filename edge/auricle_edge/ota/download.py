"""A target on its way to the disk: as long as was signed and no longer, gone on with after every interruption."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, open_kept, sync_folder
from auricle.process.checkup import size
from auricle_edge.ota.records import UpdateLaterError, UpdateRefusedError
from auricle_edge.ota.signed_targets import SignedTarget
from auricle_edge.ota.update_server import UpdateServer

SPARE_BYTES = 16 << 20
"""Bytes that stay free."""
ATTEMPTS_CONNECTIONS = 5
"""Connections in one go; with more patience, whoever asked comes back later."""


def download(
    target: SignedTarget,
    server: UpdateServer,
    folder: Path,
    *,
    unpacked: float = 0.0,
    progress: Callable[[int, int], None] = lambda come, length: None,
) -> Path:
    """Fetch a target into a folder of its own; what else lies there is removed.

    Parameters
    ----------
    target, server
        What, and from where.
    folder
        Where to; the file is named by its SHA-256.
    unpacked
        How many times its length has to be free beside it, for what is made of it.
    progress
        Called with the bytes that have come and all that will.

    Returns
    -------
    Path
        The file, durable and with the hash that was signed.

    Raises
    ------
    StorageError
        There is not room enough.
    UpdateLaterError
        The network; what has come is kept.
    UpdateRefusedError
        What came is not what was signed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole, part = folder / target.sha256, folder / f"{target.sha256}.part"
    for other in folder.iterdir():
        if other not in (whole, part):
            other.unlink()
    if whole.exists():
        if _sound(whole, target):
            return whole
        whole.unlink()
    had = part.stat().st_size if part.exists() else 0
    _require_room(folder, int(target.length * (1 + unpacked)) - had)
    try:
        _fetch(target, server, part, progress)
        if had and not _sound(part, target):  # what lay there before was not the beginning of it
            part.unlink()
            _fetch(target, server, part, progress)
    except OSError as error:
        raise StorageError(describe(error, part)) from error
    if not _sound(part, target):
        part.unlink()
        raise UpdateRefusedError(f"What the server gives as {target.path} is not what was signed.")
    part.replace(whole)
    sync_folder(folder)
    return whole


def _fetch(target: SignedTarget, server: UpdateServer, part: Path, progress: Callable[[int, int], None]) -> None:
    """Until all has come, over several connections as long as each of them brings something."""
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b") as file:
        for attempt in range(1, ATTEMPTS_CONNECTIONS + 1):
            before = file.seek(0, os.SEEK_END)
            if before > target.length:
                before = file.truncate(0)
            try:
                if before < target.length:
                    _take(target, server, file.fileno(), before, progress)
                break
            except UpdateLaterError:
                if attempt == ATTEMPTS_CONNECTIONS or os.fstat(handle).st_size <= before:
                    raise
            finally:
                os.fsync(handle)


def _take(
    target: SignedTarget, server: UpdateServer, handle: int, start: int, progress: Callable[[int, int], None]
) -> None:
    come = start
    for piece in server.pieces(target.url, start):
        if not piece:  # from the beginning after all
            os.ftruncate(handle, 0)
            come = 0
        if come + len(piece) > target.length:
            os.ftruncate(handle, 0)
            raise UpdateRefusedError(f"The server gives more than the {target.length} bytes of {target.path}.")
        os.pwrite(handle, piece, come)
        come += len(piece)
        progress(come, target.length)
    if come < target.length:
        raise UpdateLaterError(f"{target.length - come} of {target.length} bytes of {target.path} are missing.")


def _sound(path: Path, target: SignedTarget) -> bool:
    """Whether a file is what was signed."""
    if path.stat().st_size != target.length:
        return False
    counted = hashlib.sha256()
    with open_kept(path) as file:
        while piece := file.read(1 << 20):
            counted.update(piece)
    return counted.hexdigest() == target.sha256


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE_BYTES:
        raise StorageError(
            f"The disk of {folder} has {size(free)} free, and this update needs {size(needed + SPARE_BYTES)}: "
            "free some."
        )
