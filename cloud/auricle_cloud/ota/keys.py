"""Keys of the update metadata: `root.key` and `targets.key` in an operator's folder, `online.key` beside the rest.

And the roles that they sign for: how long each is believed. Nothing of TUF is imported at the start, so that commands
that only name a role load quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from auricle.errors import SettingsError, StorageError
from auricle.files import describe, read_kept, sync_folder, write_durably
from auricle_cloud.identity.authority import passphrase
from auricle_cloud.storage.release_folder import OFFLINE

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, Key

DAY = timedelta(days=1)
LIVES = {"root": 365 * DAY, "targets": 90 * DAY, "snapshot": 7 * DAY, "timestamp": DAY}
WARN = {"root": 30 * DAY, "targets": 14 * DAY, "snapshot": 2 * DAY, "timestamp": DAY / 4}
"""When it is near: the online roles are renewed at half of their lives, so that theirs means that nobody does."""

PASSPHRASE = "AURICLE_RELEASE_PASSPHRASE"
"""Environment variable with the passphrase of the offline keys; with `_FILE` at its end, of the file that holds it."""


@dataclass(frozen=True)
class Expiry:
    """Until when a role's metadata is believed."""

    role: str
    expires: datetime

    def is_near(self, now: datetime) -> bool:
        """Whether somebody has to do something."""
        return self.expires - now < WARN[self.role]

    def sentence(self, now: datetime) -> str:
        """Until when, and what to do."""
        day = f"{self.expires:%Y-%m-%d %H:%M} UTC"
        if not self.is_near(now):
            return f"{self.role} is good until {day}."
        todo = (
            "run auricle cloud releases renew" if self.role in OFFLINE else "run auricle cloud serve, which renews it"
        )
        if self.expires <= now:
            return f"{self.role} expired on {day} and devices take no updates: {todo}."
        return f"{self.role} expires on {day}: {todo}."


def key_file(folder: Path, name: str) -> Path:
    """Where a key lies."""
    return folder / f"{name}.key"


def make_key(folder: Path, name: str, *, online: bool = False) -> CryptoSigner:
    """Draw a key and keep it, readable by its owner only and encrypted where there is a passphrase.

    Raises
    ------
    SettingsError
        There is one already.
    """
    file = key_file(folder, name)
    if file.exists():
        raise SettingsError(f"There is a key already at {file}: name an empty folder.")
    key = Ed25519PrivateKey.generate()
    secret = _secret(online)
    how = serialization.NoEncryption() if secret is None else serialization.BestAvailableEncryption(secret)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how), mode=0o600)
    return _signer(key)


def load_key(folder: Path, name: str, *, online: bool = False) -> CryptoSigner:
    """Read a key; StorageError where it is missing or its passphrase is another one."""
    return read_key(key_file(folder, name), online=online)


def read_key(file: Path, *, online: bool = False) -> CryptoSigner:
    """Read a key's file; StorageError where it is missing or its passphrase is another one."""
    try:
        key = serialization.load_pem_private_key(read_kept(file), _secret(online))
    except FileNotFoundError as error:
        raise StorageError(f"There is no {file}: name the folder of the offline keys with --keys.") from error
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"The key {file} cannot be used: {error}; is its passphrase right?") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise StorageError(f"{file} is not an Ed25519 key.")
    return _signer(key)


def offline_keys(folder: Path, name: str, *, required: bool = True) -> list[CryptoSigner]:
    """The key of a role in a folder, and the one that is to take its place; StorageError: a required one is missing."""
    there = [each for each in (name, f"{name}.next") if key_file(folder, each).is_file()]
    return [load_key(folder, each) for each in (there or ([name] if required else []))]


def public_hex(key: Key) -> str:
    """A key's public half, as `releases make-key` prints it."""
    return str(key.keyval["public"])


def next_key(folder: Path, name: str) -> CryptoSigner:
    """The key that is to take the place of one in a folder: made now, or by a rotation that was cut off."""
    waiting = f"{name}.next"
    return load_key(folder, waiting) if key_file(folder, waiting).exists() else make_key(folder, waiting)


def put_in_use(folder: Path, name: str) -> None:
    """Let the next key be the key; the one before stays as `NAME.old.key`, for a backup that is older."""
    waiting, used = key_file(folder, f"{name}.next"), key_file(folder, name)
    try:
        if used.exists():
            write_durably(key_file(folder, f"{name}.old"), read_kept(used), mode=0o600)
        waiting.replace(used)
        sync_folder(folder)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error


def _signer(key: Ed25519PrivateKey) -> CryptoSigner:
    from securesystemslib.signer import CryptoSigner

    return CryptoSigner(key)


def _secret(online: bool) -> bytes | None:
    """The online key is encrypted as the certificate authority's is: `serve` needs both."""
    return passphrase() if online else passphrase(PASSPHRASE)
