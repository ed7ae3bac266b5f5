"""Password files in mosquitto's format; the hashes in them are those of `auricle.wire.broker_passwords`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from auricle.wire.broker_passwords import hashed


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
