"""The claim tokens that cards carry: a file `DEVICE.token` each, as `auricle cloud enrol token --out` writes them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from auricle.errors import DataError
from auricle.wire.claims import RESERVED, read_token
from auricle.wire.kinds import DeviceId

HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""What a host may be called: a letter or digit at both ends, at most 63. Source: RFC 1123, section 2.1."""


def read_tokens(folder: Path, count: int | None = None) -> dict[str, str]:
    """Read the tokens of devices.

    Parameters
    ----------
    count
        How many; None: all.

    Returns
    -------
    dict
        Token by device, in alphabetical order.

    Raises
    ------
    DataError
        There are not so many, one cannot be read or is not a token, two are the same, or a name cannot be a host's.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is no folder: name the one that auricle cloud enrol token --out wrote to.")
    files = sorted(folder.glob("*.token"))
    wanted = count or 1
    if len(files) < wanted:
        there = f"{len(files)} token{'' if len(files) == 1 else 's'}"
        raise DataError(
            f"{folder} has {there} and {wanted} {'is' if wanted == 1 else 'are'} needed: "
            f"auricle cloud enrol token --count {wanted - len(files)} --out {folder}"
        )
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for path in files[:count]:
        device, token = path.name.removesuffix(".token"), read_token(path)
        _require_host(device)
        if token in owners:
            raise DataError(f"{device} and {owners[token]} have the same token in {folder}: make one for each device.")
        found[device], owners[token] = token, device
    return found


def _require_host(device: str) -> None:
    try:
        msgspec.convert(device, DeviceId)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{device}.token: a device's name has 4 to 64 lower-case letters, digits and dashes."
        ) from error
    if not HOST.fullmatch(device) or device in RESERVED:
        raise DataError(
            f"{device} cannot be the name of a device with a card: it is a host's name too, with a letter or digit at "
            f"both ends and at most 63 of them, and not {', '.join(RESERVED)}."
        )
