#!/usr/bin/python3
"""The agent on a device, in two slots of which one is active: installed, tried, confirmed, reverted, removed.

Standard library only and one file, because it has to work when all else is broken: `python3 -I slots.py COMMAND`.
The journal `slots.json` decides. It is replaced as a whole, and `settle` makes links, units and settings agree with it;
`settle` may be cut off anywhere and runs again at the next start. A slot is complete when it has its `bundle.json`,
which is written last and removed first.

Wheels are unpacked here and not by pip: a slot then holds the paths that are right on the device even when it is made
in a folder (`--root`), no code of a bundle runs as root before its slot is active, and it takes a third of the memory.
"""

from __future__ import annotations

import argparse
import compileall
import configparser
import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

FORMAT = 1
HOME = "opt/auricle"
UNIT_FOLDER = "etc/systemd/system"
TOKENS = ("boot/firmware/auricle.token", "boot/auricle.token")
AGENT, CLAIM, TIMER = "auricle-edge.service", "auricle-claim.service", "auricle-guard.timer"
NEEDED = ("slots.py", "pack.tar.zst", "etc/edge.toml", f"systemd/{AGENT}")
MOST_STARTS = 3
DEADLINE = 300
NOTHING = "Nothing is installed: install a bundle first."
LONGEST_TEXT, MOST_FILES, LARGEST_FILE, LARGEST_TOKEN = 1 << 20, 4096, 1 << 30, 4096
SHA256 = re.compile(r"[0-9a-f]{64}")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
UNIT = re.compile(r"systemd/auricle-[a-z-]+\.(service|path|timer)(\.d/[a-z-]+\.conf)?")
PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!@~-]*(/[A-Za-z0-9_][A-Za-z0-9._+!@~-]*)*")
ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<function>(?P<first>\w+)[\w.]*)\s*(\[.*\])?")


class Refused(Exception):  # noqa: N818 - not a fault of the program
    """What was asked for will not be done; one sentence that says why, and what to do."""


@dataclass(frozen=True)
class Trial:
    """A version that has not yet shown that it works."""

    slot: str
    identity: str
    boot: str
    """Boot id of the kernel: a trial does not outlive it."""
    deadline_seconds: int
    started_monotonic: float
    """Seconds since that boot."""
    starts: int
    rollout: str


@dataclass(frozen=True)
class Last:
    """How the last attempt at a new version ended."""

    identity: str
    version: str
    rollout: str
    outcome: str
    """`confirmed` or `reverted`."""
    reason: str


@dataclass(frozen=True)
class Journal:
    """The whole state of an installation; what the disk says otherwise is brought in line with it."""

    active: str
    confirmed: bool = True
    previous: str | None = None
    trial: Trial | None = None
    last: Last | None = None


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


class Place:
    """Where everything is, below a root; `systemd` is spoken to only on a running system's own root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.etc, self.units = root / HOME, root / "etc/auricle", root / UNIT_FOLDER
        self.state = (root / "var/lib/auricle", root / "var/lib/private/auricle")
        self.runtime = (root / "run/auricle", root / "run/private/auricle")
        self.settings = tuple(self.etc / name for name in ("edge.toml", "edge.toml.new", "claim.token"))
        self.live = root == Path("/") and Path("/run/systemd/system").is_dir()

    def slot(self, name: str) -> Path:
        """Folder of a slot."""
        return self.home / name

    def manifest(self, name: str | None) -> Manifest | None:
        """Of what is installed in a slot; None when that is nothing whole."""
        try:
            return None if name is None else read_manifest((self.slot(name) / "bundle.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError, Refused):
            return None

    def boot(self) -> str:
        """Id of the kernel's present run."""
        name = "proc/sys/kernel/random/boot_id"
        own = self.root / name
        return (own if own.exists() else Path("/") / name).read_text("ascii").strip()

    def systemctl(self, *arguments: str) -> None:
        """Tell systemd; what it refuses is in its journal, and `check` looks at the outcome."""
        if self.live:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["systemctl", *arguments], check=False, timeout=90, stdin=subprocess.DEVNULL)


# Durable files


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file so that after any power cut it is the old one or the new one."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def make_link(path: Path, target: str) -> bool:
    """Point a link at a target in one step; False when it was right."""
    if path.is_symlink() and str(path.readlink()) == target:
        return False
    beside = path.with_name(f".{path.name}.tmp")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(path)
    sync_folder(path.parent)
    return True


