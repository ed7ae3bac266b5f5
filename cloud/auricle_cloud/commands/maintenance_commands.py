"""`auricle cloud doctor`, `preflight`, `backup`, `restore`, `overview` and `journal`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.signature import trusted_key
from auricle.process.checkup import Finding, broker_reached, disk, finding
from auricle.process.table import Column, print_grid
from auricle.process.until_signal import broker_of
from auricle_cloud.aggregation.presets import get_preset
from auricle_cloud.aggregation.rules import get_rule
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.commands.answers import plain, show
from auricle_cloud.commands.checkup import (
    LITTLE_DISK,
    Checkup,
    broker_admits,
    clock,
    database,
    devices_to_compute_on,
    updates,
    versions,
)
from auricle_cloud.commands.coordinator_settings import read_coordinator
from auricle_cloud.commands.embedded_broker import EMBEDDED
from auricle_cloud.commands.operator_command import Yes, complete_device, confirm, operator_command
from auricle_cloud.commands.target import Place
from auricle_cloud.operations.answer import Done
from auricle_cloud.operations.device_answers import EventPage
from auricle_cloud.operations.fleet_answers import Overview
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.backup import Manifest, write_backup
from auricle_cloud.storage.blobs import Blobs, open_blobs
from auricle_cloud.storage.release_folder import FOLDER, exists
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.state_folders import FOLDERS, held
from auricle_cloud.storage.store import FILE

COORDINATOR = "coordinator"
"""Name under which the coordinator connects."""
FAILED = 1
"""Exit code of a checkup that found something bad."""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for name, function in (
        ("overview", overview),
        ("journal", journal),
        ("doctor", doctor),
        ("preflight", preflight),
        ("backup", backup),
        ("restore", restore),
    ):
        operator_command(app, name)(function)


def overview(do: Operations) -> Overview:
    """Show the fleet at a glance."""
    return do.overview()


def journal(
    do: Operations,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    before: Annotated[int | None, typer.Option(help="Go on before this event.")] = None,
    device: Annotated[str | None, typer.Option(help="Only of this device.", autocompletion=complete_device)] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
) -> EventPage:
    """List what happened, the newest first."""
    return do.list_events(limit, before, device, kind)


def doctor(
    place: Place,
    broker: Annotated[str | None, typer.Option(help="mqtt://host:port to look for.")] = None,
    as_json: bool = False,
) -> int:
    """Look at this machine and at what a coordinator relies on: exit code 1 where something is bad."""
    found = [finding("versions", versions), *devices_to_compute_on()]
    if place.server is not None:
        found.append(finding("server", lambda: _server(place)))
        found.append(finding("clock", lambda: clock(None)))
        return _tell(found, as_json)
    found.append(finding("disk", lambda: disk(place.state or Path(), LITTLE_DISK)))
    where = place.database or (None if place.state is None else place.state / FILE)
    if where is not None:
        found.append(finding("database", lambda: database(where)))
    found.append(finding("clock", lambda: clock(where)))
    if place.state is not None and exists(releases := place.state / FOLDER):
        found.append(finding("updates", lambda: updates(releases)))
    if broker is not None:
        found.append(finding("broker", lambda: broker_reached(broker_of(broker, COORDINATOR, place.state))))
    return _tell(found, as_json)


def preflight(
    place: Place,
    config: Annotated[Path | None, typer.Option(help="As of serve: its coordinator.toml.")] = None,
    broker: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    pack: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    pack_key: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    rule: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    preset: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    rule_option: Annotated[list[str] | None, typer.Option(help="As of serve.")] = None,
    listen: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="As of serve.")] = None,
    key: Annotated[Path | None, typer.Option(help="As of serve.")] = None,
    validation: Annotated[Path | None, typer.Option(help="As of serve.")] = None,
    compute: Annotated[str | None, typer.Option(help="As of serve.")] = None,
    as_json: bool = False,
) -> int:
    """Try what serve will need, before it: exit code 1 where it would fail.

    Do not run it beside a coordinator that is connected to the same broker: it would be thrown out for a moment.
    """
    from auricle_cloud.commands.serve_commands import rule_options
    from auricle_cloud.service import listen_address

    given: dict[str, dict[str, object]] = {
        "": {
            "broker": broker,
            "state": _text(place.state),
            "pack": pack,
            "pack_key": pack_key,
            "validation": _text(validation),
            "compute": compute,
        },
        "rounds": {"rule": rule, "preset": preset, "rule_options": rule_options(rule_option or []) or None},
        "api": {"listen": listen, "certificate": _text(certificate), "key": _text(key)},
        "storage": {"database": place.database},
    }
    told = read_coordinator(config, given)
    if told.state is None:
        raise SettingsError("Name the folder that serve will use: --state FOLDER, or state in --config.")
    if told.broker is None:
        raise SettingsError("Name the broker that serve will use: --broker URL, or broker in --config.")
    folder, url = Path(told.state), told.broker

    def check_pack() -> str:
        loaded = load_pack(told.pack, trusted_key(told.pack_key))
        require_sound(loaded)
        return f"The pack {loaded.manifest.name} is sound: {loaded.identity[:12]}, {len(loaded.labels)} words."

    def check_rule() -> str:
        chosen, said = get_preset(told.rounds.preset), told.rounds
        if said.rule is not None or said.rule_options:
            known = get_rule(said.rule or chosen.rule, **said.rule_options)
        else:
            known = get_rule(chosen.rule, **chosen.rule_options)
        return f"The rule {known.name} is there, with the preset {said.preset}."

    def check_api() -> str:
        address, said = listen_address(told.api.listen), told.api
        if address is None:
            return "There will be no API and no page."
        context = ApiSettings(*address, _path(said.certificate), _path(said.key)).tls()
        with socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET):
            return f"The API may listen on {said.listen}, {'without' if context is None else 'with'} TLS."

    def check_validation() -> str:
        from auricle_cloud.evaluation.evaluator import choose_evaluator
        from auricle_cloud.evaluation.validation_set import load_validation

        loaded = load_pack(told.pack, trusted_key(told.pack_key))
        clips = load_validation(Path(told.validation or ""), loaded)
        return f"{clips.sentence or f'{len(clips)} clips.'} {choose_evaluator(loaded, clips, told.compute)[1]}"

    def check_broker() -> str:
        return broker_admits(broker_of(url, COORDINATOR, folder), COORDINATOR)

    checks = [
        finding("disk", lambda: disk(folder, LITTLE_DISK)),
        finding("pack", check_pack),
        finding("rule", check_rule),
        finding("api", check_api),
        *([] if url == EMBEDDED else [finding("broker", check_broker)]),
    ]
    where = told.storage.database or folder / FILE
    if told.storage.database is not None or (folder / FILE).is_file():
        checks.append(finding("database", lambda: database(where)))
    if told.validation is not None:
        checks.append(finding("validation", check_validation))
    return _tell(checks, as_json)


class Saved(Done, frozen=True, kw_only=True):
    """A backup was written or restored."""

    holds: list[str]
    lacks: list[str]


def backup(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .tar.zst to write.")],
    authority: Annotated[
        bool, typer.Option("--with-authority/--without-authority", help="Also the certificate authority.")
    ] = True,
    yes: Yes = False,
) -> Saved:
    """Write the whole state to one file, private keys included, while the coordinator runs or not."""
    if file.exists():
        confirm(f"Overwrite {file}?", yes=yes)
    with place.local_store() as store:
        manifest = write_backup(store.database, place.local_blobs(), place.state, file, authority=authority)
    size = file.stat().st_size / (1 << 20)
    return _saved(
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
    return _saved(
        manifest, f"Restored {len(manifest.files)} files.", "Start the coordinator, and it goes on from there."
    )


def _saved(manifest: Manifest, first: str, last: str) -> Saved:
    holds, lacks = held({entry.path for entry in manifest.files})
    about = [f"The backup holds {', '.join(holds)}.", *([f"It lacks {', '.join(lacks)}."] if lacks else [])]
    return Saved(done=" ".join([first, *about, last]), holds=holds, lacks=lacks)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _server(place: Place) -> str:
    with place.operations() as do:
        seen = do.overview()
    return f"{place.server} answers: task {seen.task}, {seen.online} of {seen.devices} devices online."


def _tell(found: list[Finding], as_json: bool) -> int:
    checkup = Checkup(findings=found)
    if as_json:
        show(checkup, as_json=True)
    else:
        columns = (Column("", 0), Column("", 0), Column("", 0, is_sentence=True))
        print_grid(columns, [(each.verdict, each.check, plain(each.sentence)) for each in found])
    return FAILED if checkup.failed else 0
