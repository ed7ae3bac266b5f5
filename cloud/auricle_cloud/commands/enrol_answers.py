"""What the commands of `auricle cloud enrol` answer."""

from __future__ import annotations

from auricle.process.times import Time
from auricle_cloud.operations.answer import Answer


class Made(Answer, frozen=True, kw_only=True):
    """A new authority."""

    pin: str
    """SHA-256 of the root's certificate, which every device is told."""
    folder: str


class TokenRow(Answer, frozen=True, kw_only=True):
    """What a device is given; the token is never shown again."""

    device: str
    token: str
    expires: Time
    replaces: bool
    """Whether who claims it takes the place of the board that has the name."""


class Tokens(Answer, frozen=True, kw_only=True):
    """Claim tokens."""

    pin: str
    tokens: list[TokenRow]


class Written(Answer, frozen=True, kw_only=True):
    """Files of a server or broker."""

    folder: str
    reloaded: bool = False


class CertificateRow(Answer, frozen=True, kw_only=True):
    """One certificate."""

    name: str
    kind: str
    serial: str
    issued: Time
    expires: Time
    renew_after: Time
    revoked: Time | None
    reason: str


class ClaimRow(Answer, frozen=True, kw_only=True):
    """One token that may still be used."""

    device: str
    created: Time
    expires: Time
    replaces: bool


class Enrolled(Answer, frozen=True, kw_only=True):
    """Everybody who is certified, and who may be."""

    pin: str
    certificates: list[CertificateRow]
    claims: list[ClaimRow]
