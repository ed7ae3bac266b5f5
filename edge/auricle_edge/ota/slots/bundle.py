"""A bundle and its manifest, every field, path and file looked at before anything of it is used."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auricle.packs.plain_tar import require_plain
from auricle_edge.ota.slots.files import LONGEST_TEXT

FORMAT_VERSION = 1
AGENT = "auricle-edge.service"
NEEDED = ("slots.py", "pack.tar.zst", "etc/edge.toml", f"systemd/{AGENT}")
MOST_FILES, LARGEST_FILE = 4096, 1 << 30
SHA256 = re.compile(r"[0-9a-f]{64}")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
UNIT = re.compile(r"systemd/auricle-[a-z-]+\.(service|path|timer)(\.d/[a-z-]+\.conf)?")
PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!@~-]*(/[A-Za-z0-9_][A-Za-z0-9._+!@~-]*)*")


class Refused(Exception):  # noqa: N818 - not a fault of the program
    """What was asked for will not be done; one sentence that says why, and what to do."""


@dataclass(frozen=True)
class Entry:
    """One file of a bundle."""

    path: str
    size: int
    sha256: str
    mode: int


@dataclass(frozen=True)
class Manifest:
    """A bundle's `bundle.json`; its identity is the SHA-256 of the file."""

    version: str
    board: str
    os: str
    base: str
    python: str
    architecture: str
    fleet: str
    files: tuple[Entry, ...]
    identity: str
    text: bytes


def read_manifest(text: bytes) -> Manifest:
    """The manifest of a bundle, every field and path looked at.

    Raises
    ------
    Refused
        It is not one, or of another format.
    """
    try:
        data = json.loads(text)
        if data["format"] != FORMAT_VERSION:
            raise Refused(f"This bundle has format {data['format']!r}: it needs another installer than this one.")
        words = {key: data[key] for key in ("version", "board", "os", "base", "python", "architecture", "fleet")}
        files = tuple(Entry(each["path"], each["size"], each["sha256"], each["mode"]) for each in data["files"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refused(f"bundle.json is not that of a bundle ({error!r}): make the bundle again.") from error
    for key, word in words.items():
        if not isinstance(word, str) or WORD.fullmatch(word) is None:
            raise Refused(f"bundle.json has no sound {key}: make the bundle again.")
    for each in files:
        if not is_sound(each):
            raise Refused(f"bundle.json lists {str(each.path)[:80]!r}, which no bundle holds: make the bundle again.")
    paths = {each.path for each in files}
    missing = [path for path in NEEDED if path not in paths]
    if missing or len(paths) != len(files) or len(files) > MOST_FILES:
        raise Refused(f"bundle.json does not list what it must ({', '.join(missing) or 'each file once'}).")
    return Manifest(**words, files=files, identity=hashlib.sha256(text).hexdigest(), text=text)


def is_sound(entry: Entry) -> bool:
    """Whether a file of a bundle may be one: a plain path below it, a size, a hash, an ordinary mode."""
    return (
        isinstance(entry.path, str)
        and PATH.fullmatch(entry.path) is not None
        and entry.path not in ("bundle.json", "bundle.sig")
        and (not entry.path.startswith("systemd/") or UNIT.fullmatch(entry.path) is not None)
        and type(entry.size) is int
        and 0 <= entry.size <= LARGEST_FILE
        and isinstance(entry.sha256, str)
        and SHA256.fullmatch(entry.sha256) is not None
        and entry.mode in (0o644, 0o755)
    )


class Bundle:
    """A bundle's files, from its tar or from a folder it was unpacked into."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tar = None if path.is_dir() else _plain_tar(path)
            self._members = {} if self._tar is None else {each.name: each for each in self._tar.getmembers()}
        except (tarfile.TarError, OSError, ValueError) as error:
            raise Refused(f"{path} is neither a bundle nor the folder of one ({error}).") from error
        with self.open("bundle.json") as file:
            self.manifest = read_manifest(file.read(LONGEST_TEXT))

    def close(self) -> None:
        """Let go of the tar."""
        if self._tar is not None:
            self._tar.close()

    def open(self, name: str) -> IO[bytes]:
        """A regular file of it, to be read; Refused when it is missing, a link or something else."""
        try:
            found = self._from_folder(name) if self._tar is None else self._from_tar(self._tar, name)
        except (OSError, KeyError, tarfile.TarError) as error:
            raise Refused(f"{self._path} has no {name}: copy the bundle again.") from error
        if found is None:
            raise Refused(f"{name} in {self._path} is not a regular file: this is not a bundle.")
        return found

    def _from_folder(self, name: str) -> IO[bytes] | None:
        path = self._path.resolve() / name
        if path.resolve() != path or not stat.S_ISREG(path.stat().st_mode):
            return None
        return path.open("rb")

    def _from_tar(self, tar: tarfile.TarFile, name: str) -> IO[bytes] | None:
        member = self._members[name]
        return tar.extractfile(member) if member.isreg() else None

    def verify(self) -> None:
        """Compare every file with the manifest; Refused when one differs, or the tar holds another."""
        listed = {each.path for each in self.manifest.files} | {"bundle.json", "bundle.sig"}
        strange = sorted(self._members.keys() - listed)
        if strange:
            raise Refused(f"{self._path} holds {strange[0]!r}, which its bundle.json does not list.")
        for entry in self.manifest.files:
            with self.open(entry.path) as file:
                if digest(file, entry.size) != entry.sha256:
                    raise Refused(f"{entry.path} in {self._path} is damaged: copy the bundle again.")


@contextlib.contextmanager
def open_bundle(source: Path, identity: str | None) -> Iterator[Bundle]:
    """A bundle; Refused when it is not the one that is meant."""
    bundle = Bundle(source)
    try:
        if identity is not None and bundle.manifest.identity != identity:
            raise Refused(f"{source} is bundle {bundle.manifest.identity[:12]}, and not {identity[:12]}.")
        yield bundle
    finally:
        bundle.close()


def _plain_tar(path: Path) -> tarfile.TarFile:
    """A tar whose headers were all looked at before; NotPlainError when it holds anything but plain files."""
    with path.open("rb") as file:
        require_plain(file)
    return tarfile.open(path, "r:")


def digest(file: IO[bytes], size: int) -> str:
    """SHA-256 of a file that has `size` bytes; nothing that is one otherwise."""
    hashed, left = hashlib.sha256(), size
    while block := file.read(1 << 20):
        left -= len(block)
        if left < 0:
            break
        hashed.update(block)
    return hashed.hexdigest() if left == 0 else ""


def refuse_other_device(manifest: Manifest, active: Manifest) -> None:
    """Refused when a bundle is for another board, system or fleet than what is installed."""
    for key in ("board", "os", "base", "architecture", "fleet"):
        wanted, here = getattr(manifest, key), getattr(active, key)
        if wanted != here:
            raise Refused(f"This bundle is for the {key} {wanted}, and this device's is {here}.")


def sentence(text: str) -> str:
    """A reason, or the name of a rollout: one line of at most 200 characters."""
    return " ".join(text.split())[:200]
