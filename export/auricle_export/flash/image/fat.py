"""Reading a FAT16 or FAT32 file system inside an image, at its offset.

Source: Microsoft, "FAT: General Overview of On-Disk Format" 1.03 (6 December 2000).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auricle_export.flash.image import fat_names
from auricle_export.flash.image.partitions import ImageError, Partition

ENTRY = struct.Struct("<11sBBBHHHHHHHI")
"""A file or folder: name, attributes, and from there on times, cluster and size."""
FOLDER, LABEL = 0x10, 0x08
GONE, END = 0xE5, 0x00
LARGEST_TABLE = 64 << 20
"""Bytes: no file allocation table of a boot partition is longer."""
LARGEST_FOLDER = 65_536 * 32
DEEPEST = 16

Clusters = NDArray[np.int64]


class Entry(NamedTuple):
    """A file or folder of a folder."""

    name: str
    raw: bytes
    """Its short name, eleven bytes."""
    attributes: int
    cluster: int
    """The first one; 0: nothing is in it."""
    size: int
    at: int
    """Where its short entry stands in the folder, in bytes."""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return bool(self.attributes & FOLDER)


class Fat:
    """A FAT file system, as it was when this was made.

    Parameters
    ----------
    file
        The image.
    partition
        Where in it the file system lies.
    name
        What a message calls the image.

    Raises
    ------
    ImageError
        It is not a FAT file system, or it is damaged.
    """

    sector: int
    """Bytes."""
    clusters: int
    """How many there are."""
    cluster_bytes: int
    bits: int
    """16 or 32."""

    def __init__(self, file: BinaryIO, partition: Partition, name: str) -> None:
        self._file, self._partition, self.name = file, partition, name
        boot = self._bytes(0, 512)
        self.sector, self._per_cluster, reserved, self._copies, self._root_entries, sectors16, _, fat16 = (
            struct.unpack_from("<HBHBHHBH", boot, 11)
        )
        sectors32, fat32, flags, _, self._root_cluster, info = struct.unpack_from("<I IHHIH", boot, 32)
        fat_sectors, sectors = fat16 or fat32, sectors16 or sectors32
        powers = all(part and part & (part - 1) == 0 for part in (self.sector, self._per_cluster))
        if boot[510:] != b"\x55\xaa" or not powers or self.sector not in (512, 1024, 2048, 4096) or not self._copies:
            raise ImageError(f"The boot partition of {name} holds no FAT file system.")
        root_sectors = -(-self._root_entries * 32 // self.sector)
        self._data_sector: int = reserved + self._copies * fat_sectors + root_sectors
        self.clusters = (sectors - self._data_sector) // self._per_cluster
        if self.clusters < 4085:
            raise ImageError(f"The boot partition of {name} is a FAT12, which no Raspberry Pi OS has.")
        self.bits = 16 if self.clusters < 65_525 else 32
        width = self.bits // 8
        table_bytes = fat_sectors * self.sector
        fits = sectors * self.sector <= partition.size and table_bytes // width >= self.clusters + 2
        if not fits or table_bytes > LARGEST_TABLE or (self.bits == 32) != (fat16 == 0):
            raise ImageError(f"The boot partition of {name} is damaged: fetch the image again.")
        self.cluster_bytes = self._per_cluster * self.sector
        self._table_bytes, self._table_at = table_bytes, reserved * self.sector
        self._root_at: int = self._table_at + self._copies * table_bytes
        self._root_bytes: int = self._root_entries * 32
        self._info_at = info * self.sector if self.bits == 32 and 0 < info < reserved else None
        mirrored, active = self.bits == 16 or not flags & 0x80, min(flags & 0x0F, self._copies - 1)
        self._kept = range(self._copies) if mirrored else range(active, active + 1)
        """Which copies of the table are kept up to date."""
        self._mask = 0xFFFF if self.bits == 16 else 0x0FFFFFFF
        self._table = self._read_table(self._kept[0])

    @property
    def free(self) -> int:
        """Bytes that are free, in whole clusters."""
        return int(self._free().size) * self.cluster_bytes

    def find(self, path: str) -> Entry | None:
        """The entry of a path such as `auricle/first-boot.sh`; None without one. Case does not count."""
        found: Entry | None = None
        for part in path.split("/"):
            if found is not None and not found.folder:
                return None
            content = self._folder(None if found is None else found.cluster)
            found = next((entry for entry in entries(content) if _same(entry, part)), None)
            if found is None:
                return None
        return found

    def names(self, path: str | None = None) -> list[str]:
        """The names in a folder, None: the root, in the order in which they stand there."""
        entry = None if path is None else self.find(path)
        if path is not None and (entry is None or not entry.folder):
            return []
        return [entry.name for entry in entries(self._folder(None if entry is None else entry.cluster))]

    def read(self, path: str) -> bytes | None:
        """What a file holds; None: there is no such file."""
        entry = self.find(path)
        if entry is None or entry.folder:
            return None
        return b"".join(self.pieces(entry))

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        """What a file holds, piece by piece. ImageError: its clusters do not reach its end."""
        chain, left = self._chain(entry.cluster), entry.size
        if len(chain) * self.cluster_bytes < left:
            raise ImageError(f"{entry.name} on the boot partition of {self.name} is damaged: fetch the image again.")
        for first, count in runs(chain):
            while count and left:
                take = min(count, max(1, (1 << 20) // self.cluster_bytes))
                piece = self._bytes(self._cluster_at(first), take * self.cluster_bytes)[:left]
                yield piece
                first, count, left = first + take, count - take, left - len(piece)

    def check(self) -> None:
        """Look whether everything fits together.

        Raises
        ------
        ImageError
            The copies of the table differ, two files share a cluster, a file has too few clusters, or the
            count of free clusters is wrong.
        """
        for copy in self._kept:
            if not np.array_equal(self._read_table(copy), self._table):
                raise ImageError(f"The copies of the allocation table of {self.name} differ.")
        owned = np.zeros(self.clusters + 2, dtype=bool)
        if self.bits == 32:
            self._own(owned, self._root_cluster, "the root folder")
        self._check_folder(owned, None, 0)
        if self._info_at is not None:
            lead, middle, free = struct.unpack_from("<I480xII", self._bytes(self._info_at, 512))
            if (lead, middle) == (0x41615252, 0x61417272) and free not in (0xFFFFFFFF, len(self._free())):
                raise ImageError(f"The boot partition of {self.name} counts its free clusters wrong.")

    def _check_folder(self, owned: NDArray[np.bool_], cluster: int | None, depth: int) -> None:
        if depth > DEEPEST:
            raise ImageError(f"The folders on the boot partition of {self.name} are nested too deeply.")
        for entry in entries(self._folder(cluster)):
            if entry.raw in (b".          ", b"..         "):
                continue
            if entry.cluster:
                count = self._own(owned, entry.cluster, entry.name)
                if not entry.folder and count < -(-entry.size // self.cluster_bytes):
                    raise ImageError(f"{entry.name} of {self.name} has fewer clusters than its size says.")
            elif entry.size or entry.folder:
                raise ImageError(f"{entry.name} of {self.name} has no clusters.")
            if entry.folder:
                self._check_folder(owned, entry.cluster, depth + 1)

    def _own(self, owned: NDArray[np.bool_], cluster: int, name: str) -> int:
        chain = self._chain(cluster)
        if owned[chain].any():
            raise ImageError(f"{name} of {self.name} shares clusters with another file.")
        owned[chain] = True
        return len(chain)

    def _free(self) -> Clusters:
        """The clusters that are free, in rising order."""
        return np.flatnonzero(self._table[2 : self.clusters + 2] & self._mask == 0) + 2

    def _chain(self, cluster: int) -> list[int]:
        """The clusters of a file or folder, in order."""
        chain: list[int] = []
        while cluster and cluster < self._mask - 7:
            if not 2 <= cluster < self.clusters + 2 or len(chain) > self.clusters:
                raise ImageError(f"The boot partition of {self.name} is damaged: fetch the image again.")
            chain.append(cluster)
            cluster = int(self._table[cluster]) & self._mask
            if cluster == 0:
                raise ImageError(f"The boot partition of {self.name} is damaged: fetch the image again.")
        return chain

    def _folder(self, cluster: int | None) -> bytearray:
        """The entries of a folder, None: of the root; behind its end are zeros."""
        if cluster is None and self.bits == 16:
            content = bytearray(self._bytes(self._root_at, self._root_bytes))
        else:
            chain = self._chain(self._root_cluster if cluster is None else cluster)
            if len(chain) * self.cluster_bytes > LARGEST_FOLDER + self.cluster_bytes:
                raise ImageError(f"A folder on the boot partition of {self.name} is longer than one can be.")
            content = bytearray(b"".join(self._bytes(self._cluster_at(each), self.cluster_bytes) for each in chain))
        end = next((at for at in range(0, len(content), 32) if content[at] == END), len(content))
        content[end:] = bytes(len(content) - end)
        return content

    def _cluster_at(self, cluster: int) -> int:
        return self._data_sector * self.sector + (cluster - 2) * self.cluster_bytes

    def _read_table(self, copy: int) -> NDArray[np.uint32]:
        raw = self._bytes(self._table_at + copy * self._table_bytes, self._table_bytes)
        return np.frombuffer(raw, dtype="<u2" if self.bits == 16 else "<u4").astype(np.uint32)

    def _bytes(self, at: int, count: int) -> bytes:
        self._file.seek(self._partition.start + at)
        read = self._file.read(count)
        if len(read) < count or at + count > self._partition.size:
            raise ImageError(f"The boot partition of {self.name} is damaged: fetch the image again.")
        return read


def entries(content: bytearray) -> Iterator[Entry]:
    """The files and folders of a folder, with their long names."""
    parts: list[bytes] = []
    check = -1
    for at in range(0, len(content), 32):
        raw = bytes(content[at : at + 32])
        if raw[0] == END:
            return
        if raw[0] == GONE:
            parts = []
        elif raw[11] & 0x3F == fat_names.LONG:
            order, check, part = fat_names.part_of_long(raw)
            parts = [part] if order & fat_names.LAST else [part, *parts]
        else:
            short, attributes, case, *_, high, _, _, low, size = ENTRY.unpack(raw)
            if not attributes & LABEL:
                fits = parts and check == fat_names.checksum(short)
                name = fat_names.join(parts) if fits else fat_names.readable(short, case)
                yield Entry(name, short, attributes, high << 16 | low, size, at)
            parts = []


def _same(entry: Entry, name: str) -> bool:
    return name.upper() in (entry.name.upper(), fat_names.readable(entry.raw).upper())


def runs(chain: list[int]) -> Iterator[tuple[int, int]]:
    """First cluster and number of each run of clusters that lie side by side."""
    begun = 0
    for index in range(1, len(chain) + 1):
        if index == len(chain) or chain[index] != chain[index - 1] + 1:
            yield chain[begun], index - begun
            begun = index