def make_folder(path: Path) -> None:
    """Make a folder and those above it; they survive."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_disk(folder: Path) -> None:
    """Write out everything of the file system that a folder is on; OSError when the disk could not take it."""
    done = subprocess.run(["sync", "-f", str(folder)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(errno.EIO, f"the disk did not take what was written: {done.stderr.strip()}", str(folder))


def read_small(path: Path, limit: int = LONGEST_TEXT) -> bytes | None:
    """Content of a regular file that somebody else may have put there; None without one, or it is too long."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    return data if 0 < len(data) <= limit else None


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it; nothing when it is not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(place: Place, name: str) -> Iterator[None]:
    """Hold one of two locks: `journal` for an instant, `build` while a slot is filled, tried or removed.

    Raises
    ------
    Refused
        Another process fills a slot, or there is no installation.
    """
    if not place.home.is_dir():
        raise Refused(NOTHING)
    handle = os.open(place.home / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)  # nobody else may hold it
    with os.fdopen(handle) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if name == "build" else 0))
        except BlockingIOError as error:
            raise Refused("Another installation is under way: try again when it has ended.") from error
        yield


# The journal


def read_journal(place: Place) -> Journal | None:
    """What is installed; None for nothing. A journal that cannot be read is made again from what is active.

    Raises
    ------
    Refused
        The journal is damaged, and no slot is active and complete.
    """
    path = place.home / "slots.json"
    try:
        return decode_journal(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        current = place.home / "current"
        name = current.readlink().name if current.is_symlink() else None
        if place.manifest(name) is None:
            raise Refused(f"{path} is damaged ({error}) and no slot is whole: install a bundle again.") from error
        return Journal(active=str(name))


def readable_journal(place: Place) -> Journal | None:
    """The journal; None also where it is damaged beyond repair: an installation then begins again."""
    with contextlib.suppress(Refused):
        return read_journal(place)
    return None


def decode_journal(text: bytes) -> Journal:
    """A journal from JSON; ValueError, TypeError or KeyError when it is none."""
    data = json.loads(text)
    if data.pop("format") != FORMAT:
        raise ValueError("another format")
    trial, last = data.pop("trial"), data.pop("last")
    journal = Journal(
        **data, trial=None if trial is None else Trial(**trial), last=None if last is None else Last(**last)
    )
    slots = (journal.active, journal.previous, journal.trial and journal.trial.slot)
    if any(name not in ("a", "b", None) for name in slots) or journal.active is None:
        raise ValueError("no such slot")
    return journal


def write_journal(place: Place, journal: Journal) -> Journal:
    """Replace the journal: from here on this is what is installed."""
    write_file(place.home / "slots.json", json.dumps({"format": FORMAT, **asdict(journal)}, indent=1).encode() + b"\n")
    return journal


def other(slot: str) -> str:
    """The slot that is not this one."""
    return "b" if slot == "a" else "a"


# Bundles


def read_manifest(text: bytes) -> Manifest:
    """The manifest of a bundle, every field and path looked at.

    Raises
    ------
    Refused
        It is not one, or of another format.
    """
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
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
            self._tar = None if path.is_dir() else tarfile.open(path, "r:")  # noqa: SIM115 - closed by `close`
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
            raise Refused(f"{name} in {self._path} is not a regular file: this is no bundle.")
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


def digest(file: IO[bytes], size: int) -> str:
    """SHA-256 of a file that has `size` bytes; nothing that is one otherwise."""
    hashed, left = hashlib.sha256(), size
    while block := file.read(1 << 20):
        left -= len(block)
        if left < 0:
            break
        hashed.update(block)
    return hashed.hexdigest() if left == 0 else ""


def refuse_other_machine(place: Place, manifest: Manifest) -> None:
    """Refused when a bundle is not for this processor, Python or system."""
    machine, python = platform.machine(), f"{sys.version_info.major}.{sys.version_info.minor}"
    if manifest.architecture != machine:
        raise Refused(f"This bundle is for {manifest.architecture}, and this is {machine}.")
    if manifest.python != python:
        raise Refused(f"This bundle is for Python {manifest.python}, and this is {python}.")
    text = read_small(place.root / "etc/os-release") or read_small(place.root / "usr/lib/os-release") or b""
    named = re.search(r"^VERSION_CODENAME=\"?([\w.-]+)\"?$", text.decode("utf-8", "replace"), re.MULTILINE)
    base = "one that does not say its name" if named is None else named[1]
    if manifest.base != base:
        raise Refused(f"This bundle is for {manifest.base} ({manifest.os}), and this system is {base}.")


def refuse_other_device(manifest: Manifest, active: Manifest) -> None:
    """Refused when a bundle is for another board, system or fleet than what is installed."""
    for key in ("board", "os", "base", "architecture", "fleet"):
        wanted, here = getattr(manifest, key), getattr(active, key)
        if wanted != here:
            raise Refused(f"This bundle is for the {key} {wanted}, and this device's is {here}.")


# Filling a slot


def fill(place: Place, name: str, bundle: Bundle) -> None:
    """Make a slot from a bundle that was verified; it is complete at the very end, and not at all if this fails."""
    slot = place.slot(name)
    discard(slot)
    make_folder(slot)
    try:
        wheels = [each.path for each in bundle.manifest.files if each.path.startswith("wheels/")]
        refuse_full_disk(slot, bundle, wheels)
        python = make_environment(place, slot, bundle.manifest)
        for path in wheels:
            with bundle.open(path) as file:
                unpack(file, slot, Path("/") / HOME / name / "bin/python3", python)
        copy_files(slot, bundle)
        compileall.compile_dir(str(slot / "lib"), quiet=2, stripdir=str(place.root), prependdir="/")
        sync_disk(slot)
    except BaseException:
        shutil.rmtree(slot, ignore_errors=True)
        raise
    write_file(slot / "bundle.json", bundle.manifest.text)


def discard(slot: Path) -> None:
    """Remove a slot: from the first step on it is not complete any more."""
    if (slot / "bundle.json").exists():
        (slot / "bundle.json").unlink()
        sync_folder(slot)
    remove(slot)


def refuse_full_disk(slot: Path, bundle: Bundle, wheels: Sequence[str]) -> None:
    """Refused when a slot would not fit: its files, what is in its wheels, and half as much for bytecode."""
    needed = sum(each.size for each in bundle.manifest.files if each.path not in wheels)
    for path in wheels:
        with bundle.open(path) as file, opened_wheel(file) as archive:
            needed += sum(info.file_size for info in archive.infolist()) * 3 // 2
    free = shutil.disk_usage(slot).free
    if needed > free:
        raise Refused(f"This needs {needed >> 20} MB on the disk of {slot}, and {free >> 20} MB are free.")


def make_environment(place: Place, slot: Path, manifest: Manifest) -> str:
    """A virtual environment as `python3 -m venv --without-pip` makes it (PEP 405); the name of its library folder."""
    own = Path(f"/usr/bin/python{manifest.python}")
    python = own if (place.root / own.relative_to("/")).exists() else Path(os.path.realpath(sys.executable))
    (slot / "bin").mkdir()
    (slot / "bin/python3").symlink_to(python)
    (slot / "bin/python").symlink_to("python3")
    lines = (f"home = {python.parent}", "include-system-site-packages = false", f"version = {manifest.python}")
    (slot / "pyvenv.cfg").write_text("\n".join(lines) + "\n", "utf-8")
    return f"lib/python{manifest.python}/site-packages"


def copy_files(slot: Path, bundle: Bundle) -> None:
    """Everything but the wheels."""
    for entry in bundle.manifest.files:
        if not entry.path.startswith("wheels/"):
            with bundle.open(entry.path) as file:
                put(slot / entry.path, file, entry.mode)
    with contextlib.suppress(Refused), bundle.open("bundle.sig") as file:
        put(slot / "bundle.sig", file, 0o644)


def put(path: Path, content: IO[bytes], mode: int) -> None:
    """Write one file of a slot, never through a link that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


@contextlib.contextmanager
def opened_wheel(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """The archive of a wheel; Refused when it is none or it is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeDecodeError, configparser.Error) as error:
        raise Refused(f"A wheel of this bundle cannot be unpacked ({sentence(str(error))}): make it again.") from error


