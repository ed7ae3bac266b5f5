"""Certificates and claim tokens for operators: seen, and made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from auricle.errors import SettingsError
from auricle.wire.kinds import DeviceId
from auricle_cloud.operations.enrolment_answers import CertificateRow, ClaimRow, ClaimTokenRow, ClaimTokens, Enrolled
from auricle_cloud.operations.operating import Certifier, ConflictError, NotFoundError, Operator, as_answer

Count = Annotated[int, Meta(ge=1, le=1000, description="So many new names.")]
Prefix = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,55}\Z", description="Names are PREFIX-001 and so on.")]
Hours = Annotated[float, Meta(gt=0, le=720, description="How long they may be used.")]
MISSING = "This coordinator has no certificate authority: make it with auricle cloud enrol init."


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
            raise ConflictError("Name the device that is to be replaced.")
        names = certifier.free_names(prefix, count) if device is None else [device]
        try:
            with self._changing():
                return claim_tokens(certifier, names, hours * 3600, who=self.who, replace=replace)
        except SettingsError as error:
            raise ConflictError(str(error)) from error

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
