"""From a token to a certificate and on to the next one, in steps that may each be cut off by the power.

The key is made first and kept: a claim that is made again is that of the same key, for which the coordinator gives out
the same certificate. The broker's password, then the certificate are written when they have been checked, then the
record, and the token goes last.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from auricle.errors import REFUSED_CODE, DataError, SettingsError, StorageError, because
from auricle.files import read_kept, sync_folder, write_durably
from auricle.mqtt_link.private_link import FOLDER, IdentityFiles
from auricle.process.times import Time
from auricle.wire.broker_passwords import read_login, write_login
from auricle.wire.claims import LONGEST_TOKEN_FILE, UNREADABLE, Certified, Claim, Renewal, read_token
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle.wire.kinds import UNDECODABLE, DeviceId
from auricle_edge.fleet.agent_context import FLEET_FILE, FleetRecord
from auricle_edge.fleet.identity_claim.certificate import (
    certificate_request,
    check_certificate,
    end_of,
    existing_certificate,
    name_of,
)
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer

RECORD = "claim.json"
TOKEN = "token.sha256"
"""Of the token that was used: another one is for another device, and not erased."""


class AnotherTokenError(ClaimError):
    """A token that this device did not use, where it has a certificate already."""

    exit_code = REFUSED_CODE


class ClaimRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a renewal needs to know."""

    device: DeviceId
    server: str
    pin: str
    renew_after: float
    """Seconds since 1970; 0: ask at once."""
    home: bool = False
    """Whether it joined by a code: its hub is looked for where it does not answer any more."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim or renewal came to."""

    device: str
    done: str
    """`claimed`, `there already`, `renewed`, `not due` or `moved`."""
    expires: Time
    token_erased: bool = True


def claim(state: Path, server: str, ca_pin: str, token_file: Path, now: float, *, home: bool = False) -> Outcome:
    """Make the device's key, exchange the token for a certificate, erase the token.

    Parameters
    ----------
    state
        The device's state folder.
    server, ca_pin
        See `ClaimServer`.
    token_file
        Where the token stands.
    now
        Seconds since 1970: a certificate that has expired does not count.
    home
        See `ClaimRecord`.

    Raises
    ------
    ClaimError
        The coordinator refuses, or is not the one with this pin.
    TryLaterError
        It cannot be reached now.
    AnotherTokenError
        The device has its certificate by another token; this one stays as it is.
    DataError
        There is no token in the file.
    StorageError
        The folder cannot be written.
    """
    files, coordinator = IdentityFiles(state / FOLDER), ClaimServer(server, ca_pin)
    _make_private(files.folder)
    key = _key(files.key)
    held = existing_certificate(files, key, ca_pin)
    if held is not None and end_of(held) < now:
        held = None
    done = "there already"
    renew_after = 0.0
    if held is None:
        token = read_token(token_file)
        root = coordinator.root()
        write_durably(files.authority, root.public_bytes(Encoding.PEM))
        public = Identity.load_or_create(state / DEVICE_KEY).public.hex()
        given = coordinator.certify(
            "/v1/enrol", Claim(token=token, request=certificate_request(key), public_key=public), root
        )
        held = check_certificate(given, key, root)
        _keep_password(files, given)
        _keep_fleet(files, given)
        write_durably(files.folder / TOKEN, _hash(token).encode())
        write_durably(files.certificate, given.certificate.encode())
        done, renew_after = "claimed", given.renew_after
    elif _is_another(files.folder / TOKEN, token_file):
        raise AnotherTokenError(
            f"{state} is that of {name_of(held)}, by another token, and {token_file} was not used: it needs a state "
            f"folder of its own (--state). To give this board another name, remove {files.folder} first."
        )
    if done == "claimed" or not (files.folder / RECORD).exists():
        made = ClaimRecord(device=name_of(held), server=server, pin=ca_pin, renew_after=renew_after, home=home)
        _record(files, made)
    return Outcome(device=name_of(held), done=done, expires=end_of(held), token_erased=erase(token_file))


def read_claim(state: Path) -> ClaimRecord | None:
    """The claim that a state folder remembers."""
    try:
        return _read_record(state / FOLDER / RECORD)
    except ClaimError:
        return None


