"""Keys of the update metadata: `root.key` and `targets.key` in an operator's folder, `online.key` beside the rest."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat
from securesystemslib.signer import CryptoSigner

from auricle.errors import SettingsError, StorageError
from auricle.files import write_durably
from auricle_cloud.identity.authority import passphrase

PASSPHRASE = "AURICLE_RELEASE_PASSPHRASE"
"""Environment variable with the passphrase of the offline keys; with `_FILE` at its end, of the file that holds it."""


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
    return CryptoSigner(key)


def load_key(folder: Path, name: str, *, online: bool = False) -> CryptoSigner:
    """Read a key; StorageError where it is missing or its passphrase is another one."""
    file = key_file(folder, name)
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), _secret(online))
    except FileNotFoundError as error:
        raise StorageError(f"There is no {file}: name the folder of the offline keys with --keys.") from error
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"The key {file} cannot be used: {error}; is its passphrase right?") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise StorageError(f"{file} is not an Ed25519 key.")
    return CryptoSigner(key)


def _secret(online: bool) -> bytes | None:
    """The online key is encrypted as the certificate authority's is: `serve` needs both."""
    return passphrase() if online else passphrase(PASSPHRASE)
