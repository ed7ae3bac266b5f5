"""What this device runs, as the installation's own files say it: the slot's bundle and the journal of the slots."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import StorageError
from auricle.files import open_kept
from auricle.wire.kinds import UNDECODABLE, FleetName, Sha256, Short, Token
from auricle_edge.ota.records import own_record

CONFIG = Path("/etc/auricle/edge.toml")
"""Settings file of an installed device."""

VARIABLE, PLACE = "AURICLE_INSTALLATION", Path("/opt/auricle")
JOURNAL, BUNDLE, ANSWER = "slots.json", "bundle.json", "update.json"
LARGEST_BUNDLE_FILE = 4 << 20
"""Bytes of a `bundle.json`."""


class BundleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle says of itself."""

    version: Token
    board: Token
    os: Token
    fleet: FleetName


class SlotTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle on trial."""

    identity: Sha256
    rollout: Token = ""


class SlotOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest trial came to."""

    identity: Sha256
    version: Token = ""
    outcome: Literal["confirmed", "reverted", "refused"]
    rollout: Token = ""
    reason: str = ""


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """What matters here of the slots' journal."""

    active: Literal["a", "b"] | None = None
    confirmed: bool = True
    trial: SlotTrial | None = None
    last: SlotOutcome | None = None


@dataclass(frozen=True)
class Installed:
    """A bundle in its slot."""

    slot: Path
    identity: str
    facts: BundleFacts


class Installation:
    """The folder of the slots, read and never written here.

    Parameters
    ----------
    place
        Its path; without, the environment's AURICLE_INSTALLATION or /opt/auricle.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.place = place or Path(os.environ.get(VARIABLE) or PLACE)

    @property
    def journal(self) -> Journal:
        """The journal of the slots; an empty one at first."""
        return own_record(self.place / JOURNAL, Journal) or Journal()

    def running(self) -> Installed | None:
        """The bundle that this process runs from, or else the active one; None: not installed from a bundle."""
        own, active = Path(sys.prefix), self.journal.active
        if own.parent == self.place and (own / BUNDLE).is_file():
            return read_slot(own)
        return None if active is None else read_slot(self.place / active)


def read_slot(slot: Path) -> Installed | None:
    """The bundle in a slot; None without one.

    Raises
    ------
    StorageError
        What lies there is no bundle's file.
    """
    path = slot / BUNDLE
    try:
        with open_kept(path) as file:
            data = file.read(LARGEST_BUNDLE_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}).") from error
    return Installed(slot, hashlib.sha256(data).hexdigest(), bundle_facts(data, str(path)))


def bundle_facts(data: bytes, where: str) -> BundleFacts:
    """What a `bundle.json` says; StorageError: it is not one."""
    try:
        return msgspec.json.decode(data, type=BundleFacts)
    except UNDECODABLE as error:
        raise StorageError(f"{where} is not a description of a bundle ({error}).") from error


def outcome_reason(outcome: SlotOutcome) -> Short:
    """Why a trial ended as it did."""
    return outcome.reason or "The new version did not get healthy in time."