def unpack(wheel: IO[bytes], slot: Path, interpreter: Path, library: str) -> None:
    """Install a wheel into a slot, as the binary distribution format says; console scripts included.

    Parameters
    ----------
    interpreter
        For the first line of scripts: the slot's Python as the device sees it.
    library
        The folder of packages, relative to the slot.
    """
    with opened_wheel(wheel) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            target, is_script = destination(info.filename, library)
            mode = 0o755 if is_script or (info.external_attr >> 16) & 0o111 else 0o644
            with archive.open(info) as content:
                put(slot / target, content, mode)
            if is_script:
                name_interpreter(slot / target, interpreter)
            if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", info.filename):
                make_scripts(slot, archive.read(info).decode("utf-8"), interpreter)


def destination(name: str, library: str) -> tuple[PurePosixPath, bool]:
    """Where in a slot a wheel's file belongs, and whether it is a script; Refused when outside the slot."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise Refused(f"A wheel of this bundle holds {name!r}, which is outside of it: this is no bundle.")
    if not path.parts[0].endswith(".data"):
        return library / path, False
    schemes = {"purelib": library, "platlib": library, "scripts": "bin", "headers": "include", "data": "."}
    if len(path.parts) < 3 or path.parts[1] not in schemes:
        raise Refused(f"A wheel of this bundle holds {name!r}, for which there is no place: make the bundle again.")
    return PurePosixPath(schemes[path.parts[1]], *path.parts[2:]), path.parts[1] == "scripts"


def name_interpreter(script: Path, interpreter: Path) -> None:
    """Replace the first line of a script that begins with `#!python`."""
    text = script.read_bytes()
    if text.startswith(b"#!python"):
        script.write_bytes(f"#!{interpreter}".encode() + text[text.index(b"\n") :])


def make_scripts(slot: Path, entry_points: str, interpreter: Path) -> None:
    """Write the console scripts that a wheel asks for."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(entry_points)
    for name, value in parser.items("console_scripts") if parser.has_section("console_scripts") else ():
        found = ENTRY_POINT.fullmatch(value)
        if found is None or WORD.fullmatch(name) is None:
            raise Refused(f"A wheel of this bundle asks for the script {name!r}, which cannot be one.")
        path = slot / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(
            f"#!{interpreter}\nimport sys\n\nfrom {found['module']} import {found['first']}\n\n"
            f'if __name__ == "__main__":\n    sys.exit({found["function"]}())\n',
            "utf-8",
        )
        path.chmod(0o755)


