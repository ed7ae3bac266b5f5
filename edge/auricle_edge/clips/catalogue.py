"""The clips of an open store: a row of the index and a file of the shelf for each, and the two agree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from auricle.errors import DataError
from auricle_edge.clips.choice import ClipSettings, Clock
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.opening import choose_seal, open_store
from auricle_edge.clips.record import Clip
from auricle_edge.clips.shelf import Shelf
from auricle_edge.clips.vector_files import bury_vectors, make_room, put_vectors, vector_files
from auricle_edge.clips.wipe import Wiped, wipe


class Catalogue:
    """Index and files of one folder; parameters and errors as of `ClipStore`.

    Raises
    ------
    DamagedIndexError
        The index cannot be read; of every method.
    """

    def __init__(self, folder: Path, settings: ClipSettings, disk: Disk) -> None:
        self._folder, self._settings, self._disk = folder, settings, disk
        opened = open_store(folder, settings, disk)
        self._index, self._shelf, self.unreadable = opened.index, opened.shelf, opened.unreadable

    def close(self) -> None:
        """Close it."""
        self._index.close()

    @property
    def generation(self) -> int:
        """Another number after every change."""
        return int(self._index.value("generation") or 0)

    @property
    def shelf(self) -> Shelf:
        """The files with today's key: another process may have wiped the store."""
        mark = self._index.value("key")
        if mark is not None and mark != self._shelf.seal.mark:
            seal = choose_seal(self._folder, self._settings, self._index, self._disk)
            self._shelf = Shelf(self._shelf.folder, self._disk, seal)
        return self._shelf

    def transaction(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile; what fails in it is undone."""
        return self._index.transaction()

    def clips(self) -> tuple[Clip, ...]:
        """All clips, the oldest first."""
        clips = self.shelf.clips(self._index.rows())
        return tuple(sorted(clips, key=lambda clip: (clip.record.created, clip.id)))

    def named(self, clip: str) -> Clip:
        """The clip of an id, or of a beginning of one that only it has; DataError: no clip or several have it."""
        found = [each for each in self.clips() if clip and each.id.startswith(clip)]
        if len(found) != 1:
            what = "no clip" if not found else f"{len(found)} clips whose id begins with"
            raise DataError(f'There is {what} "{clip}": auricle edge clips list shows their ids.')
        return found[0]

    def put(self, clip: Clip, box: bytes) -> None:
        """Write the file, then the row; the file does not stay where the row cannot be written."""
        self._shelf.write(clip, box)
        self._index.after_failure(lambda: self._shelf.bury(clip.file))
        self.put_row(clip)

    def put_row(self, clip: Clip) -> None:
        """Write the row of a clip whose file is there."""
        self._index.put(self._shelf.row(clip))

    def bury(self, clip: Clip) -> None:
        """Destroy the file of a clip that has another by now."""
        self._shelf.bury(clip.file)

    def remove(self, choose: Callable[[tuple[Clip, ...]], Sequence[Clip]]) -> int:
        """Destroy clips: marked, out of the index, overwritten; where the index refuses, the marks are taken off."""
        gone = choose(self.clips())
        if not gone:
            return 0
        with self.transaction():
            gone = choose(self.clips())
            for clip in gone:
                self._index.after_failure(functools.partial(self._shelf.revive, clip.file))
                self._shelf.doom(clip.file)
            self._index.remove(clip.id for clip in gone)
        bury_vectors(self._shelf, {clip.id for clip in gone})
        for clip in gone:
            self._shelf.bury(clip.file)
        return len(gone)

    def put_vectors(self, boxes: Mapping[str, bytes]) -> None:
        """Write files of vectors, as long as they and the clips are within the quota; see `put_vectors`."""
        with self.transaction():
            put_vectors(self.shelf, boxes, {row.id for row in self._index.rows()}, self._free())

    def fit_vectors(self) -> None:
        """Vectors give way to clips: destroy files of them until all is within the quota."""
        make_room(self._shelf, -self._free())

    def _free(self) -> int:
        taken = sum(row.size for row in self._index.rows()) + sum(map(self._shelf.size, vector_files(self._shelf)))
        return int(self._settings.megabytes * 1e6) - taken

    def mark_damaged(self, clip: Clip) -> None:
        """Mark a clip that is still in the index; another process may have deleted it."""
        with self.transaction():
            now = next((row for row in self._index.rows() if row.id == clip.id and row.file == clip.file), None)
            if now is not None and not now.damaged:
                self.put_row(msgspec.structs.replace(clip, damaged=True))

    def look_at_clock(self, now: float) -> Clock:
        """Look at the clock, and write down what was seen now and then."""
        seen = Clock(float(self._index.value("seen") or now), float(self._index.value("since") or now))
        clock = seen.looked(now)
        if clock.since != seen.since or now - seen.seen > 600 or self._index.value("seen") is None:
            self._index.set_value("seen", clock.seen)
            self._index.set_value("since", clock.since)
        return clock

    def wipe(self) -> Wiped:
        """Destroy all clips, and the key first; see `wipe`."""
        wiped, seal = wipe(self._index, self._folder, self._settings.key_file, self._disk)
        self._shelf = Shelf(self._shelf.folder, self._disk, seal)
        return wiped
