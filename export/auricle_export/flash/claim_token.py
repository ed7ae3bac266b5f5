"""A claim token, from the file that `auricle cloud enrol token --out` wrote."""

from __future__ import annotations

from pathlib import Path

import msgspec

from auricle.claims import ClaimToken
from auricle.errors import DataError

LARGEST = 4096


def read_token(path: Path) -> str:
    """Read a claim token. DataError: the file cannot be read, or holds none."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST).decode("ascii").strip()
        token: str = msgspec.convert(text, ClaimToken)
    except OSError as error:
        raise DataError(f"The token {path} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{path} holds no claim token: make it again with auricle cloud enrol token.") from error
    return token
