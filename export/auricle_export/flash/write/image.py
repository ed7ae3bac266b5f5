"""An image of a disk: a raw file, or one packed by xz and unpacked while it is read."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from auricle.errors import DataError
from auricle_export.flash.write.xz_index import MAGIC, unpacked_size

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
        It is no regular file, empty, damaged, packed by something else, or no image of a disk.
    """
    if not path.exists():
        raise DataError(f"There is no image {path}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a device: the image comes first, then the disk"
        raise DataError(f"{path} is {what}.")
    try:
        image = _measured(path)
        with image.open() as stream:
            sector = stream.read(512)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be read ({error}): fetch it again.") from error
    kind = next((kind for magic, kind in PACKED.items() if sector.startswith(magic)), None)
    if kind is not None:
        raise DataError(f"{path} is packed by {kind}: unpack it first; only .xz is unpacked on the way.")
    if sector[510:] != SIGNATURE:
        raise DataError(f"{path} is not the image of a disk: its first sector is no boot sector.")
    return image


def _measured(path: Path) -> Image:
    with path.open("rb") as file:
        packed = file.read(len(MAGIC)) == MAGIC
        return Image(path, unpacked_size(file) if packed else path.stat().st_size, packed)
