"""Encryption at rest: ChaCha20-Poly1305 with a key of 32 bytes from a file; every box is bound to its purpose and clip.

ChaCha20 and not AES: the Raspberry Pi up to 4 has no AES instructions.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from auricle.errors import DataError, SettingsError, StorageError
from auricle.files import describe, open_kept
from auricle_edge.clips.disk import Disk

_log = logging.getLogger(__name__)
KEY_BYTES = 32
NONCE_BYTES = 12


class Seal:
    """Closes and opens boxes.

    Parameters
    ----------
    key
        32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self.mark = hashlib.sha256(b"auricle clip key\0" + key).hexdigest()[:16]
        """Names the key without telling it."""

    def close(self, content: bytes, purpose: str) -> bytes:
        """Encrypt: 12 bytes of nonce, then the content with its tag; `purpose` must be named again to open it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, purpose.encode())

    def open(self, box: bytes, purpose: str) -> bytes:
        """Decrypt; DataError when it was changed, or closed with another key or for another purpose."""
        try:
            return self._cipher.decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError) as error:
            raise DataError("it does not open with the key of the store") from error


class Plain:
    """No encryption, behind the same interface."""

    mark = ""

    def close(self, content: bytes, purpose: str) -> bytes:
        """Give the content back."""
        return content

    def open(self, box: bytes, purpose: str) -> bytes:
        """Give the content back."""
        return box


def read_key(path: Path) -> Seal | None:
    """The key of a file; None where there is no file.

    Raises
    ------
    SettingsError
        It is not a key, or others may read it.
    StorageError
        It cannot be read.
    """
    try:
        with open_kept(path) as file:
            mode, key = os.fstat(file.fileno()).st_mode, file.read(KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"The key {path} cannot be read ({error.strerror}).") from error
    if mode & 0o077:
        raise SettingsError(f"Others may read the key {path}: chmod 600 {path}")
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{path} is not a key of {KEY_BYTES} bytes: name the right file, or remove it to draw a new key."
        )
    return Seal(key)


def destroy_key(path: Path, disk: Disk, *, ours: bool) -> bool:
    """Overwrite and remove a key if it is `ours`, and one whose destruction a power cut interrupted.

    It is renamed first: half a key must never be taken for a key. One that cannot be renamed (a credential that systemd
    hands in, say) stays: false.
    """
    doomed = path.with_name(f".{path.name}.gone")
    interrupted = doomed.exists()
    disk.destroy(doomed)
    if ours:
        try:
            disk.move(path, doomed)
        except OSError as error:
            _log.warning("The key is not destroyed: %s", describe(error, path))
            return interrupted
        disk.destroy(doomed)
    return ours or interrupted


def draw_key(path: Path, disk: Disk) -> Seal:
    """Draw a key and keep it in a new file that only its owner can read."""
    disk.folder(path.parent) if not path.parent.is_dir() else None
    key = os.urandom(KEY_BYTES)
    disk.write(path, key)
    return Seal(key)
