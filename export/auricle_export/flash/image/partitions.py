"""Where the partitions of an image lie: master boot record and GPT."""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO, NamedTuple

from auricle.errors import DataError

SECTOR_BYTES = 512
FAT_TYPES = (0x04, 0x06, 0x0B, 0x0C, 0x0E, 0xEF)
"""Types of a master boot record that hold a FAT file system."""
PROTECTIVE = 0xEE
EFI_SYSTEM = bytes.fromhex("28732ac11ff8d211ba4b00a0c93ec93b")
BASIC_DATA = bytes.fromhex("a2a0d0ebe5b9334487c068b6b72699c7")
"""Kinds of GPT partitions that hold a FAT file system, as they stand on the disk."""
GPT_HEADER = struct.Struct("<8s4sIIIQQQQ16sQIII")
LARGEST_GPT = 1 << 20
"""Bytes: no list of GPT partitions is longer."""


class ImageError(DataError):
    """An image, or what should go onto it, that cannot be used."""


class Partition(NamedTuple):
    """A partition of an image, in bytes from its beginning."""

    number: int
    """From 1."""
    start: int
    size: int
    fat: bool
    """Whether its type is that of a FAT file system."""


def partitions(file: BinaryIO, name: str) -> list[Partition]:
    """Read the partition table of an image.

    Parameters
    ----------
    file
        The image.
    name
        What a message calls it.

    Returns
    -------
    list
        The primary partitions of a master boot record, or all of a GPT, in the order of their numbers.

    Raises
    ------
    ImageError
        There is no table, or it does not fit the image.

    Sources
    -------
    UEFI specification 2.10, chapter 5: master boot record and GPT.
    """
    total = file.seek(0, 2)
    file.seek(0)
    record = file.read(SECTOR_BYTES)
    if len(record) < SECTOR_BYTES or record[510:] != b"\x55\xaa":
        raise ImageError(f"{name} has no partition table: give the image of a whole card, not of one partition.")
    entries = [struct.unpack_from("<B3xB3xII", record, 446 + 16 * index) for index in range(4)]
    if any(kind == PROTECTIVE for _, kind, _, _ in entries):
        found = _gpt(file, name)
    else:
        found = [
            Partition(number, start * SECTOR_BYTES, sectors * SECTOR_BYTES, kind in FAT_TYPES)
            for number, (_, kind, start, sectors) in enumerate(entries, 1)
            if kind and sectors
        ]
    for partition in found:
        if partition.start < SECTOR_BYTES or partition.start + partition.size > total:
            raise ImageError(
                f"Partition {partition.number} of {name} reaches beyond its end: it is not whole, fetch it again."
            )
    return found


def boot_partition(file: BinaryIO, name: str) -> Partition:
    """The first partition that holds a FAT file system. ImageError: there is none."""
    found = next((partition for partition in partitions(file, name) if partition.fat), None)
    if found is None:
        raise ImageError(f"{name} has no FAT boot partition: take the image of a Raspberry Pi OS.")
    return found


def root_partition(file: BinaryIO, name: str) -> Partition:
    """The first partition after the boot partition. ImageError: there is none."""
    boot = boot_partition(file, name)
    found = next((partition for partition in partitions(file, name) if partition.number > boot.number), None)
    if found is None:
        raise ImageError(f"{name} has no partition after its boot partition: there is no root to put anything on.")
    return found


def _gpt(file: BinaryIO, name: str) -> list[Partition]:
    file.seek(SECTOR_BYTES)
    header = file.read(SECTOR_BYTES)
    broken = ImageError(f"The GPT of {name} is damaged: fetch the image again.")
    if len(header) < SECTOR_BYTES:
        raise broken
    signature, _, size, check, _, _, _, _, _, _, where, count, length, entries_check = GPT_HEADER.unpack_from(header)
    if signature != b"EFI PART" or not GPT_HEADER.size <= size <= SECTOR_BYTES or length < 128 or length % 8:
        raise broken
    if zlib.crc32(header[:16] + bytes(4) + header[20:size]) != check or count * length > LARGEST_GPT:
        raise broken
    if where * SECTOR_BYTES >= file.seek(0, 2):
        raise broken
    file.seek(where * SECTOR_BYTES)
    entries = file.read(count * length)
    if len(entries) < count * length or zlib.crc32(entries) != entries_check:
        raise broken
    found = []
    for index in range(count):
        kind, _, first, last = struct.unpack_from("<16s16sQQ", entries, index * length)
        if any(kind):
            if last < first:
                raise broken
            fat = kind in (EFI_SYSTEM, BASIC_DATA)
            found.append(Partition(index + 1, first * SECTOR_BYTES, (last - first + 1) * SECTOR_BYTES, fat))
    return found
