"""Who vouches for a pack: an Ed25519 signature over its manifest, kept beside it as `manifest.sig`.

The manifest names every file by its SHA-256, so a signature over the manifest is one over the pack. It is not part of
the pack's identity: signing a pack, or signing it again, leaves it the same pack to devices and coordinators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from auricle.errors import PackError, SettingsError
from auricle.wire.identity import PUBLIC_BYTES, SIGNATURE_BYTES, Identity, verify
from auricle.wire.kinds import UNDECODABLE, plain

SIGNATURE_FILE = "manifest.sig"
SIGNATURE_FORMAT = 1
LARGEST_SIGNATURE = 1024
"""Most bytes of a `manifest.sig`."""
DOMAIN = b"auricle/pack/1\0"
"""Goes before the manifest's bytes, so that a signature made for anything else cannot serve a pack."""

PublicKey = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * PUBLIC_BYTES}}}\Z")]


class PackSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signature as it stands in `manifest.sig`, a JSON object."""

    format: Annotated[int, msgspec.Meta(ge=1)] = SIGNATURE_FORMAT
    key: PublicKey
    """The signer's public key, in hex."""
    signature: Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]
    """Over `DOMAIN` and the bytes of `manifest.json`, in hex."""

    def vouches(self, manifest: bytes) -> bool:
        """Whether the owner of the key signed this manifest."""
        return verify(bytes.fromhex(self.key), bytes.fromhex(self.signature), DOMAIN + manifest)


def sign_manifest(identity: Identity, manifest: bytes) -> PackSignature:
    """Sign the bytes of a `manifest.json`."""
    return PackSignature(key=identity.public.hex(), signature=identity.sign(DOMAIN + manifest).hex())


def encode_signature(signature: PackSignature) -> bytes:
    """The bytes of a `manifest.sig`."""
    return msgspec.json.encode(signature, order="sorted") + b"\n"


def decode_signature(data: bytes, where: str) -> PackSignature:
    """Read a `manifest.sig`.

    Raises
    ------
    PackError
        It is not one, or of another version.
    """
    try:
        if len(data) > LARGEST_SIGNATURE:
            raise PackError(f"The signature of {where} has {len(data)} bytes; at most {LARGEST_SIGNATURE} are allowed.")
        signature = msgspec.json.decode(data, type=PackSignature)
    except UNDECODABLE as error:
        raise PackError(f"The signature of {where} is not valid: {error}.") from error
    if signature.format != SIGNATURE_FORMAT:
        raise PackError(
            f"The signature of {where} has format {signature.format}; this version of Auricle reads {SIGNATURE_FORMAT}."
        )
    return signature


def public_key(text: str) -> bytes:
    """The 32 bytes of a public key from its 64 hex digits.

    Raises
    ------
    PackError
        It is no such text.
    """
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != PUBLIC_BYTES:
        digits = 2 * PUBLIC_BYTES
        raise PackError(
            f'"{plain(text.strip()[:80])}" is not a public key: give the {digits} hex digits that "sign" prints.'
        )
    return key


def read_trusted_key(text: str | None) -> list[bytes] | None:
    """What `load_pack` takes as `trusted`: the one key that a setting names, or None where it names none."""
    return None if text is None else [public_key(text)]


def require_key(path: Path, *, new: bool) -> None:
    """Refuse a file that is not there to sign with, unless a key is to be drawn; then one that is.

    A mistyped name would sign with a key that nobody trusts.

    Raises
    ------
    SettingsError
        It is the other way round.
    """
    if new and path.exists():
        raise SettingsError(f"{path} exists, and no key is drawn over it: name another file, or leave out --new-key.")
    if not new and not path.exists():
        raise SettingsError(f"There is no key {path}: check its name, or draw a new one with --new-key.")
