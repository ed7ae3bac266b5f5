"""Which of two versions is the newer one; what is no version is refused."""

from __future__ import annotations

from auricle.errors import DataError
from auricle.packs.versions import Key, version_key
from auricle_edge.ota.records import UpdateRefusedError


def ordered(version: str) -> Key:
    """What versions are sorted by (PEP 440).

    Raises
    ------
    UpdateRefusedError
        It is no version.
    """
    try:
        return version_key(version)
    except DataError as error:
        raise UpdateRefusedError(str(error)) from error
