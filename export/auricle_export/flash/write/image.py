"""An image of a disk: a raw file, or one packed by xz and unpacked while it is read.

The .xz file format, version 1.2.1, sections 2 and 4: https://tukaani.org/xz/xz-file-format.txt
"""

from __future__ import annotations

import lzma
import os
import zlib
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

from auricle.errors import DataError

MAGIC = b"\xfd7zXZ\x00"
FOOTER_MAGIC = b"YZ"
ENDS_BYTES = 12
"""Bytes of a stream's header, and of its footer."""
LARGEST_INDEX = 1 << 26


def measure_unpacked(file: BinaryIO) -> int:
    """Bytes that all streams of an .xz file unpack to.

    Raises
    ------
    lzma.LZMAError
        The file is cut off or damaged at an end of a stream.
    """
    end = file.seek(0, os.SEEK_END)
    total = 0
    while end > 0:
        blocks, index = _stream(file, end)
        total += sum(unpacked for _, unpacked in blocks)
        end -= 2 * ENDS_BYTES + index + sum((packed + 3) & ~3 for packed, _ in blocks)
        if _read(file, end, len(MAGIC)) != MAGIC:
            raise lzma.LZMAError("it is cut off or damaged")
    return total


def _stream(file: BinaryIO, end: int) -> tuple[list[tuple[int, int]], int]:
    """Packed and unpacked sizes of the blocks of the stream that ends here, and the bytes of its index."""
    footer = _read(file, end - ENDS_BYTES, ENDS_BYTES)
    if footer[10:] != FOOTER_MAGIC or zlib.crc32(footer[4:10]) != int.from_bytes(footer[:4], "little"):
        raise lzma.LZMAError("it is cut off")
    size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if size > LARGEST_INDEX:
        raise lzma.LZMAError("its index is too large")
    index = _read(file, end - ENDS_BYTES - size, size)
    if index[0] or zlib.crc32(index[:-4]) != int.from_bytes(index[-4:], "little"):
        raise lzma.LZMAError("its index is damaged")
    count, place = _number(index, 1)
    numbers = []
    for _ in range(2 * count):
        number, place = _number(index, place)
        numbers.append(number)
    return list(zip(numbers[::2], numbers[1::2], strict=True)), size


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next one begins."""
    value = 0
    for shift in range(0, 63, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise lzma.LZMAError("its index is damaged")


def _read(file: BinaryIO, place: int, count: int) -> bytes:
    if place < 0:
        raise lzma.LZMAError("it is cut off")
    file.seek(place)
    data = file.read(count)
    if len(data) != count:
        raise lzma.LZMAError("it is cut off")
    return data


PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"(\xb5/\xfd": "zstd", b"BZh": "bzip2", b"7z": "7-zip"}
SIGNATURE = b"\x55\xaa"
"""Where a boot sector ends: every MBR, the protective one of a GPT, and a FAT without partitions have it."""


@dataclass(frozen=True)
class Image:
    """An image that can be written."""

    path: Path
    size: int
    """Bytes, unpacked."""
    packed: bool

    def open(self) -> BufferedIOBase:
        """Open it for reading, unpacked."""
        return lzma.open(self.path) if self.packed else self.path.open("rb")


def open_image(path: Path) -> Image:
    """Look at an image.

    Raises
    ------
    DataError
        It is not a regular file, empty, damaged, packed by something else, or no image of a disk.
    """
    if not path.exists():
        raise DataError(f"There is no image {path}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a device: the image comes first, then the disk"
        raise DataError(f"{path} is {what}.")
    try:
        image = _measure(path)
        with image.open() as stream:
            sector = stream.read(512)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be read ({error}): fetch it again.") from error
    kind = next((kind for magic, kind in PACKED.items() if sector.startswith(magic)), None)
    if kind is not None:
        raise DataError(f"{path} is packed by {kind}: unpack it first; only .xz is unpacked on the way.")
    if sector[510:] != SIGNATURE:
        raise DataError(f"{path} is not the image of a disk: its first sector is not a boot sector.")
    return image


def _measure(path: Path) -> Image:
    with path.open("rb") as file:
        packed = file.read(len(MAGIC)) == MAGIC
        return Image(path, measure_unpacked(file) if packed else path.stat().st_size, packed)