def renew(state: Path, now: float) -> Outcome:
    """Renew the certificate when two thirds of its life are over, and fetch a password that is missing.

    Errors as in `claim`.

    Parameters
    ----------
    state
        The device's state folder.
    now
        Seconds since 1970.
    """
    files = IdentityFiles(state / FOLDER)
    record = _read_record(files.folder / RECORD)
    if now < record.renew_after and _has_password(files):
        held = _certificate(files, record, _key(files.key))
        return Outcome(device=record.device, done="not due", expires=end_of(held))
    return _ask_next(files, record)


def move(state: Path, server: str) -> Outcome:
    """Ask at this address, perhaps another one, for certificate and fleet, and go on there; errors as in `claim`."""
    files = IdentityFiles(state / FOLDER)
    before = _read_record(files.folder / RECORD)
    asked = _ask_next(files, msgspec.structs.replace(before, server=server))
    return asked if server == before.server else msgspec.structs.replace(asked, done="moved")


def _ask_next(files: IdentityFiles, record: ClaimRecord) -> Outcome:
    """Ask for the next certificate, and keep what the answer says."""
    key = _key(files.key)
    held = _certificate(files, record, key)
    coordinator = ClaimServer(record.server, record.pin)
    root = x509.load_pem_x509_certificate(read_kept(files.authority))
    certificate = held.public_bytes(Encoding.PEM).decode()
    given = coordinator.certify("/v1/renew", Renewal(certificate=certificate, request=certificate_request(key)), root)
    fresh = check_certificate(given, key, root)
    if name_of(fresh) != record.device:
        raise ClaimError("The coordinator answered with another device's certificate: it is not used.")
    _keep_password(files, given)
    if record.home:
        _keep_fleet(files, given)
    write_durably(files.certificate, given.certificate.encode())
    _record(files, msgspec.structs.replace(record, renew_after=given.renew_after))
    return Outcome(device=record.device, done="not due" if fresh == held else "renewed", expires=end_of(fresh))


def _certificate(files: IdentityFiles, record: ClaimRecord, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    held = existing_certificate(files, key, record.pin)
    if held is None:
        raise ClaimError("This device has no certificate that fits its key: claim one with a token.")
    return held


def erase(token_file: Path) -> bool:
    """Overwrite and remove a token; False where the place cannot be written: it was used, so it is worth nothing."""
    try:
        with token_file.open("r+b") as file:
            file.write(bytes(min(token_file.stat().st_size, LONGEST_TOKEN_FILE)))
            file.flush()
            os.fsync(file.fileno())
        token_file.unlink()
        sync_folder(token_file.parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_another(used: Path, token_file: Path) -> bool:
    """Whether the file holds a token, and one that is not the one which was used."""
    try:
        return read_kept(used).decode() != _hash(read_token(token_file))
    except (OSError, UnicodeDecodeError, DataError):  # nobody knows which was used, or nothing is there to lose
        return False


def _keep_password(files: IdentityFiles, given: Certified) -> None:
    if given.password is not None:
        write_login(files.login, given.device, given.password)


def _keep_fleet(files: IdentityFiles, given: Certified) -> None:
    if given.fleet is not None and given.broker is not None and given.coordinator is not None:
        told = FleetRecord(fleet=given.fleet, broker=given.broker, coordinator=given.coordinator)
        write_durably(files.folder / FLEET_FILE, msgspec.json.encode(told), mode=0o600)


def _has_password(files: IdentityFiles) -> bool:
    try:
        return read_login(files.login) is not None
    except SettingsError:
        return False


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made ({error.strerror}).") from error


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The device's key, drawn where it is missing; it never leaves the device."""
    try:
        loaded = serialization.load_pem_private_key(read_kept(path), None)
    except FileNotFoundError:
        drawn = ec.generate_private_key(ec.SECP256R1())
        write_durably(path, drawn.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)
        return drawn
    except (OSError, *UNREADABLE) as error:
        raise StorageError(
            f"The key {path} cannot be read ({because(error)}): remove it and use a new token."
        ) from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise StorageError(f"{path} is a key of another kind: remove it, and claim with a new token.")
    return loaded


def _record(files: IdentityFiles, record: ClaimRecord) -> None:
    write_durably(files.folder / RECORD, msgspec.json.encode(record), mode=0o600)


def _read_record(path: Path) -> ClaimRecord:
    try:
        return msgspec.json.decode(read_kept(path), type=ClaimRecord)
    except (OSError, *UNDECODABLE) as error:
        raise ClaimError(f"{path} does not say where to renew ({because(error)}): claim with a token.") from error
