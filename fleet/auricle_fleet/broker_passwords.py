"""Password files in mosquitto's format, written and checked here: `user:$7$iterations$salt$hash`, PBKDF2 with SHA-512.

See mosquitto_passwd(1). The iterations are mosquitto's own default: the passwords are random tokens of this program,
which no one can guess whatever the hash, and a broker checks a thousand of them in the second after a restart.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path

_ITERATIONS = 101
_SALT = 12


def hashed(password: str, *, salt: bytes | None = None, iterations: int = _ITERATIONS) -> str:
    """Return the `$7$` hash of a password."""
    salt = os.urandom(_SALT) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations, 64)
    return f"$7${iterations}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def verified(password: str, known: str) -> bool:
    """Whether a password has this `$7$` hash, compared in constant time."""
    _, kind, iterations, salt, _ = known.split("$", 4)
    again = hashed(password, salt=base64.b64decode(salt), iterations=int(iterations))
    return kind == "7" and hmac.compare_digest(again, known)


def write_passwords(path: Path, users: Mapping[str, str]) -> None:
    """Write the file, readable by its owner only."""
    write_private(path, "".join(f"{user}:{hashed(password)}\n" for user, password in users.items()))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)


def read_passwords(path: Path) -> dict[str, str]:
    """Return the hash of each user."""
    lines = path.read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if line)
