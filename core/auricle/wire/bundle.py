"""What a bundle says of itself: `bundle.json`, whose SHA-256 is the bundle's identity, and `bundle.sig`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError
from auricle.wire.identity import PUBLIC_BYTES, SIGNATURE_BYTES, Identity, verify
from auricle.wire.kinds import UNDECODABLE, FleetName, Sha256

FORMAT_VERSION: Literal[1] = 1
MANIFEST_FILE, SIGNATURE_FILE = "bundle.json", "bundle.sig"
DOMAIN = b"auricle-bundle-1\n"
"""Goes before the manifest's bytes, so that a signature made for anything else cannot serve a bundle."""
LARGEST_MANIFEST, LARGEST_SIGNATURE, LARGEST_FILE = 1 << 20, 1024, 1 << 30
"""Bytes."""

Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")]


class BundleError(AuricleError):
    """A bundle that is not whole, not sound or not what its manifest says."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a bundle."""

    path: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+!@~-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+!@~-]*)*\Z", max_length=200)
    ]
    size: Annotated[int, Meta(ge=0, le=LARGEST_FILE)]
    sha256: Sha256
    mode: Literal[0o644, 0o755]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A `bundle.json`."""

    format: Literal[1] = FORMAT_VERSION
    name: Literal["auricle"] = "auricle"
    version: Word
    board: Word
    os: Word
    base: Word
    """Release of Debian or Ubuntu that the system is made of."""
    python: Word
    architecture: Word
    fleet: FleetName
    pack: Sha256
    files: Annotated[tuple[Entry, ...], Meta(max_length=4096)]
    """Every file but `bundle.json` and `bundle.sig`, in the order of their paths."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A `bundle.sig`."""

    format: Literal[1] = FORMAT_VERSION
    keyid: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * PUBLIC_BYTES}}}\Z")]
    """The signer's public key, in hex."""
    signature: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]
    """Over `DOMAIN` and the bytes of `bundle.json`, in hex."""

    def vouches(self, manifest: bytes) -> bool:
        """Whether the owner of the key signed this manifest."""
        return verify(bytes.fromhex(self.keyid), bytes.fromhex(self.signature), DOMAIN + manifest)


def sign(identity: Identity, manifest: bytes) -> bytes:
    """The bytes of a `bundle.sig` over those of a `bundle.json`."""
    made = Signature(keyid=identity.public.hex(), signature=identity.sign(DOMAIN + manifest).hex())
    return msgspec.json.encode(made) + b"\n"


def encode(manifest: Manifest) -> bytes:
    """The bytes of a `bundle.json`."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def identity_of(manifest: bytes) -> str:
    """The identity of the bundle with this `bundle.json`."""
    return hashlib.sha256(manifest).hexdigest()


def decode(text: bytes, where: str) -> Manifest:
    """Read a `bundle.json`. BundleError: it is not one, is of another format, or lists a file twice or itself."""
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except UNDECODABLE as error:
        raise BundleError(f"The {MANIFEST_FILE} of {where} is not that of a bundle: {error}.") from error
    paths = {entry.path for entry in manifest.files}
    if len(paths) != len(manifest.files) or paths & {MANIFEST_FILE, SIGNATURE_FILE}:
        raise BundleError(f"The {MANIFEST_FILE} of {where} lists a file twice, or itself.")
    return manifest


def decode_signature(text: bytes, where: str) -> Signature:
    """Read a `bundle.sig`. BundleError: it is not a signature."""
    try:
        return msgspec.json.decode(text, type=Signature)
    except UNDECODABLE as error:
        raise BundleError(f"The signature of {where} is not valid: {error}.") from error
