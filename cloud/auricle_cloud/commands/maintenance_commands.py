"""`auricle cloud doctor`, `preflight`, `backup` and `restore`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from auricle.errors import SettingsError
from auricle.mqtt_link.private_link import broker_of
from auricle.process.checkup import Verdict, broker_reached, disk, finding
from auricle.wire.frames import LARGEST_FRAME
from auricle_cloud.commands.checkup import (
    LITTLE_DISK,
    broker_authority,
    clock,
    database,
    devices_to_compute_on,
    messages_pass,
    tell,
    updates,
    versions,
)
from auricle_cloud.commands.operator_command import Yes, confirm, operator_command
from auricle_cloud.commands.preflight_commands import preflight
from auricle_cloud.commands.target import Place, require_name
from auricle_cloud.identity.broker_folder import SETTINGS
from auricle_cloud.operations.types import Done
from auricle_cloud.settings import NAME
from auricle_cloud.storage.backup import Manifest, write_backup
from auricle_cloud.storage.blobs import Blobs, open_blobs
from auricle_cloud.storage.nightly_backup import BACKUPS, how_old
from auricle_cloud.storage.release_folder import FOLDER, exists
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.state_folders import FOLDERS, held
from auricle_cloud.storage.store import FILE


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for name, function in (
        ("doctor", doctor),
        ("preflight", preflight),
        ("backup", backup),
        ("restore", restore),
    ):
        operator_command(app, name)(function)


def doctor(
    place: Place,
    broker: Annotated[str | None, typer.Option(help="mqtt://host:port to look for.")] = None,
    broker_folder: Annotated[
        Path | None, typer.Option(help="Folder of auricle cloud enrol broker [broker in or beside the state folder].")
    ] = None,
    fleet: Annotated[str | None, typer.Option(help="With --broker: try a large message as its coordinator.")] = None,
    as_json: bool = False,
) -> int:
    """Look at this machine and at what a coordinator relies on: exit code 1 where something is bad."""
    if fleet is not None:
        require_name(fleet)
        if broker is None:
            raise SettingsError(
                "--fleet is for a message to a broker: add --broker, such as --broker mqtt://127.0.0.1."
            )
    found = [finding("versions", versions), *devices_to_compute_on()]
    if place.server is not None:
        found.append(finding("server", lambda: _server(place)))
        found.append(finding("coordinator", lambda: _coordinator(place)))
        found.append(finding("devices", lambda: _devices(place)))
        found.append(finding("clock", lambda: clock(None)))
        return tell(found, as_json)
    found.append(finding("disk", lambda: disk(place.state or Path(), LITTLE_DISK)))
    where = place.database or (None if place.state is None else place.state / FILE)
    has_begun = where is not None and (place.database is not None or Path(where).is_file())
    if where is not None:
        found.append(finding("database", lambda: database(where)))
        if has_begun:
            found.append(finding("coordinator", lambda: _coordinator(place)))
            found.append(finding("devices", lambda: _devices(place)))
    found.append(finding("clock", lambda: clock(where)))
    if place.state is not None and exists(releases := place.state / FOLDER):
        found.append(finding("updates", lambda: updates(releases)))
    if place.state is not None and (kept := place.state / BACKUPS).is_dir():
        found.append(finding("backup", lambda: how_old(kept, time.time())))
    brokers = [] if place.state is None else [place.state / "broker", place.state.absolute().parent / "broker"]
    usual = next((folder for folder in brokers if os.access(folder / SETTINGS, os.R_OK)), None)
    if (looked := broker_folder or usual) is not None:
        found.append(finding("authority", lambda: broker_authority(looked.absolute(), place.state)))
    if broker is not None:
        found.append(finding("broker", lambda: broker_reached(broker_of(broker, NAME, place.state))))
        if fleet is not None:
            found.append(finding("messages", lambda: _messages(place, broker, fleet, has_begun=has_begun)))
    return tell(found, as_json)


class Saved(Done, frozen=True, kw_only=True):
    """A backup was written or restored."""

    holds: list[str]
    lacks: list[str]


def backup(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .tar.zst to write.")],
    authority: Annotated[
        bool, typer.Option("--with-authority/--without-authority", help="Include the certificate authority.")
    ] = True,
    yes: Yes = False,
) -> Saved:
    """Write the whole state to one file, private keys included, while the coordinator runs or not."""
    if file.exists():
        confirm(f"Overwrite {file}?", yes=yes)
    with place.local_store() as store:
        manifest = write_backup(store.database, place.local_blobs(), place.state, file, authority=authority)
    size = file.stat().st_size / (1 << 20)
    return _report_backup(
        manifest, f"{file}: {len(manifest.files)} files, {size:.1f} MiB.", "It holds private keys: keep it safe."
    )


def restore(
    place: Place, file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")], yes: Yes = False
) -> Saved:
    """Put a backup in place of the state in a folder; the coordinator has to be stopped."""
    if place.state is None:
        raise SettingsError("Name the folder to restore to: --state FOLDER.")
    old = [path for path in (place.state / name for name in (FILE, *FOLDERS)) if path.exists()]
    if old or place.database is not None:
        confirm(f"Replace the state in {(place.database and 'the database and ') or ''}{place.state}?", yes=yes)
    blobs = Blobs(place.state / "blobs") if place.blobs is None else open_blobs(place.blobs)
    manifest = restore_backup(file, place.state, blobs, place.database)
    return _report_backup(
        manifest, f"Restored {len(manifest.files)} files.", "Start the coordinator, and it goes on from there."
    )


def _report_backup(manifest: Manifest, first: str, last: str) -> Saved:
    holds, lacks = held({entry.path for entry in manifest.files})
    about = [f"The backup holds {', '.join(holds)}.", *([f"It lacks {', '.join(lacks)}."] if lacks else [])]
    return Saved(done=" ".join([first, *about, last]), holds=holds, lacks=lacks)


def _coordinator(place: Place) -> tuple[Verdict, str]:
    """Whether a coordinator works on the state, and is connected to its broker."""
    with place.operations() as do:
        trouble = do.overview().trouble
    return ("bad", " ".join(trouble)) if trouble else ("good", "A coordinator works on the state.")


def _devices(place: Place) -> tuple[Verdict, str]:
    """Whether every device that may take part counts for a quorum."""
    with place.operations() as do:
        broken = do.overview().not_in_quorum
    said = " ".join(f"{one.device} is not in the quorum: {one.reason}." for one in broken)
    return ("doubtful", said) if broken else ("good", "Every device that may take part counts for the quorum.")


def _messages(place: Place, broker: str, fleet: str, *, has_begun: bool) -> tuple[Verdict, str]:
    """Whether the broker takes the largest message; not beside a coordinator, whose connection it would end."""
    if has_begun:
        with place.operations() as do:
            if not do.overview().trouble:
                return "good", "No large message was tried: the coordinator is connected, and its log says so of one."
    return messages_pass(broker_of(broker, NAME, place.state), NAME, fleet, LARGEST_FRAME)


def _server(place: Place) -> str:
    with place.operations() as do:
        seen = do.overview()
    return f"{place.server} answers: task {seen.task}, {seen.online} of {seen.devices} devices online."
