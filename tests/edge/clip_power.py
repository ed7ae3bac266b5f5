"""What a disk may hold after a power cut: images of a store taken at every step that changes it.

At each step the folder is copied as it stands, and again with everything undone that no fsync has made certain: a file
that was written is cut to any of several lengths, a rename or a removal has not happened. SQLite's commits are torn at
every frame of its write-ahead log: the old bytes of the log with the first k new ones, k at and between frames' ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from auricle_edge.clips.disk import Disk

FRAME = 4096 + 24
"""Bytes of a frame of the write-ahead log."""
Undo = Callable[[Path], None]


class Camera(Disk):
    """A disk that takes images of a folder.

    Parameters
    ----------
    folder
        What is photographed.
    look
        Called with each image, which is thrown away after it, and what it is of.
    """

    def __init__(self, folder: Path, look: Callable[[Path, str], None]) -> None:
        self._place, self._look, self.on = folder, look, False
        self.images = self.steps = 0
        self._unsynced: dict[Path, list[bytes]] = {}
        """By file: what it may hold."""
        self._undo: dict[Path, list[Undo]] = {}
        self._log = b""
        self._saved = folder.with_name("saved")
        self._doomed = b""

    def step(self, name: str, path: Path, old: Path | None = None) -> None:
        """Take the images of this step."""
        when, what = name.split(" ", 1)
        if not self.on:
            return
        self.steps += 1
        self._account(when, what, path, old)
        self._image(f"{name} {path.name}")
        for file, contents in self._unsynced.items():
            for number, content in enumerate(contents):
                self._image(f"{name} {path.name}, {file.name} torn {number}", _holding(self._inside(file), content))
        undone = [undo for undos in self._undo.values() for undo in undos]
        for count in range(1, len(undone) + 1):
            self._image(f"{name} {path.name}, the last {count} renames undone", *reversed(undone[-count:]))
        if what == "commit":
            self._tear(when, name)

    def _account(self, when: str, what: str, path: Path, old: Path | None) -> None:
        """Note what is not certain yet."""
        if when == "before":
            if what in ("unlink", "overwrite"):
                self._doomed = path.read_bytes()
            return
        if what == "write":
            new = path.read_bytes()
            self._unsynced[path] = [new[:length] for length in sorted({0, 1, len(new) // 2, len(new) - 1})]
        elif what == "overwrite":
            new, half = path.read_bytes(), len(self._doomed) // 2
            self._unsynced[path] = [self._doomed, new[:half] + self._doomed[half:], self._doomed[:half] + new[half:]]
        elif what == "fsync":
            self._unsynced.pop(path, None)
        elif what == "sync":
            self._undo.pop(path, None)
        elif what == "rename":
            assert old is not None
            self._undo.setdefault(path.parent, []).append(_renamed_back(self._inside(path), self._inside(old)))
        elif what == "unlink" and self._doomed:
            self._undo.setdefault(path.parent, []).append(_there_again(self._inside(path), self._doomed))

    def _inside(self, path: Path) -> Path:
        return path.relative_to(self._place)

    def _tear(self, when: str, name: str) -> None:
        """The log of a commit, written only in part; the rest of the folder as before the commit."""
        log = self._place / "index.sqlite-wal"
        if when == "before":
            shutil.rmtree(self._saved, ignore_errors=True)
            shutil.copytree(self._place, self._saved)
            return
        if not (self._saved / "index.sqlite").exists():
            return
        before = (self._saved / log.name).read_bytes() if (self._saved / log.name).exists() else b""
        after = log.read_bytes() if log.exists() else b""
        ends = range(32, len(after) + 1, FRAME)
        cuts = {cut for end in ends for cut in (end, end + 12, end + 24, end + 2000)} | {0, 16}
        for cut in sorted(cut for cut in cuts if cut < len(after)):
            torn = after[:cut] + before[cut:]
            if torn not in (before, after):
                self._image(f"{name}, torn at {cut}", _holding(Path(log.name), torn), base=self._saved)

    def _image(self, what: str, *undos: Undo, base: Path | None = None) -> None:
        image = self._place.with_name("image")
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(base or self._place, image)
        for undo in undos:
            undo(image)
        self.images += 1
        self._look(image, what)


def _renamed_back(new: Path, old: Path) -> Undo:
    def undo(image: Path) -> None:
        if (image / new).exists():
            (image / old).parent.mkdir(exist_ok=True)
            (image / new).replace(image / old)

    return undo


def _there_again(file: Path, content: bytes) -> Undo:
    return _holding(file, content)


def _holding(file: Path, content: bytes) -> Undo:
    def undo(image: Path) -> None:
        if (image / file).parent.exists():
            (image / file).write_bytes(content)

    return undo
