"""Writing files into a FAT16 or FAT32 file system inside an image: no mount, no root, no loop device.

Why not a library: pyfatfs stands on PyFilesystem2, which has had no release since 2022 and no longer imports beside
today's setuptools, and stamps files with the clock; mtools is a program that root would have to install first. Both
check this code in the tests, and so does fsck.vfat.

Source: Microsoft, "FAT: General Overview of On-Disk Format" 1.03 (6 December 2000).
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

from auricle_export.flash.image import fat_names
from auricle_export.flash.image.fat import END, ENTRY, FOLDER, GONE, Entry, Fat, entries, runs
from auricle_export.flash.image.partitions import ImageError

DAY = 1 << 5 | 1
"""1 January 1980, on which all that is written here was written: the same image comes out on every day."""
ARCHIVE = 0x20


class FatWriter(Fat):
    """A FAT file system that files are written into; `finish` makes them count."""

    def room_for(self, sizes: list[int], folders: int = 0) -> bool:
        """Whether files of these sizes and some new folders fit, with a cluster to spare for each entry."""
        needed = sum(-(-size // self.cluster_bytes) for size in sizes) + len(sizes) + 2 * folders
        return needed <= len(self._free())

    def write(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file, in place of the one that has this name; folders on the way are made.

        Raises
        ------
        ImageError
            The name cannot be one, there is no room, or a folder has this name.
        """
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        size = stream.seek(0, 2)
        stream.seek(0)
        *folders, name = path.split("/")
        parent: Entry | None = None
        for depth, part in enumerate(folders, 1):
            parent = self.find("/".join(folders[:depth])) or self._make_folder(parent, part)
            if not parent.folder:
                raise ImageError(f"{part} is a file on the boot partition of {self.name}, not a folder.")
        old = self.find(path)
        if old is not None and old.folder:
            raise ImageError(f"{path} is a folder on the boot partition of {self.name}, not a file.")
        if old is not None:
            self._release(old.cluster)
        chain = self._take(-(-size // self.cluster_bytes), path)
        for first, count in runs(chain):
            while count:
                take = min(count, max(1, (1 << 20) // self.cluster_bytes))
                length = take * self.cluster_bytes
                self._put(self._cluster_at(first), stream.read(length).ljust(length, b"\0"))
                first, count = first + take, count - take
        self._enter(parent, name, old, ARCHIVE, chain[0] if chain else 0, size)

    def finish(self) -> None:
        """Write the allocation tables and the count of free clusters."""
        raw = self._table.astype("<u2" if self.bits == 16 else "<u4").tobytes()
        for copy in self._kept:
            self._put(self._table_at + copy * self._table_bytes, raw)
        if self._info_at is not None:
            info = bytearray(self._bytes(self._info_at, 512))
            if struct.unpack_from("<I480xI", info) == (0x41615252, 0x61417272):
                free = self._free()
                struct.pack_into("<II", info, 488, len(free), int(free[0]) if len(free) else 0xFFFFFFFF)
                self._put(self._info_at, bytes(info))

    def _make_folder(self, parent: Entry | None, name: str) -> Entry:
        cluster = self._take(1, name)[0]
        up = 0 if parent is None else parent.cluster
        content = _entry(b".          ", FOLDER, cluster, 0) + _entry(b"..         ", FOLDER, up, 0)
        self._put(self._cluster_at(cluster), content.ljust(self.cluster_bytes, b"\0"))
        self._enter(parent, name, None, FOLDER, cluster, 0)
        return Entry(name, b"", FOLDER, cluster, 0, 0)

    def _enter(
        self, parent: Entry | None, name: str, old: Entry | None, attributes: int, cluster: int, size: int
    ) -> None:
        """Put a file or folder into a folder, or change its entry there."""
        where = None if parent is None else parent.cluster
        content = self._folder(where)
        if old is not None:
            case = content[old.at + 12]
            content[old.at : old.at + 32] = _entry(old.raw, old.attributes, cluster, size, case)
        else:
            if not fat_names.is_valid_name(name):
                raise ImageError(f'"{name}" cannot be the name of a file on a boot partition.')
            taken = {entry.raw for entry in entries(content)}
            raw = fat_names.exact(name)
            long = b""
            if raw is None:
                raw = fat_names.short(name, taken)
                long = fat_names.long_entries(name, raw)
            made = long + _entry(raw, attributes, cluster, size)
            at = _gap(content, len(made))
            content[at : at + len(made)] = made
        self._put_folder(where, content, name)

    def _put_folder(self, cluster: int | None, content: bytearray, name: str) -> None:
        if cluster is None and self.bits == 16:
            if len(content) > self._root_bytes:
                raise ImageError(f"The root folder on the boot partition of {self.name} has no place for {name}.")
            self._put(self._root_at, bytes(content))
            return
        chain = self._chain(self._root_cluster if cluster is None else cluster)
        missing = -(-len(content) // self.cluster_bytes) - len(chain)
        if missing > 0:
            added = self._take(missing, name)
            self._link(chain[-1], added[0])
            chain += added
        content = content.ljust(len(chain) * self.cluster_bytes, b"\0")
        for index, each in enumerate(chain):
            piece = content[index * self.cluster_bytes : (index + 1) * self.cluster_bytes]
            self._put(self._cluster_at(each), bytes(piece))

    def _take(self, count: int, name: str) -> list[int]:
        """Clusters for a file, linked in rising order."""
        free = self._free()
        if len(free) < count:
            needed, there = count * self.cluster_bytes >> 10, self.free >> 10
            raise ImageError(
                f"{name} needs {needed} KiB on the boot partition of {self.name}, which has {there} KiB free."
            )
        chain = [int(cluster) for cluster in free[:count]]
        for cluster, following in zip(chain, [*chain, self._mask][1:], strict=True):
            self._link(cluster, following)
        return chain

    def _release(self, cluster: int) -> None:
        for each in self._chain(cluster):
            self._link(each, 0)

    def _link(self, cluster: int, following: int) -> None:
        """Say what follows a cluster; the upper four bits of FAT32 stay as they are."""
        self._table[cluster] = int(self._table[cluster]) & ~self._mask & 0xFFFFFFFF | following

    def _put(self, at: int, content: bytes) -> None:
        if at + len(content) > self._partition.size:
            raise ImageError(f"The boot partition of {self.name} is damaged: fetch the image again.")
        self._file.seek(self._partition.start + at)
        self._file.write(content)


def _entry(raw: bytes, attributes: int, cluster: int, size: int, case: int = 0) -> bytes:
    return ENTRY.pack(raw, attributes, case, 0, 0, DAY, DAY, cluster >> 16, 0, DAY, cluster & 0xFFFF, size)


def _gap(content: bytearray, length: int) -> int:
    """Where so many bytes of entries find place; behind the end of the folder where nowhere else."""
    begun = 0
    for at in range(0, len(content), 32):
        if content[at] not in (GONE, END):
            begun = at + 32
        elif at + 32 - begun >= length:
            return begun
    return begun
