"""The passwords of a broker's users, each derived from its name, and the files from which brokers learn them.

Nothing has to be kept but one key, and the same users give the same files.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from auricle.wire.broker_passwords import hashed


class Passwords:
    """Passwords under one key.

    Parameters
    ----------
    key
        32 random bytes; with others, all passwords are others.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> str:
        """A user's password: base64url(HMAC-SHA256(key, name)), 43 characters."""
        return urlsafe_b64encode(self._derived(name)).decode().rstrip("=")

    def mosquitto(self, names: Iterable[str]) -> str:
        """A password file as mosquitto_passwd(1) writes it; the salt is derived too, 12 bytes."""
        return "".join(f"{name}:{hashed(self.of(name), salt=self._salt(name)[:12])}\n" for name in names)

    def emqx(self, names: Iterable[str]) -> str:
        """Users for EMQX's built-in database, as CSV: hexadecimal SHA-256 of salt and password."""
        rows = ["user_id,password_hash,salt,is_superuser"]
        for name in names:
            salt = self._salt(name).hex()[:32]
            rows.append(f"{name},{hashlib.sha256((salt + self.of(name)).encode()).hexdigest()},{salt},false")
        return "\n".join(rows) + "\n"

    def _salt(self, name: str) -> bytes:
        return self._derived(f"salt {name}")  # no name holds a space

    def _derived(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")
