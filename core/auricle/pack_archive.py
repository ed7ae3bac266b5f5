"""The two forms of a pack on disk, read with limits: a `.tar.zst` of plain files, or a folder."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import zstandard

from auricle.errors import PackError
from auricle.manifest import LARGEST_PACK

MANIFEST_FILE = "manifest.json"
LARGEST_MANIFEST = 4 << 20
"""Most bytes of a `manifest.json`."""
BLOCK = 1 << 20
"""Bytes that are unpacked at once."""


def tar_bytes(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Files as `.tar.zst`, in their order: no times, no owners; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    settings = zstandard.ZstdCompressionParameters.from_level(19, window_log=24, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=settings).compress(raw.getvalue())


def untar(data: bytes, where: str) -> dict[str, bytes]:
    """The files of a `.tar.zst` by name.

    Raises
    ------
    PackError
        It is none, is cut short, unpacks to more than `LARGEST_PACK`, or holds anything but plain files, once each.
    """
    try:
        raw = decompress(data, where)
        files: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", format=tarfile.USTAR_FORMAT) as archive:
            for member in archive:
                if member.type != tarfile.REGTYPE or member.issparse() or not 0 <= member.size <= len(raw):
                    raise PackError(f"{where} holds {member.name!r}, which is not a plain file.")
                file = archive.extractfile(member)
                if file is None or member.name in files:
                    raise PackError(f"{where} holds {member.name!r} twice.")
                files[member.name] = file.read()
    except (zstandard.ZstdError, tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError) as error:
        raise PackError(f"{where} is not a pack: {error}.") from error
    return files


def decompress(data: bytes, where: str) -> bytes:
    """What was compressed, whatever size the archive claims for itself.

    Raises
    ------
    PackError
        It is more than `LARGEST_PACK`; no more than that is unpacked to find out.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_PACK)
    blocks, size = [], 0
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while block := reader.read(BLOCK):
            blocks.append(block)
            size += len(block)
            if size > LARGEST_PACK:
                raise PackError(f"{where} unpacks to more than {LARGEST_PACK >> 20} MiB.")
    return b"".join(blocks)


def read_file(path: Path, largest: int = LARGEST_PACK) -> bytes:
    """A file that is no larger than it may be; of a larger one nothing is read.

    Raises
    ------
    PackError
        It is larger.
    """
    with path.open("rb") as file:
        data = file.read(min(largest, path.stat().st_size) + 1)
    if path.stat().st_size > largest or len(data) > largest:
        raise PackError(f"{path} holds more than {_size(largest)}.")
    return data


def read_inside(folder: Path, name: str, size: int) -> bytes | None:
    """A file of a folder that is expected to have a size; None when it is not there.

    Raises
    ------
    PackError
        It is a link that leads out of the folder, or larger.
    """
    path = folder / name
    if not path.is_file():
        return None
    if not path.resolve().is_relative_to(folder.resolve()):
        raise PackError(f"{path} is a link that leads out of the pack.")
    return read_file(path, size)


def _size(largest: int) -> str:
    return f"{largest >> 20} MiB" if largest >= 1 << 20 else f"{largest} bytes"