# Making the rest agree with the journal


def settle(place: Place, journal: Journal, *, start: bool = False) -> None:
    """Bring links, units, settings and the guard itself in line with the journal; does nothing where they are.

    Parameters
    ----------
    start
        Also start the agent again.
    """
    sweep(place)
    start |= make_link(place.home / "current", journal.active)
    make_link(place.home / "bin", "current/bin")
    proven = journal.active if journal.confirmed else other(journal.active)
    refresh(place.slot(proven) / "slots.py", place.home / "slots.py", 0o755)
    settle_settings(place, journal.active)
    changed, new = settle_units(place, journal.active, proven)
    if take_token(place):
        new.append(CLAIM)
    if changed:
        place.systemctl("daemon-reload")
    if changed or start:
        place.systemctl("reset-failed", AGENT)
        place.systemctl("--no-block", "restart", AGENT)
    if new:
        place.systemctl("--no-block", "start", *new)
    place.systemctl("--no-block", "start" if journal.trial else "stop", TIMER)


def sweep(place: Place) -> None:
    """Remove what a power cut left of files and links that were about to be put in place."""
    units = (".auricle-*.tmp", "*/.auricle-*.tmp", "auricle-*/.*.tmp")
    for folder, patterns in ((place.home, (".*.tmp",)), (place.etc, (".*.tmp",)), (place.units, units)):
        for path in itertools.chain(*(folder.glob(pattern) for pattern in patterns)):
            path.unlink(missing_ok=True)


def refresh(source: Path, target: Path, mode: int = 0o644) -> bool:
    """Make a file the same as another; False when it was."""
    data = source.read_bytes()
    if read_small(target) == data:
        return False
    make_folder(target.parent)
    write_file(target, data, mode)
    return True


