"""Bundles as `auricle flash bundle` makes them, as small as they can be, and what a board does to fetch them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuf.ngclient import Updater

from auricle.wire.identity import Identity

CONTENT = {"install": b"#!/bin/sh\n", "pack.tar.zst": b"a pack", "wheels/auricle.whl": b"a wheel"}


def manifest(files: Mapping[str, bytes], **changes: Any) -> dict[str, Any]:
    listed = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mode": 0o644}
        for path, data in sorted(files.items())
    ]
    return {
        "format": 1,
        "name": "auricle",
        "version": "1.0.0",
        "board": "pi5",
        "os": "trixie",
        "base": "debian13",
        "python": "3.13",
        "architecture": "aarch64",
        "fleet": "home",
        "pack": "c" * 64,
        "files": listed,
        **changes,
    }


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def make_bundle(
    path: Path, key: Identity | None = None, content: Mapping[str, bytes] = CONTENT, **changes: Any
) -> Path:
    """Write a bundle; `changes` are those of its manifest."""
    described = json.dumps(manifest(content, **changes), sort_keys=True).encode()
    files = {"bundle.json": described, **content}
    if key is not None:
        signature = key.sign(b"auricle-bundle-1\n" + described).hex()
        files["bundle.sig"] = json.dumps({"keyid": key.public.hex(), "signature": signature}).encode()
    return write_tar(path, files)


def bundle(folder: Path, version: str = "1.0.0", **changes: Any) -> Path:
    """A bundle of this version; several fit into one folder."""
    return make_bundle(folder / f"{version}-{len(list(folder.glob('*.tar')))}.tar", version=version, **changes)


class Device:
    """What a board does to update, with python-tuf's client."""

    def __init__(self, folder: Path, root: bytes, url: str) -> None:
        self.folder, self.root, self.url = folder, root, url
        folder.mkdir(exist_ok=True)

    def updater(self) -> Updater:
        found = Updater(
            str(self.folder / "metadata"),
            f"{self.url}/v1/updates/metadata/",
            str(self.folder),
            f"{self.url}/v1/updates/targets/",
            bootstrap=self.root,
        )
        found.refresh()
        return found

    def custom(self, path: str) -> dict[str, Any] | None:
        info = self.updater().get_targetinfo(path)
        return None if info is None else dict(info.custom or {})

    def fetch(self, path: str) -> bytes:
        updater = self.updater()
        info = updater.get_targetinfo(path)
        assert info is not None
        return Path(updater.download_target(info)).read_bytes()
