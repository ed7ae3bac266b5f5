"""One device of an image run: what derives from its seed, the key of its network, its token, the bundle on its card."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import DataError
from auricle.process.times import how_many
from auricle.wire.claims import RESERVED, read_token
from auricle.wire.kinds import DeviceId, version_key
from auricle_export.flash.board import Board, System
from auricle_export.flash.bundle.verify import verify_bundle
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.image.base import sha256
from auricle_export.flash.image.partitions import ImageError


def wifi_key(passphrase: str, ssid: str) -> str:
    """The pre-shared key PBKDF2-HMAC-SHA1(passphrase, SSID, 4096 rounds, 256 bits).

    Parameters
    ----------
    passphrase
        8 to 63 signs of ASCII; or 64 hexadecimal digits, which are the key already.
    ssid
        Name of the network, at most 32 bytes in UTF-8.

    Returns
    -------
    str
        64 hexadecimal digits. A network that takes WPA3 only needs the passphrase itself and does not know them.

    Sources
    -------
    IEEE 802.11-2020, annex J.4.1.
    """
    if re.fullmatch(r"[0-9a-fA-F]{64}", passphrase):
        return passphrase.lower()
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode("ascii"), ssid.encode(), 4096, 32).hex()


@dataclass(frozen=True)
class CardDevice:
    """A device, as its card makes it.

    Parameters
    ----------
    name
        The device's id, which is also its host name.
    token
        The claim token that it exchanges for a certificate.
    fleet
        What all devices have in common.
    boot
        Where its system mounts the boot partition.
    bundle
        Whether a bundle lies on the card.
    seed
        What everything that must differ, but is not secret, is derived from.
    """

    name: str
    token: str
    fleet: Fleet
    boot: str
    bundle: bool
    seed: int

    @property
    def first_boot(self) -> tuple[str, ...]:
        """The command that installs the bundle at this boot or the next; the words of it."""
        return ("sh", f"{self.boot}/auricle/first-boot.sh", "arm", "now")

    def instance(self, *content: str) -> str:
        """A name for this card's content, by which cloud-init knows a first boot: other content, another name."""
        told = json.dumps([self.seed, self.name, *content]).encode()
        return f"auricle-{self.name}-{hashlib.sha256(told).hexdigest()[:12]}"

    def unique(self, what: str) -> str:
        """A UUID for something of this device."""
        return str(
            uuid.UUID(bytes=hashlib.sha256(json.dumps([self.seed, self.name, what]).encode()).digest()[:16], version=4)
        )


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,180}\.tar")


@dataclass(frozen=True)
class Payload:
    """A bundle that belongs on the cards."""

    path: Path
    size: int
    sha256: str
    """Of the tar."""
    identity: str
    """SHA-256 of its `bundle.json`."""


def choose_payload(paths: Sequence[Path], board: Board, system: System, fleet: Fleet) -> Payload:
    """Look at one bundle, or take the newest of several for the board, the system and the fleet.

    Raises
    ------
    BundleError, ImageError
        As `read_payload`; of several, none is for these images.
    """
    if len(paths) == 1:
        return read_payload(paths[0], board, system, fleet)
    fitting = []
    for path in paths:
        manifest = verify_bundle(path).manifest
        if (manifest.board, manifest.os, manifest.fleet) == (board.name, system.id, fleet.name):
            fitting.append((version_key(manifest.version), path.stat().st_mtime, path))
    if not fitting:
        raise ImageError(
            f"None of {len(paths)} bundles is for {board.name} with {system.id} in the fleet {fleet.name}: make one "
            'with "auricle flash bundle".'
        )
    return read_payload(max(fitting)[2], board, system, fleet)


def read_payload(path: Path, board: Board, system: System, fleet: Fleet) -> Payload:
    """Look at a bundle.

    Raises
    ------
    BundleError
        It is not a bundle, or not whole.
    ImageError
        It is for another board, system or fleet, or is not a tar.
    """
    found = verify_bundle(path)
    if not path.is_file() or not NAME.fullmatch(path.name):
        raise ImageError(f'{path} is not the tar of a bundle: its name has letters, digits, dots, dashes and ".tar".')
    wanted = {"board": board.name, "os": system.id, "fleet": fleet.name}
    for what, value in wanted.items():
        said = getattr(found.manifest, what)
        if said != value:
            raise ImageError(f'The {what} of {path.name} is "{said}", and these images are for "{value}".')
    return Payload(path, path.stat().st_size, sha256(path), found.identity)


HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""What a host may be called: a letter or digit at both ends, at most 63. Source: RFC 1123, section 2.1."""


def read_tokens(folder: Path, count: int | None = None) -> dict[str, str]:
    """Read the tokens of devices.

    Parameters
    ----------
    count
        How many; None: all.

    Returns
    -------
    dict
        Token by device, in alphabetical order.

    Raises
    ------
    DataError
        There are not so many, one cannot be read or is not a token, two are the same, or a name cannot be a host's.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is not a folder: name the one that auricle cloud enrol token --out wrote to.")
    files = sorted(folder.glob("*.token"))
    wanted = count or 1
    if len(files) < wanted:
        there = how_many(len(files), "token")
        raise DataError(
            f"{folder} has {there} and {wanted} {'is' if wanted == 1 else 'are'} needed: "
            f"auricle cloud enrol token --count {wanted - len(files)} --out {folder}"
        )
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for path in files[:count]:
        device, token = path.name.removesuffix(".token"), read_token(path)
        _require_host(device)
        if token in owners:
            raise DataError(f"{device} and {owners[token]} have the same token in {folder}: make one for each device.")
        found[device], owners[token] = token, device
    return found


def _require_host(device: str) -> None:
    try:
        msgspec.convert(device, DeviceId)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{device}.token: a device's name has 4 to 64 lower-case letters, digits and dashes."
        ) from error
    if not HOST.fullmatch(device) or device in RESERVED:
        raise DataError(
            f"{device} cannot be the name of a device with a card: it is a host's name too, with a letter or digit at "
            f"both ends and at most 63 of them, and not {', '.join(RESERVED)}."
        )