def settle_settings(place: Place, active: str) -> None:
    """The active version's settings, unless somebody changed them: those stay, and the new ones lie beside."""
    path, own = place.etc / "edge.toml", place.slot(active) / "etc/edge.toml"
    there = read_small(path)
    shipped = [read_small(place.slot(name) / "etc/edge.toml") for name in ("a", "b") if place.manifest(name)]
    if not os.path.lexists(path) or there in shipped:
        refresh(own, path)
        (place.etc / "edge.toml.new").unlink(missing_ok=True)
    else:
        refresh(own, place.etc / "edge.toml.new")


def unit_files(place: Place, name: str) -> dict[str, Path]:
    """The units and drop-ins of a slot, by their path below systemd's folder."""
    manifest = place.manifest(name)
    paths = [] if manifest is None else [each.path for each in manifest.files if each.path.startswith("systemd/")]
    return {path.removeprefix("systemd/"): place.slot(name) / path for path in paths}


def settle_units(place: Place, active: str, proven: str) -> tuple[bool, list[str]]:
    """Copy the active version's units, and the guard's own of the proven one.

    A unit that was not there is enabled, before it is there; one that an administrator disabled stays so.

    Returns
    -------
    tuple
        Whether anything changed, and the units that were enabled.
    """
    wanted = {path: file for path, file in unit_files(place, active).items() if not path.startswith("auricle-guard")}
    wanted |= {path: file for path, file in unit_files(place, proven).items() if path.startswith("auricle-guard")}
    changed, new = False, []
    for path, file in wanted.items():
        if not (place.units / path).exists() and enable(place, path, file):
            new.append(path)
        changed |= refresh(file, place.units / path)
    for path, file in unit_files(place, other(active)).items():
        if path not in wanted:
            changed |= (place.units / path).exists()
            remove_unit(place, path, file)
    return changed, new


def wants(place: Place, path: str, file: Path) -> list[Path]:
    """The links that enable a unit: what its `WantedBy=` says."""
    text = (read_small(file) or b"").decode("utf-8", "replace")
    targets = [target for line in re.findall(r"^WantedBy=(.*)$", text, re.MULTILINE) for target in line.split()]
    return [place.units / f"{target}.wants" / path for target in targets if WORD.fullmatch(target)]


def enable(place: Place, path: str, file: Path) -> bool:
    """What `systemctl enable` does, also where no systemd runs; False for a unit that is not to be enabled."""
    links = wants(place, path, file)
    for link in links:
        make_folder(link.parent)
        make_link(link, f"../{path}")
    return bool(links)


def remove_unit(place: Place, path: str, source: Path) -> None:
    """Remove a unit or drop-in, then what enabled it: as it says in its slot, for it may be gone here already."""
    for file in (place.units / path, *wants(place, path, source)):
        file.unlink(missing_ok=True)
        if file.parent != place.units and file.parent.is_dir():
            with contextlib.suppress(OSError):
                file.parent.rmdir()  # when it is empty


def take_token(place: Place) -> bool:
    """Move a claim token from the boot partition, which all may read, to where root does; whether one was there."""
    taken = False
    for path in (place.root / name for name in TOKENS):
        token = read_small(path, LARGEST_TOKEN) or b""
        if token.strip(b"\0\r\n\t "):  # else the power went while it was erased
            make_folder(place.etc)
            write_file(place.etc / "claim.token", token, 0o600)
            taken = True
        erase(path)
    return taken


def erase(path: Path) -> None:
    """Overwrite and remove a token; on a read-only partition it stays, and is worth nothing once it was used."""
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            with path.open("r+b") as file:
                file.write(bytes(min(path.stat().st_size, LARGEST_TOKEN)))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
            sync_folder(path.parent)


# Commands


def install(place: Place, source: Path, identity: str | None) -> str:
    """Install a bundle for the first time, go on with that, or replace what is installed by hand, without a trial."""
    with opened(source, identity) as bundle:
        refuse_other_machine(place, bundle.manifest)
        bundle.verify()
        make_folder(place.home)
        return install_here(place, bundle)


