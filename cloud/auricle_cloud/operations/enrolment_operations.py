"""Certificates and claim tokens for operators: seen, and made; and what operators are told about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from auricle.errors import SettingsError
from auricle.process.times import Time
from auricle.wire.join_codes import show_code
from auricle.wire.kinds import DeviceId
from auricle_cloud.operations.operating import Certifier, ConflictError, NotFoundError, Operator, as_answer
from auricle_cloud.operations.types import Answer

Count = Annotated[int, Meta(ge=1, le=1000, description="So many new names.")]
Prefix = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,55}\Z", description="Names are PREFIX-001 and so on.")]
Hours = Annotated[float, Meta(gt=0, le=720, description="How long they may be used.")]
Minutes = Annotated[float, Meta(gt=0, le=1440, description="How long it may be used.")]
MISSING = "This coordinator has no certificate authority: make it with auricle cloud enrol init."


class ClaimTokenRow(Answer, frozen=True, kw_only=True):
    """What a device is given; the token is never shown again."""

    device: str
    token: str
    expires: Time
    replaces: bool
    """Whether who claims it takes the place of the board that has the name."""


class ClaimTokens(Answer, frozen=True, kw_only=True):
    """Claim tokens."""

    pin: str
    """SHA-256 of the authority's root certificate, which every device is told."""
    tokens: list[ClaimTokenRow]


class JoinCode(Answer, frozen=True, kw_only=True):
    """What people type at devices that join."""

    code: str
    expires: Time


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


class EnrolmentOperations(Operator):
    """What operators can do about who may connect."""

    def list_enrolled(self) -> Enrolled:
        """List certificates, and claim tokens that may still be used."""
        return enrolled(self._authority())

    def create_claims(
        self,
        device: DeviceId | None = None,
        prefix: Prefix = "device",
        count: Count = 1,
        hours: Hours = 24.0,
        replace: bool = False,
    ) -> ClaimTokens:
        """Make one-time tokens that devices exchange for their certificates: for one by name, or for new names."""
        certifier = self._authority()
        if device is None and replace:
            raise ConflictError("Name the device that is replaced.")
        names = certifier.free_names(prefix, count) if device is None else [device]
        try:
            with self._changing():
                return claim_tokens(certifier, names, hours * 3600, who=self.who, replace=replace)
        except SettingsError as error:
            raise ConflictError(str(error)) from error

    def draw_join_code(self, minutes: Minutes = 30.0) -> JoinCode:
        """Draw the code that devices of this network join by: `auricle edge run --home` asks for it."""
        certifier = self._authority()
        with self._changing():
            code, expires = certifier.draw_code(minutes * 60, who=self.who)
        return JoinCode(code=show_code(code), expires=expires)

    def _authority(self) -> Certifier:
        found = self._enrolment()
        if found is None:
            raise NotFoundError(MISSING)
        return found


def enrolled(certifier: Certifier) -> Enrolled:
    """Who is certified, and who may be."""
    return Enrolled(
        pin=certifier.pin,
        certificates=[as_answer(CertificateRow, row) for row in certifier.records.all()],
        claims=[as_answer(ClaimRow, row) for row in certifier.records.pending()],
    )


def claim_tokens(
    certifier: Certifier, devices: Sequence[str], seconds: float, *, who: str, replace: bool = False
) -> ClaimTokens:
    """Make a claim token for each device; SettingsError for names or a time that are not allowed."""
    made = certifier.tokens(devices, seconds, who=who, replace=replace)
    return ClaimTokens(
        pin=certifier.pin,
        tokens=[
            ClaimTokenRow(device=device, token=token, expires=expires, replaces=replace)
            for device, token, expires in made
        ],
    )
