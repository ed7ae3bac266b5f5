"""Wiping: key first, then every file overwritten, then the index and its log; goes on after a power cut."""

from __future__ import annotations

from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.files import describe, sync_folder
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.index import Index
from auricle_edge.clips.key import Plain, Seal, destroy_key, draw_key, read_key

FILES, WIPING = "files", "wiping"

FLASH = (
    "Every file was overwritten where it lay, but the flash of an SD card, eMMC or SSD, a copy-on-write file system or "
    "a snapshot may still hold older copies: only encryption with a key on another medium, or destroying the medium, "
    "rules that out."
)
SEALED = (
    "The clips were encrypted and their key was overwritten and removed first: no copy that a flash disk may still "
    "hold can be read, unless the disk of the key holds an older copy of the key."
)


class Wiped(msgspec.Struct, frozen=True, kw_only=True):
    """What was wiped."""

    clips: int
    files: int
    key: bool
    """The key was destroyed, and a new one drawn."""
    note: str
    """What wiping can promise on this kind of disk."""


def wipe(index: Index, folder: Path, key_file: str | None, disk: Disk) -> tuple[Wiped, Seal | Plain]:
    """Destroy all clips of a store.

    The first step renames the folder of the files: it needs no free space, and whoever opens the store finds that a
    wipe has begun and ends it. Clips that another process adds after that step stay.

    Returns
    -------
    tuple
        What was wiped, and what seals clips from now on.

    Raises
    ------
    StorageError
        The disk refuses, or another process reads on and on; what was begun is ended by the next attempt.
    """
    files, wiping = folder / FILES, folder / WIPING
    with index.transaction():
        try:
            if files.exists() and not wiping.exists():
                disk.move(files, wiping)
            disk.folder(wiping)
            mark = index.value("key")
            destroyed, seal = _new_key(key_file, mark if isinstance(mark, str) else None, disk)
            doomed = sorted(wiping.iterdir())
            for path in doomed:
                disk.destroy(path)
            left = {path.name for path in files.iterdir()} if files.exists() else set()
        except OSError as error:
            raise StorageError(describe(error, folder)) from error
        rows = [row.id for row in index.rows() if row.file not in left]
        index.remove(rows)
        index.set_value("key", seal.mark)
    index.scrub()
    try:
        with disk.announced("rmdir", wiping):
            wiping.rmdir()
        sync_folder(folder)
    except OSError as error:
        raise StorageError(describe(error, wiping)) from error
    note = SEALED if destroyed else FLASH
    return Wiped(clips=len(rows), files=len(doomed), key=destroyed, note=note), seal


def _new_key(key_file: str | None, mark: str | None, disk: Disk) -> tuple[bool, Seal | Plain]:
    """Destroy the key of the clips and draw another; a key that is not theirs is left alone and used from now on."""
    if key_file is None:
        return False, Plain()
    path = Path(key_file)
    found = read_key(path)
    ours = found is not None and found.mark == mark
    destroyed = destroy_key(path, disk, ours=ours)
    return destroyed, found if found is not None and path.exists() else draw_key(path, disk)