def install_here(place: Place, bundle: Bundle) -> str:
    """The part of an installation that changes something."""
    with locked(place, "build"):
        manifest, journal = bundle.manifest, readable_journal(place)
        active = None if journal is None else place.manifest(journal.active)
        if journal is not None and journal.trial is not None:
            raise Refused("A version is on trial: wait until it is confirmed or reverted.")
        if journal is not None and active is not None and active.identity == manifest.identity:
            with locked(place, "journal"):
                settle(place, journal)
            return f"Version {manifest.version} ({manifest.identity[:12]}) is installed already; nothing was changed."
        if active is not None:
            refuse_other_device(manifest, active)
        slot = "a" if journal is None else other(journal.active)
        fill_inactive(place, slot, bundle)
        with locked(place, "journal"):
            previous = journal.active if journal is not None and active is not None else None
            settle(place, write_journal(place, Journal(active=slot, previous=previous)), start=True)
        return f"Version {manifest.version} ({manifest.identity[:12]}) is installed."


@contextlib.contextmanager
def opened(source: Path, identity: str | None) -> Iterator[Bundle]:
    """A bundle; Refused when it is not the one that is meant."""
    bundle = Bundle(source)
    try:
        if identity is not None and bundle.manifest.identity != identity:
            raise Refused(f"{source} is bundle {bundle.manifest.identity[:12]}, and not {identity[:12]}.")
        yield bundle
    finally:
        bundle.close()


def fill_inactive(place: Place, slot: str, bundle: Bundle) -> None:
    """Fill a slot that the journal does not lead to; the version that was in it cannot be gone back to any more."""
    with locked(place, "journal"):
        journal = readable_journal(place)
        if journal is not None and journal.previous == slot:
            write_journal(place, replace(journal, previous=None))
    fill(place, slot, bundle)


def stage(place: Place, source: Path, identity: str) -> str:
    """Put a bundle into the inactive slot, once everything in it was compared; what runs goes on running."""
    with opened(source, identity) as bundle, locked(place, "build"):
        journal, active = installed(place)
        manifest, slot = bundle.manifest, other(journal.active)
        if journal.trial is not None:
            raise Refused("A version is on trial: wait until it is confirmed or reverted.")
        refuse_other_machine(place, manifest)
        refuse_other_device(manifest, active)
        if manifest.identity == active.identity:
            raise Refused(f"Version {manifest.version} ({manifest.identity[:12]}) is the one that runs.")
        there = place.manifest(slot)
        if there is None or there.identity != manifest.identity:
            bundle.verify()
            fill_inactive(place, slot, bundle)
        return f"Version {manifest.version} ({manifest.identity[:12]}) is staged in slot {slot}."


def installed(place: Place) -> tuple[Journal, Manifest]:
    """The journal, and what is active; Refused when nothing is."""
    journal = read_journal(place)
    active = None if journal is None else place.manifest(journal.active)
    if journal is None or active is None:
        raise Refused(NOTHING)
    return journal, active


def try_staged(place: Place, rollout: str, deadline: int) -> str:
    """Switch to the staged version, on trial: it has `deadline` seconds and three starts to become healthy."""
    with locked(place, "build"), locked(place, "journal"):
        journal, _ = installed(place)
        slot = other(journal.active)
        staged = place.manifest(slot)
        if journal.trial is not None or staged is None:
            what = "A version is on trial already" if journal.trial else "Nothing is staged"
            raise Refused(f"{what}: stage a bundle when no trial runs.")
        place.systemctl("start", TIMER)  # first: it also sees to what an interrupted switch leaves
        trial = Trial(slot, staged.identity, place.boot(), deadline, time.monotonic(), 0, rollout)
        journal = Journal(active=slot, confirmed=False, previous=journal.active, trial=trial, last=journal.last)
        settle(place, write_journal(place, journal), start=True)
        return f"Version {staged.version} ({staged.identity[:12]}) is on trial for {deadline} s."


def starting(place: Place) -> str:
    """Before each start of the agent: count it while a trial runs, and give the version up after the third."""
    with locked(place, "journal"):
        journal = read_journal(place)
        if journal is None or journal.trial is None:
            return "No trial runs."
        trial = replace(journal.trial, starts=journal.trial.starts + 1)
        if trial.starts > MOST_STARTS:
            return end_trial(place, journal, f"it was started {MOST_STARTS} times and never became healthy")
        write_journal(place, replace(journal, trial=trial))
        return f"Start {trial.starts} of {MOST_STARTS} on trial."


