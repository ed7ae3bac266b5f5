"""A system's image as the tests make it: partition table, FAT file system, and what a Raspberry Pi boots by."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from auricle_export.flash.image.fat_writer import FatWriter
from auricle_export.flash.image.partitions import EFI_SYSTEM, SECTOR_BYTES, Partition, boot_partition

START = 64
"""Sector of the boot partition."""
CMDLINE = "console=tty1 root=PARTUUID=9730496b-02 rootfstype=ext4 rootwait quiet\n"
CONFIG = "# settings\ndtparam=audio=on\n\n[cm4]\notg_mode=1\n"
ROOT = b"not touched " * 2000


def formatted(bits: int, clusters: int, *, per_cluster: int = 1) -> bytes:
    """A FAT16 or FAT32 file system with nothing in it."""
    reserved, root = (1, 512) if bits == 16 else (32, 0)
    table = -(-(clusters + 2) * bits // 8 // SECTOR_BYTES)
    data = reserved + 2 * table + root * 32 // SECTOR_BYTES
    sectors = data + clusters * per_cluster
    boot = bytearray(data * SECTOR_BYTES)
    boot[:11] = b"\xeb\x3c\x90mkdosfs\0"
    counts = (SECTOR_BYTES, per_cluster, reserved, 2, root, 0, 0xF8, table if bits == 16 else 0)
    struct.pack_into("<HBHBHHBH", boot, 11, *counts)
    struct.pack_into("<HHIII", boot, 24, 32, 8, 0, sectors, table if bits == 32 else 0)
    if bits == 32:
        struct.pack_into("<HHIHH", boot, 40, 0, 0, 2, 1, 6)
        struct.pack_into("<BBBI11s8s", boot, 64, 0x80, 0, 0x29, 0x1234ABCD, b"BOOTFS     ", b"FAT32   ")
        struct.pack_into("<I480xIII12xI", boot, SECTOR_BYTES, 0x41615252, 0x61417272, clusters - 1, 3, 0xAA550000)
    else:
        struct.pack_into("<BBBI11s8s", boot, 36, 0x80, 0, 0x29, 0x1234ABCD, b"BOOTFS     ", b"FAT16   ")
    boot[510:512] = b"\x55\xaa"
    if bits == 32:
        boot[6 * SECTOR_BYTES : 8 * SECTOR_BYTES] = boot[: 2 * SECTOR_BYTES]
    first = struct.pack("<HH", 0xFFF8, 0xFFFF) if bits == 16 else struct.pack("<III", 0x0FFFFFF8, *[0x0FFFFFFF] * 2)
    for copy in range(2):
        at = (reserved + copy * table) * SECTOR_BYTES
        boot[at : at + len(first)] = first
    return bytes(boot) + bytes(clusters * per_cluster * SECTOR_BYTES)


def base_image(
    path: Path, *, bits: int = 16, clusters: int = 4200, cmdline: str = CMDLINE, config: str = CONFIG, gpt: bool = False
) -> Path:
    """An image with a boot partition and, behind it, one that is nobody's business."""
    fat = formatted(bits, clusters)
    after = START + len(fat) // SECTOR_BYTES
    table = _gpt(after) if gpt else _mbr(after)
    path.write_bytes(table.ljust(START * SECTOR_BYTES, b"\0") + fat + ROOT.ljust(64 * SECTOR_BYTES, b"\0"))
    with path.open("r+b") as file:
        writer = FatWriter(file, boot_partition(file, path.name), path.name)
        writer.write("cmdline.txt", cmdline.encode())
        writer.write("config.txt", config.encode())
        writer.write("overlays/README", b"overlays\n" * 200)
        writer.finish()
    return path


def whole(path: Path) -> Partition:
    return Partition(1, 0, path.stat().st_size, True)


def _mbr(after: int) -> bytes:
    boot = struct.pack("<B3xB3xII", 0x80, 0x0C, START, after - START)
    root = struct.pack("<B3xB3xII", 0, 0x83, after, 64)
    return bytes(446) + boot + root + bytes(32) + b"\x55\xaa"


def _gpt(after: int) -> bytes:
    kinds = ((EFI_SYSTEM, START, after - 1), (b"\xaf" * 16, after, after + 63))
    entries = b"".join(
        struct.pack("<16s16sQQQ72s", kind, bytes(15) + bytes([number]), first, last, 0, b"")
        for number, (kind, first, last) in enumerate(kinds)
    ).ljust(16 * 128, b"\0")
    numbers = (92, 0, 0, 1, 0, 34, after + 63, bytes(16), 2, 16, 128, zlib.crc32(entries))
    header = struct.pack("<8s4sIIIQQQQ16sQIII", b"EFI PART", b"\0\0\1\0", *numbers)
    header = header[:16] + struct.pack("<I", zlib.crc32(header)) + header[20:]
    protective = bytes(446) + struct.pack("<B3xB3xII", 0, 0xEE, 1, after + 63) + bytes(48) + b"\x55\xaa"
    return protective + header.ljust(SECTOR_BYTES, b"\0") + entries
