"""Bundles as `auricle flash bundle` makes them, as small as they can be."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
