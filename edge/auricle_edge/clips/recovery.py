"""Putting the store in order when it is opened: after a power cut, with a damaged index, in the middle of a wipe."""

from __future__ import annotations

import contextlib
import logging
import re

from auricle.errors import DataError, StorageError
from auricle_edge.clips.index import Index
from auricle_edge.clips.shelf import GONE, Shelf

_log = logging.getLogger(__name__)
_TORN = re.compile(r"\..*\.tmp")
_DOOMED = re.compile(rf"\.(.*){re.escape(GONE)}")


def tidy(index: Index, shelf: Shelf) -> int:
    """Make files and index agree; returns how many files could not be read and were left where they are.

    A torn file is destroyed. A doomed one is destroyed and its row taken out: the deletion had begun. A file whose clip
    has a newer one is destroyed. A whole file that no row knows is taken into the index again: it was on its way in, or
    the index was lost. All of it happens while no other process writes.
    """
    if _agree(index, shelf):
        return 0
    with index.transaction():
        rows = {row.file: row.id for row in index.rows()}
        readable = {clip.id for clip in shelf.clips(index.rows())}
        index.remove(identity for identity in rows.values() if identity not in readable)
        known, lost, doomed = {i for i in rows.values() if i in readable}, 0, []
        for name in shelf.names():
            if name in rows and rows[name] in known:
                continue
            if (gone := _DOOMED.fullmatch(name)) and gone[1] in rows:
                index.remove([rows[gone[1]]])
            if gone or _TORN.fullmatch(name) or name.split("-")[0] in known:
                doomed.append(name)
                continue
            try:
                clip = shelf.adopted(name)
            except DataError as error:
                _log.warning("%s is no clip of this store (%s): it is left where it is.", shelf.folder / name, error)
                lost += 1
                continue
            index.put(shelf.row(clip))
            known.add(clip.id)
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
    names = set(shelf.names())
    return names <= {row.file for row in rows} and sum(1 for _ in shelf.clips(rows)) == len(rows)