def check(place: Place) -> str:
    """At boot, when the agent failed, and every few seconds of a trial: confirm, revert, or go on waiting."""
    if not place.home.exists():
        return "Nothing is installed."
    with locked(place, "journal"):
        journal = read_journal(place)
        if journal is None:
            return "Nothing is installed."
        if place.manifest(journal.active) is None and place.manifest(other(journal.active)) is not None:
            journal = replace(journal, previous=other(journal.active))
            return end_trial(place, journal, "its slot is damaged")
        if journal.trial is not None:
            reason = failure(place, journal.trial)
            if reason is not None:
                return end_trial(place, journal, reason)
            if healthy(place, journal.trial):
                return end_trial(place, journal, None)
        settle(place, journal)
        return "A trial runs." if journal.trial else "All is as it should be."


def failure(place: Place, trial: Trial) -> str | None:
    """Why a trial is over without success; None while it is not."""
    if trial.boot != place.boot():
        return "the device was switched off or started again before it had become healthy"
    if time.monotonic() - trial.started_monotonic >= trial.deadline_seconds and not healthy(place, trial):
        return f"it did not become healthy within {trial.deadline_seconds} s"
    return None


def healthy(place: Place, trial: Trial) -> bool:
    """Whether the agent on trial says that it is well; the file is from somebody with fewer rights."""
    text = read_small(place.runtime[0] / "health.json")
    try:
        said = json.loads(text or b"{}")
        return said["format"] == FORMAT and said["identity"] == trial.identity and said["healthy"] is True
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def end_trial(place: Place, journal: Journal, reason: str | None) -> str:
    """Confirm what is active, or for a reason go back to what was before.

    Raises
    ------
    Refused
        There is no complete version to go back to.
    """
    manifest, trial = place.manifest(journal.active), journal.trial
    back = other(journal.active)
    if reason is not None and place.manifest(back) is None:
        raise Refused("There is no version to go back to: install a bundle.")
    last = Last(
        "" if manifest is None else manifest.identity,
        "" if manifest is None else manifest.version,
        "" if trial is None else trial.rollout,
        "reverted" if reason else "confirmed",
        reason or "",
    )
    named = f"Version {last.version} ({last.identity[:12]})"
    if reason is None:
        settle(place, write_journal(place, Journal(journal.active, previous=journal.previous, last=last)))
        return f"{named} is confirmed."
    settle(place, write_journal(place, Journal(back, last=last)), start=True)
    return f"{named} is given up: {reason}."


def confirm(place: Place) -> str:
    """Say that the version on trial works."""
    with locked(place, "journal"):
        journal, _ = installed(place)
        return end_trial(place, journal, None) if journal.trial else "Nothing is on trial."


def revert(place: Place, reason: str) -> str:
    """Go back to the version before."""
    with locked(place, "build"), locked(place, "journal"):
        journal, _ = installed(place)
        if journal.previous is None:
            raise Refused("There is no version to go back to: install a bundle.")
        return end_trial(place, journal, reason)


def claimed(place: Place) -> str:
    """After a claim: erase the token, and start the agent with its certificate."""
    for path in (place.etc / "claim.token", *(place.root / name for name in TOKENS)):
        erase(path)
    place.systemctl("reset-failed", AGENT)
    place.systemctl("--no-block", "restart", AGENT)
    return "The token is erased."


def status(place: Place) -> dict[str, Any]:
    """What is installed, as JSON; nothing where the journal is damaged beyond repair."""
    journal = readable_journal(place)
    keys = ("version", "identity", "board", "os", "base", "python", "architecture", "fleet")
    slots = {name: place.manifest(name) for name in ("a", "b")}
    found = {name: None if each is None else {key: getattr(each, key) for key in keys} for name, each in slots.items()}
    return {"installed": journal is not None, "slots": found, "journal": journal and asdict(journal)}


