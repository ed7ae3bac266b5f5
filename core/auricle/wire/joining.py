"""How a device joins a home by a short code that a person reads from the hub and types at the device.

The code stands for a claim token and for the pin of the authority, which are too long to type. The device asks for the
hub's root certificate without trusting it, draws a salt, and proves that it knows the code by

    proof = HMAC-SHA256(K1, name),  K1 || K2 = scrypt(code, salt || pin of the root that it was shown)

A hub of another root counts that as a wrong code. The right one answers with a claim token under ChaCha20-Poly1305 with
K2, which proves that it knows the code as well, and which nobody between them can read. With the token the device makes
the claim of `auricle.wire.claims`, over TLS by that root. A hub says nothing under the code before it has seen a proof.

Who pretends to be the hub gets one proof and may look for its code in his own time, 32 MB and about 0.1 s of a core for
each of the 2^40 that there are, so a code is good for minutes (scrypt: RFC 7914; N = 2^15, r = 8, p = 1).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Annotated, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from msgspec import Meta

from auricle.errors import DataError
from auricle.wire.claims import ClaimToken
from auricle.wire.kinds import UNDECODABLE, DeviceId

SALT_BYTES = 16
_SCRYPT_N, _SCRYPT_R, _SCRYPT_BYTES = 1 << 15, 8, 48 << 20
_NONCE_BYTES, _KEY_BYTES = 12, 32


class Join(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device asks for a claim token, and shows that it knows the code."""

    salt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z", max_length=32)]
    proof: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64)]
    device: DeviceId | None = None
    """The name that it wants; None: any."""


class SealedGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The hub's answer: a `Grant` that only who knows the code can read."""

    sealed: Annotated[str, Meta(pattern=r"^[0-9a-f]*\Z", max_length=2000)]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a device may claim."""

    token: ClaimToken
    device: DeviceId


class CodeKeys(NamedTuple):
    """What code, salt and pin give, 32 bytes each."""

    proof: bytes
    seal: bytes


def code_keys(code: str, salt: str, pin: str) -> CodeKeys:
    """The keys of a code.

    Parameters
    ----------
    code
        As `auricle.wire.join_codes.read_code` gives it.
    salt
        Drawn by the device, 32 hexadecimal digits.
    pin
        Of the root that the device was shown, 64 hexadecimal digits.
    """
    given = bytes.fromhex(salt) + bytes.fromhex(pin)
    both = hashlib.scrypt(
        code.encode(), salt=given, n=_SCRYPT_N, r=_SCRYPT_R, p=1, maxmem=_SCRYPT_BYTES, dklen=2 * _KEY_BYTES
    )
    return CodeKeys(both[:_KEY_BYTES], both[_KEY_BYTES:])


def proof_of(keys: CodeKeys, device: str | None) -> str:
    """What a device that wants this name shows, 64 hexadecimal digits."""
    return hmac.digest(keys.proof, (device or "").encode(), "sha256").hex()


def is_proof(keys: CodeKeys, asked: Join) -> bool:
    """Whether who asks knows the code."""
    return hmac.compare_digest(proof_of(keys, asked.device), asked.proof)


def seal(keys: CodeKeys, grant: Grant) -> SealedGrant:
    """A grant for who knows the code."""
    nonce = os.urandom(_NONCE_BYTES)
    return SealedGrant(
        sealed=(nonce + ChaCha20Poly1305(keys.seal).encrypt(nonce, msgspec.json.encode(grant), b"")).hex()
    )


def unseal(keys: CodeKeys, answer: SealedGrant) -> Grant:
    """What is in an answer; DataError where who answers does not know the code."""
    try:
        sealed = bytes.fromhex(answer.sealed)
        opened = ChaCha20Poly1305(keys.seal).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], b"")
        return msgspec.json.decode(opened, type=Grant)
    except (InvalidTag, ValueError, *UNDECODABLE) as error:
        raise DataError("What answers does not know the code.") from error
