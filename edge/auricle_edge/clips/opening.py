"""Opening a store: folder, key and index fit together and are put in order, or a sentence says why not."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError, SettingsError, StorageError
from auricle.files import describe
from auricle_edge.clips.choice import ClipSettings
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.index import DamagedIndexError, Index, destroy_index
from auricle_edge.clips.key import Plain, Seal, draw_key, read_key
from auricle_edge.clips.shelf import GONE, SEALED, Shelf
from auricle_edge.clips.vector_files import clips_in, vector_files
from auricle_edge.clips.wipe import FILES, WIPING, Wiped, wipe

_log = logging.getLogger(__name__)
_TORN = re.compile(r"\..*\.tmp")
_DOOMED = re.compile(rf"\.(.*){re.escape(GONE)}")


def tidy(index: Index, shelf: Shelf) -> int:
    """Make files and index agree; returns how many files could not be read and were left where they are.

    A torn file is destroyed. A doomed one is destroyed and its row taken out: the deletion had begun. A file whose clip
    has a newer one is destroyed. A whole file that no row knows is taken into the index again: it was on its way in, or
    the index was lost. Vectors of clips that are not there are destroyed. All of it happens while no other process
    writes.
    """
    if _agree(index, shelf):
        return 0
    with index.transaction():
        rows = {row.file: row.id for row in index.rows()}
        readable = {clip.id for clip in shelf.clips(index.rows())}
        index.remove(identity for identity in rows.values() if identity not in readable)
        known, lost, doomed = {i for i in rows.values() if i in readable}, 0, []
        for name in shelf.names():
            if (name in rows and rows[name] in known) or clips_in(name):
                continue
            if (gone := _DOOMED.fullmatch(name)) and gone[1] in rows:
                index.remove([rows[gone[1]]])
            if gone or _TORN.fullmatch(name) or name.split("-")[0] in known:
                doomed.append(name)
                continue
            try:
                clip = shelf.adopted(name)
            except DataError as error:
                _log.warning("%s is not a clip of this store (%s): it is left where it is.", shelf.folder / name, error)
                lost += 1
                continue
            index.put(shelf.row(clip))
            known.add(clip.id)
        there = {row.id for row in index.rows()}
        doomed += [name for name, ids in vector_files(shelf).items() if not there.issuperset(ids)]
    for name in doomed:
        shelf.disk.destroy(shelf.folder / name)
    return lost


def try_to_tidy(index: Index, shelf: Shelf) -> int:
    """`tidy`, unless the disk is full or cannot be written: what is there can be read all the same."""
    with contextlib.suppress(StorageError):
        return tidy(index, shelf)
    return 0


def _agree(index: Index, shelf: Shelf) -> bool:
    rows = index.rows()
    names, known = shelf.names(), {row.file: row.id for row in rows}
    there = set(known.values())
    sound = all(there.issuperset(ids) if (ids := clips_in(name)) else name in known for name in names)
    return sound and sum(1 for _ in shelf.clips(rows)) == len(rows)


INDEX, LOCK = "index.sqlite", "lock"


@dataclass
class Opened:
    """An open store."""

    index: Index
    shelf: Shelf
    unreadable: int
    """Files that no key and no index of this store explains."""


def open_store(folder: Path, settings: ClipSettings, disk: Disk) -> Opened:
    """Open the store of a folder, or make it; finish what a power cut interrupted; make a damaged index again.

    Raises
    ------
    StorageError
        The folder or the disk refuses.
    SettingsError
        The key is not the one of the clips, is missing, or is named for clips that are not encrypted.
    """
    _own(folder)
    disk.folder(folder)
    with lock(folder):
        index = _whole_index(folder / INDEX, settings.patience, disk)
        try:
            if (folder / WIPING).exists():
                wipe(index, folder, settings.key_file, disk)
            shelf = Shelf(folder / FILES, disk, choose_seal(folder, settings, index, disk))
            return Opened(index, shelf, try_to_tidy(index, shelf))
        except BaseException:
            index.close()
            raise


def wipe_store(folder: Path, settings: ClipSettings, disk: Disk) -> Wiped:
    """Destroy all clips of a folder, whether or not they can be read: the key may be lost and the index damaged."""
    _own(folder)
    disk.folder(folder)
    with lock(folder):
        index = _whole_index(folder / INDEX, settings.patience, disk)
        try:
            return wipe(index, folder, settings.key_file, disk)[0]
        finally:
            index.close()


def _own(folder: Path) -> None:
    """Refuse the folder of another user: what root leaves in it, the service could not open."""
    try:
        owner = folder.stat().st_uid
    except OSError:
        return
    if owner != os.geteuid():
        raise SettingsError(f"{folder} belongs to another user: sudo -u '#{owner}' auricle edge clips ...")


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Nobody else opens or mends the store meanwhile."""
    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(describe(error, path)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _whole_index(path: Path, patience: float, disk: Disk) -> Index:
    try:
        index = Index(path, patience, disk)
        try:
            index.check()
        except BaseException:
            index.close()
            raise
    except DamagedIndexError as error:
        _log.warning("%s It is made again from the clips' files.", error)
        destroy_index(path, disk)
        index = Index(path, patience, disk)
    if index.value("generation") is None:
        index.set_value("generation", int(time.time()))
    return index


def choose_seal(folder: Path, settings: ClipSettings, index: Index, disk: Disk) -> Seal | Plain:
    """The key of the settings, checked against what the index says that the clips were sealed with."""
    mark = index.value("key")
    if settings.key_file is None:
        if mark or (mark is None and _holds_sealed(folder)):
            raise SettingsError(f"The clips in {folder} are encrypted: name their key in key_file, or wipe them.")
        seal: Seal | Plain = Plain()
    else:
        path = Path(settings.key_file)
        found = read_key(path)
        if found is None and (mark or _holds_sealed(folder)):
            raise SettingsError(f"The key {path} of the clips in {folder} is missing: put it back, or wipe the clips.")
        if mark == "" and index.rows():
            raise SettingsError(
                f"The clips in {folder} were kept without encryption: export what you need and wipe them first."
            )
        seal = found or draw_key(path, disk)
        if mark and mark != seal.mark:
            raise SettingsError(f"{path} is not the key of the clips in {folder}: put theirs back, or wipe them.")
    if mark != seal.mark:
        index.set_value("key", seal.mark)
    return seal


def _holds_sealed(folder: Path) -> bool:
    return any((folder / FILES).glob(f"*{SEALED}"))
