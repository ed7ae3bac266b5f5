"""The guard's commands, and its command line."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from auricle_edge.ota.slots.bundle import AGENT, SHA256, Bundle, Refused, open_bundle, refuse_other_device, sentence
from auricle_edge.ota.slots.files import make_folder, remove, sync_folder
from auricle_edge.ota.slots.filling import fill_inactive, refuse_other_machine
from auricle_edge.ota.slots.journal import (
    Journal,
    Place,
    lock,
    other,
    read_installed,
    read_journal,
    readable_journal,
    write_journal,
)
from auricle_edge.ota.slots.settling import TOKENS, erase, remove_unit, settle, sweep, unit_files
from auricle_edge.ota.slots.trial import check, confirm, revert, starting, try_staged

DEADLINE_SECONDS = 300


def install(place: Place, source: Path, identity: str | None) -> str:
    """Install a bundle for the first time, go on with that, or replace what is installed by hand, without a trial."""
    with open_bundle(source, identity) as bundle:
        refuse_other_machine(place, bundle.manifest)
        bundle.verify()
        make_folder(place.home)
        return install_here(place, bundle)


def install_here(place: Place, bundle: Bundle) -> str:
    """The part of an installation that changes something."""
    with lock(place, "build"):
        manifest, journal = bundle.manifest, readable_journal(place)
        active = None if journal is None else place.manifest(journal.active)
        if journal is not None and journal.trial is not None:
            raise Refused("A version is on trial: wait until it is confirmed or reverted.")
        if journal is not None and active is not None and active.identity == manifest.identity:
            with lock(place, "journal"):
                settle(place, journal)
            return f"Version {manifest.version} ({manifest.identity[:12]}) is installed already; nothing was changed."
        if active is not None:
            refuse_other_device(manifest, active)
        slot = "a" if journal is None else other(journal.active)
        fill_inactive(place, slot, bundle)
        with lock(place, "journal"):
            previous = journal.active if journal is not None and active is not None else None
            settle(place, write_journal(place, Journal(active=slot, previous=previous)), start=True)
        return f"Version {manifest.version} ({manifest.identity[:12]}) is installed."


def stage(place: Place, source: Path, identity: str) -> str:
    """Put a bundle into the inactive slot, once everything in it was compared; what runs goes on running."""
    with open_bundle(source, identity) as bundle, lock(place, "build"):
        journal, active = read_installed(place)
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


def finish_claim(place: Place) -> str:
    """After a claim: erase the token, and start the agent with its certificate."""
    for path in (place.etc / "claim.token", *(place.root / name for name in TOKENS)):
        erase(path)
    place.systemctl("reset-failed", AGENT)
    place.systemctl("--no-block", "restart", AGENT)
    return "The token is erased."


def status(place: Place) -> dict[str, object]:
    """What is installed, as JSON; nothing where the journal is damaged beyond repair."""
    journal = readable_journal(place)
    keys = ("version", "identity", "board", "os", "base", "python", "architecture", "fleet")
    slots = {name: place.manifest(name) for name in ("a", "b")}
    found = {name: None if each is None else {key: getattr(each, key) for key in keys} for name, each in slots.items()}
    return {"installed": journal is not None, "slots": found, "journal": journal and asdict(journal)}


def describe_status(place: Place) -> str:
    """What is installed, for a person: each slot's version, and how the newest trial ended."""
    journal = read_journal(place)
    if journal is None:
        return "Nothing is installed."
    lines = []
    for slot in (journal.active, other(journal.active)):
        found = place.manifest(slot)
        version = "empty" if found is None else f"version {found.version} ({found.identity[:12]})"
        trial = "" if journal.trial is None else ", on trial"
        lines.append(f"Slot {slot}: {version}{f', active{trial}' if slot == journal.active else ''}.")
    if journal.last is not None:
        why = f": {journal.last.reason.removesuffix('.')}" if journal.last.reason else ""
        lines.append(f"The newest trial, of version {journal.last.version}, was {journal.last.outcome}{why}.")
    return "\n".join(lines)


def uninstall(place: Place, keep_data: bool) -> str:
    """Remove everything; may be cut off and called again. The journal goes early: without it nothing is installed."""
    with lock(place, "build") if place.home.exists() else contextlib.nullcontext():
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
    command.add_argument(
        "--deadline", type=int, default=DEADLINE_SECONDS, help="seconds to become healthy [%(default)s]"
    )
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
        return describe_status(place)
    return {"starting": starting, "confirm": confirm, "check": check, "claimed": finish_claim}[given.command](place)


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
