"""Passwords of a broker's users: mosquitto's hashes of them, and the file in which a user keeps its own.

A hash is `$7$iterations$salt$hash`, PBKDF2 with SHA-512; see mosquitto_passwd(1). The iterations are mosquitto's own
default: the passwords are random tokens of this program, which no one can guess whatever the hash, and a broker checks
all of them in the seconds after a restart, and those of everybody connected at each reload.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from auricle.errors import SettingsError
from auricle.files import open_kept, write_durably

_ITERATIONS = 101
_SALT = 12
_LOGIN = re.compile(r"([a-z0-9-]{1,64}):([A-Za-z0-9_-]{43})\n?")
_LONGEST = 200

Password = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{43}\Z", max_length=43, description="32 bytes in base64.")]


def hash_password(password: str, *, salt: bytes | None = None, iterations: int = _ITERATIONS) -> str:
    """Return the `$7$` hash of a password."""
    salt = os.urandom(_SALT) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations, 64)
    return f"$7${iterations}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def verify_password(password: str, known: str) -> bool:
    """Whether a password has this `$7$` hash, compared in constant time."""
    _, kind, iterations, salt, _ = known.split("$", 4)
    again = hash_password(password, salt=base64.b64decode(salt), iterations=int(iterations))
    return kind == "7" and hmac.compare_digest(again, known)


def write_login(path: Path, user: str, password: str) -> None:
    """Write `user:password`, readable by its owner only; StorageError when the folder cannot be written."""
    write_durably(path, f"{user}:{password}\n".encode(), mode=0o600)


def read_login(path: Path) -> tuple[str, str] | None:
    """User and password of a file of `write_login`; None without one.

    Raises
    ------
    SettingsError
        It cannot be read, or holds something else.
    """
    try:
        with open_kept(path) as file:
            found = _LOGIN.fullmatch(file.read(_LONGEST).decode("ascii", "replace"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"The broker's password {path} cannot be read ({error.strerror}).") from error
    if found is None:
        raise SettingsError(f"{path} holds no name and password: auricle edge renew fetches them again.")
    return found[1], found[2]
