"""Bundles that are real in form, whose payload is a wheel of one module, and devices in folders to put them on."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from auricle_export.flash.bundle.contents import guard_file

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
FACTS: dict[str, Any] = {"format": 1, "name": "auricle", "board": "pi5", "os": "raspios-12", "base": "bookworm"}
FACTS |= {"python": PYTHON, "architecture": platform.machine(), "fleet": "home", "pack": "0" * 64}
PROBE = "import sys\n\n\ndef main() -> None:\n    print({version!r}, *sys.argv[1:])\n\n\nclass Deep:\n    call = main\n"
ENTRY_POINTS = (
    "[console_scripts]\nauricle = auricle_probe:main\nauricle-probe = auricle_probe:main\n"
    "auricle-deep=auricle_probe:Deep.call [extra]\n"
)


def wheel(version: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """A wheel with a module, two console scripts, a script of its own, and data."""
    data, info = f"auricle_probe-{version}.data", f"auricle_probe-{version}.dist-info"
    files = {
        "auricle_probe/__init__.py": PROBE.format(version=version).encode(),
        f"{data}/scripts/probe-own": b"#!python\nimport sys\n\nprint(sys.executable)\n",
        f"{data}/data/share/auricle/note.txt": b"data\n",
        f"{data}/purelib/auricle_extra.py": b"WORD = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: auricle-probe\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS.encode(),
    } | dict(more or {})
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)
    return made.getvalue()


def units() -> dict[str, bytes]:
    folder = resources.files("auricle_edge")
    found = {f"systemd/{each.name}": each.read_bytes() for each in folder.joinpath("ota/units").iterdir()}
    found["systemd/auricle-edge.service"] = folder.joinpath("service/auricle-edge.service").read_bytes()
    found["systemd/auricle-edge.service.d/board.conf"] = b"[Service]\nMemoryMax=256M\n"
    return found


def guard_of(version: str) -> bytes:
    """The guard as a bundle brings it, with its version as the archive's comment."""
    folder = resources.files("auricle_edge").joinpath("ota/slots")
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(".py")}
    modules = {f"auricle_edge/ota/slots/{name}": content for name, content in found.items()}
    shared = resources.files("auricle").joinpath("packs/plain_tar.py").read_bytes()
    made = io.BytesIO(guard_file({"auricle/packs/plain_tar.py": shared, **modules}))
    with zipfile.ZipFile(made, "a") as archive:
        archive.comment = version.encode()
    return made.getvalue()


def make_bundle(
    folder: Path,
    version: str,
    *,
    more: Mapping[str, bytes | None] | None = None,
    in_wheel: Mapping[str, bytes] | None = None,
    **facts: Any,
) -> Path:
    """Write a bundle as a folder; `more` adds files, or with None leaves one out, and `facts` change its manifest."""
    files: dict[str, bytes | None] = {
        "install": b"#!/bin/sh\n",
        "slots.py": guard_of(version),
        f"wheels/auricle_probe-{version}-py3-none-any.whl": wheel(version, in_wheel),
        "pack.tar.zst": b"a pack of " + version.encode(),
        "etc/edge.toml": f"# settings of {version}\n".encode(),
        "etc/claim.env": b"AURICLE_SERVER=https://hub.lan:8443\n",
        "tuf/root.json": b"{}",
        **units(),
        **(more or {}),
    }
    listed = []
    for path, data in sorted(files.items()):
        if data is not None:
            mode = 0o755 if path == "install" else 0o644
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
            sha256 = hashlib.sha256(data).hexdigest()
            listed.append({"path": path, "size": len(data), "sha256": sha256, "mode": mode})
    (folder / "bundle.json").write_text(json.dumps({**FACTS, "version": version, "files": listed} | facts))
    (folder / "bundle.sig").write_text("{}")
    return folder


def identity(bundle: Path) -> str:
    return hashlib.sha256((bundle / "bundle.json").read_bytes()).hexdigest()


def pack(bundle: Path, archive: Path) -> Path:
    """The same as a tar, as it travels."""
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for path in bundle.rglob("*") if path.is_file()):
            tar.add(path, str(path.relative_to(bundle)))
    return archive


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is synced here need not wait for everybody else's disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


class Device:
    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "opt/auricle"
        (root / "etc").mkdir(parents=True, exist_ok=True)
        (root / "etc/os-release").write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
        if not self._boot_id.exists():
            self.boot("first")

    @property
    def _boot_id(self) -> Path:
        return self.root / "proc/sys/kernel/random/boot_id"

    def boot(self, name: str) -> None:
        """Start it again, as far as a folder can: another boot id, and nothing in /run."""
        self._boot_id.parent.mkdir(parents=True, exist_ok=True)
        self._boot_id.write_text(name)
        shutil.rmtree(self.root / "run", ignore_errors=True)

    def healthy(self, bundle: Path, healthy: bool = True) -> None:
        folder = self.root / "run/auricle"
        folder.mkdir(parents=True, exist_ok=True)
        said = {"format": 1, "identity": identity(bundle), "boot": "0", "healthy": healthy, "since": 1.0}
        (folder / "health.json").write_text(json.dumps(said))

    def probe(self) -> str:
        command = [str(self.home / "current/bin/python3"), str(self.home / "bin/auricle-probe")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def guard(self) -> str:
        """Version of the guard that the units run."""
        with zipfile.ZipFile(self.home / "slots.py") as archive:
            return archive.comment.decode()

    def journal(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.home / "slots.json").read_text())
        return read

    def everything(self) -> set[str]:
        """Paths of all files, but those that it had before."""
        found = {str(p.relative_to(self.root)) for p in self.root.rglob("*") if not p.is_dir() or p.is_symlink()}
        return found - {"etc/os-release", "proc/sys/kernel/random/boot_id"}
