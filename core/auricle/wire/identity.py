"""Who speaks: an Ed25519 key pair per device and per coordinator."""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from auricle.errors import StorageError
from auricle.files import read_kept, sync_folder, write_whole

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
DEVICE_KEY = "device.key"
"""A device's private key, in its state folder."""


class Identity:
    """A private key that signs; its public key names the signer.

    Parameters
    ----------
    seed
        The 32 bytes of the private key.
    """

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def create(cls) -> Identity:
        """Draw a new key."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load_or_create(cls, path: Path, *, durable: bool = True) -> Identity:
        """Read the key of this file, or draw one and keep it there, readable by its owner only.

        Parameters
        ----------
        durable
            A key that was drawn survives a power cut.

        Raises
        ------
        StorageError
            The file exists and is not a key, or it cannot be read or written.
        """
        try:
            seed: bytes | None = read_kept(path)
        except FileNotFoundError:
            seed = None
        except OSError as error:
            raise StorageError(f"The key {path} cannot be read ({error.strerror}).") from error
        if seed is not None:
            if len(seed) != PUBLIC_BYTES:
                raise StorageError(
                    f"{path} is not a private key of {PUBLIC_BYTES} bytes: name another file, or one that is not there "
                    "for a new key."
                )
            return cls(seed)
        identity = cls.create()
        drawn = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        write_whole(drawn, identity._key.private_bytes_raw(), durable=durable, mode=0o600, settle=False)
        try:
            os.link(drawn, path)  # of several processes that start together the first one's is the key
        except FileExistsError:
            return cls.load_or_create(path)
        except OSError:  # a file system without hard links, which several machines do not share
            drawn.replace(path)
        finally:
            with contextlib.suppress(OSError):
                drawn.unlink(missing_ok=True)
        if durable:
            sync_folder(path.parent)
        return identity

    def sign(self, data: bytes) -> bytes:
        """Signature of `data`, 64 bytes."""
        return self._key.sign(data)


@lru_cache(maxsize=4096)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


@lru_cache(maxsize=16)
def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether `signature` over `data` was made by the owner of `public`. Malformed keys are nobody's.

    The last answers are remembered: what a coordinator says to all is checked once by a process of many devices.
    """
    try:
        _public_key(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
