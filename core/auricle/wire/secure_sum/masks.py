"""Keys that two devices share, the streams of words that hide an update, and Shamir's secret sharing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from auricle.errors import WireError
from auricle.wire.secure_sum.quantised import Words
from auricle.wire.secure_sum.sizes import KEY_BYTES, SHARE_BYTES

_ONCE = bytes(12)
"""A nonce for a key that encrypts one message."""


def public_of(private: bytes) -> bytes:
    """The public half of an X25519 key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree_key(private: bytes, public: bytes, purpose: bytes) -> bytes:
    """The 32 bytes that two devices have in common for a purpose: HKDF-SHA256 of their X25519 secret.

    Raises
    ------
    WireError
        The public key is not one, or of a small order.
    """
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise WireError("A device's public key for a secure sum is not an X25519 key.") from error
    return HKDF(
        algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=b"auricle-secure-sum-1\n" + purpose
    ).derive(secret)


def stream(seed: bytes, size: int) -> Words:
    """(size,) words of ChaCha20's key stream."""
    cipher = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(4 * size)), "<u4").astype(np.uint32)


def seal(key: bytes, message: bytes) -> bytes:
    """A message under a key that is used for no other."""
    return ChaCha20Poly1305(key).encrypt(_ONCE, message, None)


def unseal(key: bytes, box: bytes) -> bytes:
    """What was sealed; WireError: it was changed, or is for somebody else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, box, None)
    except InvalidTag as error:
        raise WireError("Shares of a secure sum were changed on their way, or are for somebody else.") from error


PRIME = (1 << 256) + 297
"""The smallest prime above 2^256: every 32 bytes are an element of its field."""
SECRET_BYTES = 32


def split(secret: bytes, threshold: int, count: int) -> dict[int, bytes]:
    """Shares by their place 1 to `count`: values of a random polynomial of degree t - 1 with the secret at 0.

    Raises
    ------
    WireError
        The secret is not of 32 bytes, or no `threshold` of `count` shares exist.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= count:
        raise WireError(f"{threshold} of {count} shares cannot hold a secret of {len(secret)} bytes.")
    terms = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {place: _value(terms, place).to_bytes(SHARE_BYTES, "big") for place in range(1, count + 1)}


def _value(terms: list[int], place: int) -> int:
    value = 0
    for term in reversed(terms):
        value = (value * place + term) % PRIME
    return value


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, by Lagrange interpolation at 0 of the first `threshold` shares.

    Raises
    ------
    WireError
        There are too few shares, one is not a share, or together they are not a secret.
    """
    if len(shares) < threshold:
        raise WireError(f"{len(shares)} shares are fewer than the {threshold} that a secret needs.")
    points = [(place, int.from_bytes(share, "big")) for place, share in sorted(shares.items())[:threshold]]
    if any(len(share) != SHARE_BYTES for share in shares.values()) or any(value >= PRIME for _, value in points):
        raise WireError("A share is not of 33 bytes below the prime.")
    total = 0
    for place, value in points:
        above = below = 1
        for other, _ in points:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        total = (total + value * above * pow(below, -1, PRIME)) % PRIME
    if total >= 1 << 256:
        raise WireError("The shares do not belong together.")
    return total.to_bytes(SECRET_BYTES, "big")
