"""Filling a slot from a bundle that was verified.

Wheels are unpacked here and not by pip: a slot then holds the paths that are right on the device even when it is made
in a folder (`--root`), no code of a bundle runs as root before its slot is active, and it takes a third of the memory.
"""

from __future__ import annotations

import compileall
import configparser
import contextlib
import os
import platform
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

from auricle_edge.ota.slots.bundle import WORD, Bundle, Manifest, Refused, sentence
from auricle_edge.ota.slots.files import make_folder, read_small, remove, sync_disk, sync_folder, write_file
from auricle_edge.ota.slots.journal import HOME, Place, lock, readable_journal, write_journal

ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<function>(?P<first>\w+)[\w.]*)\s*(\[.*\])?")


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


def fill_inactive(place: Place, slot: str, bundle: Bundle) -> None:
    """Fill a slot that the journal does not lead to; the version that was in it cannot be gone back to any more."""
    with lock(place, "journal"):
        journal = readable_journal(place)
        if journal is not None and journal.previous == slot:
            write_journal(place, replace(journal, previous=None))
    fill(place, slot, bundle)


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
        with bundle.open(path) as file, open_wheel(file) as archive:
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
def open_wheel(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
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
    with open_wheel(wheel) as archive:
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
        raise Refused(f"A wheel of this bundle holds {name!r}, which is outside of it: this is not a bundle.")
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
