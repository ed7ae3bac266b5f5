"""What a bundle says of itself, read from its archive before anything in it is used."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.packs.plain_tar import NotPlainError, require_plain
from auricle.wire.identity import verified
from auricle_edge.ota.fitness import Description
from auricle_edge.ota.installation import BUNDLE, LARGEST_BUNDLE_FILE, bundle_facts
from auricle_edge.ota.records import UpdateRefusedError

SIGNATURE = "bundle.sig"
DOMAIN = b"auricle-bundle-1\n"
"""Goes before the bytes of `bundle.json` in what is signed."""


class BundleSignature(msgspec.Struct, frozen=True):
    """A `bundle.sig`."""

    signature: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]


def require_bundle_file(archive: Path, signed: Description, key: bytes | None) -> None:
    """See that a bundle is what the metadata says of it, and signed where a key is set.

    Parameters
    ----------
    archive
        The `.tar`.
    signed
        What the metadata says.
    key
        32 bytes; None: the signatures of the metadata will do.

    Raises
    ------
    UpdateRefusedError
        It is not.
    """
    try:
        with archive.open("rb") as file:
            require_plain(file)
            with tarfile.open(fileobj=file, mode="r:") as tar:
                manifest = _content(tar, BUNDLE)
                signature = None if key is None else _content(tar, SIGNATURE)
        facts = bundle_facts(manifest, "What came")
    except (tarfile.TarError, NotPlainError, KeyError, EOFError) as error:
        raise UpdateRefusedError(f"What came is no bundle ({error}).") from error
    if hashlib.sha256(manifest).hexdigest() != signed.identity:
        raise UpdateRefusedError(f"What came is not the bundle {signed.identity[:12]} that was signed.")
    said = (signed.version, signed.board, signed.os, signed.fleet)
    if (facts.version, facts.board, facts.os, facts.fleet) != said:
        raise UpdateRefusedError("The bundle says another version, board, system or fleet of itself than the metadata.")
    if key is not None and not _vouches(signature or b"", key, manifest):
        raise UpdateRefusedError("The bundle is not signed by the key that this device was given.")


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    member = tar.getmember(name)
    file = tar.extractfile(member) if member.isreg() and member.size <= LARGEST_BUNDLE_FILE else None
    if file is None:
        raise UpdateRefusedError(f"{name} of the bundle is not a regular file of the right size.")
    return file.read()


def _vouches(signature: bytes, key: bytes, manifest: bytes) -> bool:
    try:
        decoded = msgspec.json.decode(signature, type=BundleSignature)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return verified(key, bytes.fromhex(decoded.signature), DOMAIN + manifest)
