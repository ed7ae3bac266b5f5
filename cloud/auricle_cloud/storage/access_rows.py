"""Rows about who may do what, as structs: tokens, schedules, claims and certificates; see `Row`."""

from __future__ import annotations

from typing import Literal, get_args

from auricle_cloud.storage.rows import Row

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""
Kind = Literal["device", "user", "server"]
"""Of a certificate."""


class TokenRow(Row, frozen=True):
    """A row of `tokens` without its hash."""

    name: str
    role: Role
    created: float
    expires: float | None


class ScheduleRow(Row, frozen=True):
    """A row of `schedules`."""

    name: str
    task: str
    at: str
    idle: int
    rounds: int
    last: float


class ClaimRow(Row, frozen=True):
    """A row of `claims`."""

    hash: bytes
    device: str
    created: float
    expires: float
    used: float | None
    key: str | None
    replaces: bool


class PendingClaim(Row, frozen=True):
    """A row of `claims` that may still be used, without what its token and key could be known by."""

    device: str
    created: float
    expires: float
    replaces: bool


class CertificateGlance(Row, frozen=True):
    """A row of `certificates` without its bytes."""

    serial: str
    name: str
    kind: Kind
    issued: float
    expires: float
    renew_after: float
    revoked: float | None
    reason: str


class CertificateRow(Row, frozen=True):
    """A row of `certificates`."""

    serial: str
    name: str
    kind: Kind
    key: str
    chain: str
    issued: float
    expires: float
    renew_after: float
    revoked: float | None = None
    reason: str = ""
