"""Whether a signed target is one for this device."""

from __future__ import annotations

from typing import Literal

import msgspec

from auricle.errors import DataError
from auricle.wire.kinds import Key, Sha256, Token, version_key
from auricle_edge.ota.installation import BundleFacts
from auricle_edge.ota.records import PackKept, UpdateRefusedError


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A target's `custom` in the signed metadata."""

    kind: Literal["bundle", "pack"]
    identity: Sha256
    version: Token | None = None
    board: Token | None = None
    os: Token | None = None
    fleet: Token | None = None


def require_named(found: Description, kind: Literal["bundle", "pack"], identity: str | None) -> None:
    """See that a target is what was asked for; UpdateRefusedError otherwise."""
    if found.kind != kind:
        raise UpdateRefusedError(f"It is signed as a {found.kind} and was sent as a {kind}.")
    if identity is not None and found.identity != identity:
        raise UpdateRefusedError(f"It is signed as {found.identity[:12]} and was sent as {identity[:12]}.")


def require_bundle(found: Description, runs: BundleFacts, running: str) -> None:
    """See that a bundle is for this device, and newer than the one that runs.

    Parameters
    ----------
    found
        What is signed.
    runs, running
        What is installed, and its identity.

    Raises
    ------
    UpdateRefusedError
        It is another one, or not newer.
    """
    for what, ours, its in (
        ("board", runs.board, found.board),
        ("system", runs.os, found.os),
        ("fleet", runs.fleet, found.fleet),
    ):
        if ours != its:
            raise UpdateRefusedError(f"It is for the {what} {its or '(none)'}; this device's is {ours}.")
    if found.identity == running:
        raise UpdateRefusedError("It is the bundle that runs.")
    if found.version is None or version_order(found.version) <= version_order(runs.version):
        raise UpdateRefusedError(
            f"Its version is {found.version or '(none)'}, which is not above the {runs.version} that runs."
        )


def require_pack(found: Description, fleet: str | None, runs: BundleFacts | None, kept: PackKept | None) -> None:
    """See that a pack is not one for other devices, nor older than the one that was kept. What it leaves out fits all.

    Parameters
    ----------
    found
        What is signed.
    fleet, runs
        This device's fleet, and its installed bundle.
    kept
        The newest pack that has proved itself here.

    Raises
    ------
    UpdateRefusedError
        It is one for others, or older.
    """
    ours = {"fleet": fleet, "board": runs and runs.board, "system": runs and runs.os}
    its = {"fleet": found.fleet, "board": found.board, "system": found.os}
    for what, value in its.items():
        if value and value != ours[what]:
            raise UpdateRefusedError(f"It is for the {what} {value}; this device's is {ours[what] or 'unknown'}.")
    if kept is not None and version_order(found.version or "0") < version_order(kept.version):
        raise UpdateRefusedError(
            f"Its version is {found.version or '(none)'}, below the {kept.version} that was kept here."
        )


def version_order(version: str) -> Key:
    """What versions are sorted by (PEP 440).

    Raises
    ------
    UpdateRefusedError
        It is not a version.
    """
    try:
        return version_key(version)
    except DataError as error:
        raise UpdateRefusedError(str(error)) from error
