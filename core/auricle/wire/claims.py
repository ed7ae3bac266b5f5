"""How a device becomes somebody: what it asks the coordinator's API for, and what it is given."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Meta

from auricle.errors import DataError
from auricle.files import read_text
from auricle.wire.broker_passwords import Password
from auricle.wire.kinds import WORKERS, DeviceId, FleetName

USERS = ("coordinator", "observer", *WORKERS)
"""Who has other rights at the broker than a device."""
RESERVED = (*USERS, "root")
"""Names that no device may have."""

UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What is raised about a certificate or request that is damaged, of a version or on a curve that nobody knows."""

LONGEST_TOKEN_FILE = 4096
ClaimToken = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{20,100}\Z", max_length=100, description="Used once.")]
Pem = Annotated[str, Meta(pattern=r"^[ -~\r\n]*\Z", min_length=1, max_length=16_384)]
PublicKey = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64, description="Ed25519, 64 hex digits.")]


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device asks for its certificate: the token says who it is, the request which key is its own."""

    token: ClaimToken
    request: Pem
    """PKCS #10, signed by the device's key; the name in it counts for nothing."""
    public_key: PublicKey | None = None
    """The key that signs its messages: believed from now on where the token replaces a board."""


class Renewal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device asks for its next certificate."""

    certificate: Pem
    """The one it has."""
    request: Pem
    """PKCS #10, signed by the key of that certificate."""


class Certified(msgspec.Struct, frozen=True, kw_only=True):
    """Who the device is from now on."""

    device: DeviceId
    certificate: Pem
    """The device's certificate, then the issuing authority's."""
    expires: Annotated[float, Meta(description="Seconds since 1970, UTC.")]
    renew_after: Annotated[float, Meta(description="Seconds since 1970, UTC.")]
    password: Password | None = None
    """The device's own, for brokers that ask for one besides the certificate."""
    fleet: FleetName | None = None
    broker: Annotated[str, Meta(max_length=300)] | None = None
    """As devices reach it, without user and password."""
    coordinator: PublicKey | None = None
    """Whom devices obey; with fleet and broker all that an agent needs."""


class AuthorityShown(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate that everything is checked against; a device believes it if it has the pin it was told."""

    certificate: Pem


def pin(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's DER, 64 hexadecimal digits."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def key_hash(public: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key in a certificate or request (SubjectPublicKeyInfo), 64 hexadecimal digits."""
    return hashlib.sha256(public.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


class TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of a claim token says: the token, and where it is exchanged where that stands below it."""

    token: ClaimToken
    server: str | None = None
    ca_pin: str | None = None


def token_text(token: str, server: str | None, ca_pin: str) -> str:
    """The text of a token's file."""
    return f"{token}\n" if server is None else f"{token}\nserver {server}\nca-pin {ca_pin}\n"


def read_token(path: Path) -> str:
    """The claim token in a file; errors as of `read_token_file`."""
    return read_token_file(path).token


def read_token_file(path: Path) -> TokenFile:
    """A claim token with what stands below it.

    Raises
    ------
    DataError
        It cannot be read, or holds something else.
    """
    try:
        text = read_text(path, "The claim token", most=LONGEST_TOKEN_FILE, refusal=DataError)
        token, *lines = text.strip().splitlines() or [""]
        below = dict(line.split(" ", 1) for line in lines)
        told = {"token": token, "server": below.get("server"), "ca_pin": below.get("ca-pin")}
        if set(below) - {"server", "ca-pin"}:
            raise ValueError("another line")
        return msgspec.convert(told, TokenFile)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise DataError(
            f"There is no claim token {path}: a claim removes the file that it has used, and auricle cloud enrol token "
            "makes one."
        ) from error
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(f"{path} holds no claim token: make one with auricle cloud enrol token.") from error
