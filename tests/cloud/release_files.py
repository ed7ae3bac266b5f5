"""Bundles as `auricle flash bundle` makes them, as small as they can be, and what a board does to fetch them."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cloud.api_server import Server, serving
from tests.cloud.filled_store import Filled
from tuf.ngclient import Updater

from auricle.packs.pack import load_pack
from auricle.wire.identity import Identity
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store

CONTENT = {"install": b"#!/bin/sh\n", "pack.tar.zst": b"a pack", "wheels/auricle.whl": b"a wheel"}


def manifest(files: Mapping[str, bytes], **changes: Any) -> dict[str, Any]:
    listed = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mode": 0o644}
        for path, data in sorted(files.items())
    ]
    about = {"format": 1, "name": "auricle", "version": "1.0.0", "board": "pi5", "os": "trixie", "base": "debian13"}
    about |= {"python": "3.13", "architecture": "aarch64", "fleet": "home", "pack": "c" * 64, "files": listed}
    return {**about, **changes}


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


@contextmanager
def serving_releases(folder: Path, migrated_file: Path, settings: ApiSettings | None = None) -> Iterator[Server]:
    """The API over a new store in this folder, and over the releases there."""
    store = Store(shutil.copy(migrated_file, folder / FILE))
    with serving(Filled(folder, store, Blobs(folder / "blobs"), load_pack("digits")), settings) as server:
        yield server
    store.close()


class PowerCutError(Exception):
    pass


def cut_after(writes: int, write: Callable[..., None]) -> Callable[..., None]:
    """This writing, with a power cut in place of the one after so many."""
    left = [writes]

    def cut(*given: Any, **named: Any) -> None:
        if left[0] == 0:
            raise PowerCutError
        left[0] -= 1
        write(*given, **named)

    return cut


class Device:
    """What a board does to update, with python-tuf's client."""

    def __init__(self, folder: Path, root: bytes, url: str) -> None:
        self.folder, self.root, self.url = folder, root, url
        folder.mkdir(exist_ok=True)

    def updater(self) -> Updater:
        urls = [f"{self.url}/v1/updates/{what}/" for what in ("metadata", "targets")]
        place = str(self.folder)
        found = Updater(str(self.folder / "metadata"), urls[0], place, urls[1], bootstrap=self.root)
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
