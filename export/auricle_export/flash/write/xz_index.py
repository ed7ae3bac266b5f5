"""How many bytes an .xz file unpacks to, from the indexes at the ends of its streams.

The .xz file format, version 1.2.1, sections 2 and 4: https://tukaani.org/xz/xz-file-format.txt
"""

from __future__ import annotations

import lzma
import os
import zlib
from typing import BinaryIO

MAGIC = b"\xfd7zXZ\x00"
FOOTER_MAGIC = b"YZ"
ENDS = 12
"""Bytes of a stream's header, and of its footer."""
LARGEST_INDEX = 1 << 26


def unpacked_size(file: BinaryIO) -> int:
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
        end -= 2 * ENDS + index + sum((packed + 3) & ~3 for packed, _ in blocks)
        if _read(file, end, len(MAGIC)) != MAGIC:
            raise lzma.LZMAError("it is cut off or damaged")
    return total


def _stream(file: BinaryIO, end: int) -> tuple[list[tuple[int, int]], int]:
    """Packed and unpacked sizes of the blocks of the stream that ends here, and the bytes of its index."""
    footer = _read(file, end - ENDS, ENDS)
    if footer[10:] != FOOTER_MAGIC or zlib.crc32(footer[4:10]) != int.from_bytes(footer[:4], "little"):
        raise lzma.LZMAError("it is cut off")
    size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if size > LARGEST_INDEX:
        raise lzma.LZMAError("its index is too large")
    index = _read(file, end - ENDS - size, size)
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