def uninstall(place: Place, keep_data: bool) -> str:
    """Remove everything; may be cut off and called again. The journal goes early: without it nothing is installed."""
    with locked(place, "build") if place.home.exists() else contextlib.nullcontext():
        units = [*unit_files(place, "a").items(), *unit_files(place, "b").items()]
        if units:
            place.systemctl("stop", *sorted({path for path, _ in units if "/" not in path}))
        if (place.home / "slots.json").exists():
            remove(place.home / "slots.json")
            sync_folder(place.home)
        sweep(place)
        for path, file in units:
            remove_unit(place, path, file)
        place.systemctl("daemon-reload")
        for stamp in (place.root / "var/lib/systemd/timers").glob("stamp-auricle-*"):
            remove(stamp)
        for own in () if keep_data else (*place.settings, *place.state, *place.runtime):
            remove(own)
        with contextlib.suppress(OSError):
            place.etc.rmdir()  # when it is empty: a coordinator on the same machine has its passphrase there
        for each in sorted(place.home.glob("*"), key=lambda each: each.name == "slots.py"):
            remove(each)
        remove(place.home)
    return "Auricle is removed; its settings and data are kept." if keep_data else "Auricle is removed."


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", type=Path, default=Path("/"), help="work below this folder, without systemd")
    common.add_argument("--json", action="store_true", help="print JSON")
    parser = argparse.ArgumentParser(prog="slots.py", description="The two slots of an Auricle device.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[common], help=text, description=text)

    command = add("install", "install a bundle; the same one again changes nothing")
    command.add_argument("source", type=Path, help="a bundle, or the folder of one")
    command.add_argument("--identity", type=sha256, help="refuse any bundle but this")
    command = add("stage", "put a bundle into the inactive slot")
    command.add_argument("source", type=Path, help="a bundle, or the folder of one")
    command.add_argument("--identity", type=sha256, required=True, help="refuse any bundle but this")
    command = add("try", "switch to the staged version, on trial")
    command.add_argument("--rollout", type=sentence, default="", help="what to call it in the journal")
    command.add_argument("--deadline", type=int, default=DEADLINE, help="seconds to become healthy [%(default)s]")
    add("starting", "count a start of a trial; for the agent's unit")
    add("confirm", "say that the version on trial works")
    command = add("revert", "go back to the version before")
    command.add_argument("--reason", type=sentence, default="it was asked for", help="for the journal")
    add("check", "confirm or revert a trial, and repair what a power cut left")
    add("claimed", "erase the claim token and start the agent; for the claim's unit")
    add("status", "what is installed")
    command = add("uninstall", "remove everything")
    command.add_argument("--keep-data", action="store_true", help="leave /etc/auricle and /var/lib/auricle")
    return parser.parse_args(arguments)


def sha256(text: str) -> str:
    """A bundle's identity."""
    if SHA256.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("an identity is 64 hexadecimal digits")
    return text


def sentence(text: str) -> str:
    """A reason, or the name of a rollout: one line of at most 200 characters."""
    return " ".join(text.split())[:200]


def run(place: Place, given: argparse.Namespace) -> str:
    """Do what a command line asks for; a sentence about it."""
    if given.command == "install":
        return install(place, given.source, given.identity)
    if given.command == "stage":
        return stage(place, given.source, given.identity)
    if given.command == "try":
        return try_staged(place, given.rollout, given.deadline)
    if given.command == "revert":
        return revert(place, given.reason)
    if given.command == "uninstall":
        return uninstall(place, given.keep_data)
    if given.command == "status":
        journal = read_journal(place)
        return "Nothing is installed." if journal is None else f"Slot {journal.active} is active."
    return {"starting": starting, "confirm": confirm, "check": check, "claimed": claimed}[given.command](place)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0, 1 when the system failed, 2 when it was refused, 130 when it was interrupted."""
    given = parse(arguments)
    os.umask(0o022)
    place = Place(given.root.resolve())
    try:
        said, code = run(place, given), 0
    except Refused as error:
        said, code = str(error), 2
    except OSError as error:
        full, forbidden = error.errno in (errno.ENOSPC, errno.EDQUOT), isinstance(error, PermissionError)
        why = "The disk is full" if full else "The system did not let it be done"
        why = "Only root may do this: put sudo before the command" if forbidden and os.geteuid() != 0 else why
        said, code = f"{why} ({error}).", 1
    except KeyboardInterrupt:
        said, code = "Interrupted: what is installed goes on running; the same command ends what was begun.", 130
    if given.json:
        print(json.dumps({"said": said, "code": code, **status(place)}))
    else:
        print(said, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
