"""What a pack's frozen network made of the clips, in files beside theirs, so that no clip costs the network twice.

A file's name says whose vectors it holds and whose sound was mixed into them: it goes when any of these clips goes. A
file that is missing, damaged or of another network is no loss, for its vectors are made again.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Container, Mapping
from typing import Annotated, Literal

import msgspec
import numpy as np

from auricle.errors import AuricleError, DataError
from auricle.files import open_kept
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.clips.shelf import SEALED, Shelf
from auricle_learning.training.vector_shelf import NAME_BYTES, Halves, Variant

_log = logging.getLogger(__name__)
_NAME = re.compile(rf"([0-9a-f]{{12}})-((?:[0-9a-f]{{12}}\.)*)vectors(?:{re.escape(SEALED)})?")
LARGEST_BYTES = 1 << 20
"""No file is larger; one that is, is damaged."""
TOGETHER_FILES = 32
"""Files that are written while others wait."""
Digest = Annotated[bytes, msgspec.Meta(min_length=NAME_BYTES, max_length=NAME_BYTES)]


class _Made(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One variant; `numbers` are float16, little-endian."""

    kind: Annotated[str, msgspec.Meta(max_length=20)]
    place: Annotated[int, msgspec.Meta(ge=0, le=1000)]
    noise: Annotated[bytes, msgspec.Meta(max_length=NAME_BYTES)]
    numbers: bytes


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file holds, after a digest of it."""

    version: Literal[1]
    maker: Digest
    clip: Digest
    made: Annotated[list[_Made], msgspec.Meta(max_length=64)]


def encode(clip: bytes, maker: bytes, made: Mapping[Variant, Halves]) -> bytes:
    """A file of the vectors that a maker made of a clip, both by their names."""
    rows = [_Made(kind, place, noise, x.astype("<f2").tobytes()) for (kind, place, noise), x in made.items()]
    data = msgspec.msgpack.encode(_File(version=1, maker=maker, clip=clip, made=rows))
    return checksum(data) + data


def decode(data: bytes, clip: bytes, maker: bytes, shape: tuple[int, ...]) -> dict[Variant, Halves]:
    """Read it again; DataError, a reason without a full stop, where it is not whole, or of another clip or maker."""
    if checksum(data[NAME_BYTES:]) != data[:NAME_BYTES]:
        raise DataError("it is not whole")
    try:
        file = msgspec.msgpack.decode(data[NAME_BYTES:], type=_File)
    except UNDECODABLE as error:
        raise DataError("it does not hold vectors") from error
    if (file.clip, file.maker) != (clip, maker):
        raise DataError("it holds vectors of another clip, or by another network")
    found = {}
    for each in file.made:
        if len(each.numbers) != 2 * int(np.prod(shape)):
            raise DataError("its vectors have another size")
        vectors = np.frombuffer(each.numbers, "<f2").astype(np.float16).reshape(shape)
        if not np.isfinite(vectors).all():
            raise DataError("it holds no finite numbers")
        found[Variant(each.kind, each.place, each.noise)] = vectors
    return found


def checksum(data: bytes) -> bytes:
    """What a file begins with, of all that follows."""
    return hashlib.blake2b(data, digest_size=NAME_BYTES).digest()


def clips_in(file: str) -> tuple[str, ...]:
    """The ids of the clips whose sound is in a file of vectors, its own first; none for another file."""
    found = _NAME.fullmatch(file)
    return (found[1], *found[2].split(".")[:-1]) if found else ()


def vector_files(shelf: Shelf) -> dict[str, tuple[str, ...]]:
    """The files of vectors by their names, and whose sound is in each."""
    return {file: ids for file in shelf.names() if (ids := clips_in(file))}


def bury_vectors(shelf: Shelf, gone: Container[str]) -> None:
    """Destroy all files with the sound of clips of these ids."""
    for file, ids in vector_files(shelf).items():
        if any(each in gone for each in ids):
            shelf.disk.destroy(shelf.folder / file)


def make_room(shelf: Shelf, needed: int) -> None:
    """Destroy files of vectors until so many bytes are free, or none is left."""
    for file in vector_files(shelf):
        if needed <= 0:
            return
        needed -= shelf.size(file)
        shelf.disk.destroy(shelf.folder / file)


def put_vectors(shelf: Shelf, boxes: Mapping[str, bytes], there: Container[str], room: int) -> None:
    """Write files by their names, those whose clips are all there, as long as so many bytes suffice."""
    for file, box in boxes.items():
        if len(box) <= room and all(each in there for each in clips_in(file)):
            shelf.disk.write(shelf.folder / file, box, lasting=False)
            room -= len(box)


class ClipVectors:
    """The vectors of a store's clips, a `VectorShelf`.

    Parameters
    ----------
    shelf
        Where the files lie, with today's key.
    put
        `put_vectors` while nobody else writes.
    ids
        Of the clips, by the names of their energies.
    shape
        (T', size) of a clip's vectors.
    """

    def __init__(
        self,
        shelf: Callable[[], Shelf],
        put: Callable[[Mapping[str, bytes]], None],
        ids: Mapping[bytes, str],
        shape: tuple[int, ...],
    ) -> None:
        self._shelf, self._put, self._ids, self._shape = shelf, put, ids, shape
        self._files: dict[str, str] | None = None

    def read(self, clip: bytes, maker: bytes) -> Mapping[Variant, Halves]:
        """What this maker made of a clip; nothing where no whole file says so."""
        try:
            if self._files is None:
                self._files = {ids[0]: file for file, ids in vector_files(self._shelf()).items()}
            file = self._files.get(self._ids.get(clip, ""))
            return {} if file is None else self._open(file, clip, maker)
        except (AuricleError, OSError) as error:
            _log.debug("What the network made of a clip is made again: %s", error)
            return {}

    def _open(self, file: str, clip: bytes, maker: bytes) -> dict[Variant, Halves]:
        shelf = self._shelf()
        with open_kept(shelf.folder / file) as opened:
            box = opened.read(LARGEST_BYTES + 1)
        if len(box) > LARGEST_BYTES or file.endswith(SEALED) != bool(shelf.seal.mark):
            raise DataError("it is not whole")
        return decode(shelf.seal.open(box, f"vectors {file}"), clip, maker, self._shape)

    def write(self, maker: bytes, made: Mapping[bytes, Mapping[Variant, Halves]]) -> None:
        """Keep what it made of clips that are still there, as long as there is room."""
        mine = {self._ids[clip]: (clip, variants) for clip, variants in made.items() if clip in self._ids}
        try:
            shelf = self._shelf()
            for file, ids in vector_files(shelf).items():
                if ids[0] in mine:
                    shelf.disk.destroy(shelf.folder / file)
            boxes = (self._seal(shelf, clip, name, maker, variants) for clip, (name, variants) in mine.items())
            while some := dict(itertools.islice(boxes, TOGETHER_FILES)):
                self._put(some)
        except AuricleError as error:
            _log.warning("What the network made of the clips is not kept: %s", error)

    def _seal(
        self, shelf: Shelf, clip: str, name: bytes, maker: bytes, made: Mapping[Variant, Halves]
    ) -> tuple[str, bytes]:
        kept = {v: x for v, x in made.items() if (not v.noise or v.noise in self._ids) and np.isfinite(x).all()}
        mixed = sorted({self._ids[variant.noise] for variant in kept if variant.noise})
        file = f"{clip}-{''.join(f'{each}.' for each in mixed)}vectors{SEALED if shelf.seal.mark else ''}"
        return file, shelf.seal.close(encode(name, maker, kept), f"vectors {file}")
