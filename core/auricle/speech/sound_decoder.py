"""libsndfile, as files are read with it: what it decodes, from begin to end only, and of a file given in parts."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING

from auricle.errors import DataError, extra_command

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from soundfile import SoundFile

Piece = bytes | tuple[int, int]
"""Bytes themselves, or from where to where in a file."""


def sound_library() -> ModuleType:
    """soundfile; a part that reads no audio does without it.

    Raises
    ------
    DataError
        It is not installed.
    """
    try:
        import soundfile
    except ModuleNotFoundError as error:
        raise DataError(f"Reading audio needs soundfile: {extra_command('edge')}.") from error
    return soundfile  # type: ignore[no-any-return]


def decodes(library: ModuleType, name: str, codec: str) -> bool:
    """Whether the library has a format of this name with this codec."""
    return name in library.available_formats() and codec in library.available_subtypes(name)


@cache
def forward_class(library: ModuleType) -> Callable[..., SoundFile]:
    """soundfile's class of an open file, read from begin to end only.

    It seeks after each read where it can, and some codecs announce that they can and then refuse: GSM 6.10.
    """

    class Forward(library.SoundFile):  # type: ignore[misc, name-defined]
        def seekable(self) -> bool:
            return False

    return Forward


class Pieces(io.RawIOBase):
    """A file of which a decoder sees some parts, and some bytes that are not on the disk."""

    def __init__(self, descriptor: int, pieces: Sequence[Piece]) -> None:
        super().__init__()
        self._descriptor, self._pieces = descriptor, pieces
        lengths = [len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces]
        self._ends = list(accumulate(lengths))
        self._end = self._ends[-1]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view, done = memoryview(buffer), 0
        while done < len(view) and (data := self._some(len(view) - done)):
            view[done : done + len(data)] = data
            done += len(data)
        return done

    def _some(self, most: int) -> bytes:
        """What comes next of one piece, at most so many bytes."""
        number = bisect_right(self._ends, self._at)
        if number == len(self._pieces):
            return b""
        piece, left = self._pieces[number], min(self._ends[number] - self._at, most)
        inside = self._at - (self._ends[number - 1] if number else 0)
        if isinstance(piece, bytes):
            data = piece[inside : inside + left]
        else:
            data = os.pread(self._descriptor, left, piece[0] + inside)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at
