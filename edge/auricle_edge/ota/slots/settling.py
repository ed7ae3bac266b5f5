"""Making links, units, settings and the guard itself agree with the journal."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path

from auricle_edge.ota.slots.bundle import AGENT, WORD
from auricle_edge.ota.slots.files import make_folder, make_link, read_small, refresh, sync_folder, write_file
from auricle_edge.ota.slots.journal import Journal, Place, other

TOKENS = ("boot/firmware/auricle.token", "boot/auricle.token")
CLAIM, TIMER = "auricle-claim.service", "auricle-guard.timer"
LARGEST_TOKEN = 4096


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
