"""Certificates as a device asks for them: its first for a token, the next for the one it has."""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa
from cryptography import x509

from auricle.errors import AuricleError
from auricle.process.times import how_many
from auricle.wire.claims import Certified, Claim, Renewal, key_hash
from auricle_cloud.identity.issuing import Issuer
from auricle_cloud.identity.requests import (
    ClaimError,
    RequestError,
    public_key_of,
    read_certificate,
    read_request,
    serial_of,
)
from auricle_cloud.storage.access_rows import CertificateRow, ClaimRow
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.device_records import Devices
from auricle_cloud.storage.journal import note


class DeviceClaims:
    """Answers claims and renewals.

    Parameters
    ----------
    issuer
        Issues the certificates.
    records, devices
        What is known of tokens, certificates and devices.
    days
        Life of a certificate.
    replaced
        Called when a device has another key, before its claim is answered.
    """

    def __init__(
        self, issuer: Issuer, records: ClaimRecords, devices: Devices, days: float, replaced: Callable[[], None]
    ) -> None:
        self._authority, self._issuer, self._records, self._devices = issuer.authority, issuer, records, devices
        self._days, self._replaced = days, replaced

    def proof(self, asked: Claim | Renewal) -> str | None:
        """What a request is counted by that shows a token or key of ours; None where it shows none.

        Nobody else can use up what is counted so: a token is told to one board, and only who holds the key of a
        certificate can sign the request for the next.
        """
        with self._records.reading() as tx:
            if isinstance(asked, Claim):
                row = self._records.find(tx, asked.token, hold=False)
                return None if row is None else f"claim {row.device} {row.expires}"
            try:
                held, request = read_certificate(asked.certificate), read_request(asked.request)
            except (ClaimError, RequestError):
                return None
            ours = self._authority.issued(held) and key_hash(held) == key_hash(request)
            return f"certificate {serial_of(held)}" if ours else None

    def claim(self, claim: Claim, *, who: str) -> Certified:
        """Exchange a token for a certificate; the same token and key get the same certificate again.

        Parameters
        ----------
        claim
            What the device sent.
        who
            Where it came from, for the journal.

        Raises
        ------
        ClaimError
            The token is unknown, used by another key, or has expired, or the device was revoked.
        RequestError
            The certificate request cannot be used; the token stays good.
        """
        certified, replaced = self._claim(claim, who)
        if replaced:
            self._replaced()
        return certified

    def _claim(self, claim: Claim, who: str) -> tuple[Certified, bool]:
        with self._records.writing() as tx:
            row = self._records.find(tx, claim.token)
            refusal = self._refusal(tx, row)
            if row is None or refusal is not None:
                error: AuricleError = ClaimError(refusal or "")
            else:
                try:
                    return self._exchange(tx, row, read_request(claim.request), claim.public_key, who), row.replaces
                except (ClaimError, RequestError) as found:
                    error = found
            device = "" if row is None else row.device
            note(tx, "claim refused", device=device, who=who, detail=str(error))
        raise error

    def _refusal(self, tx: sa.Connection, row: ClaimRow | None) -> str | None:
        again = "make another with auricle cloud enrol token."
        if row is None:
            return f"This claim token is unknown, or a newer one took its place: {again}"
        if row.expires < time.time():
            return f"The claim token of {row.device} has expired: {again}"
        if self._records.is_banned(tx, row.device):
            return f"{row.device} was revoked for good: it needs a new name and token."
        return None

    def _exchange(
        self,
        tx: sa.Connection,
        row: ClaimRow,
        request: x509.CertificateSigningRequest,
        public_key: str | None,
        who: str,
    ) -> Certified:
        device, key = row.device, key_hash(request)
        if row.used is not None:
            known = self._records.newest(tx, device, key) if row.key == key else None
            if known is None:
                raise ClaimError(
                    f"The claim token of {device} was used by another key: where that was not you, revoke {device}."
                )
            return self._issuer.certified(known)
        if row.replaces:
            self._replace(tx, device, public_key, who)
        self._records.use(tx, device, key)
        return self._issuer.issue(tx, device, "device", public_key_of(request), self._days, who)

    def _replace(self, tx: sa.Connection, device: str, public_key: str | None, who: str) -> None:
        """What the board that had the name holds is worth nothing from now on; standing and history stay."""
        if public_key is None:
            raise RequestError(f"The claim must name its public_key to replace {device}: install this version's agent.")
        count = self._records.revoke(tx, device, "replaced")
        self._devices.rekey(tx, device, bytes.fromhex(public_key))
        detail = f"{how_many(count, 'certificate')} revoked, key {public_key[:16]}"
        note(tx, "replaced", device=device, who=who, detail=detail)
        self._authority.write_revoked(self._records.revoked(tx))

    def renew(self, renewal: Renewal, *, who: str) -> Certified:
        """Give a device the certificate after the one it has, for the same key.

        Before two thirds of a certificate's life are over it is the answer itself: asking twice issues one.

        Raises
        ------
        ClaimError
            The certificate is not one of ours, was revoked, has expired, or is for another key.
        RequestError
            The certificate request cannot be used.
        """
        with self._records.writing() as tx:
            device = ""
            try:
                held, request = read_certificate(renewal.certificate), read_request(renewal.request)
                row = self._records.get(tx, serial_of(held)) if self._authority.issued(held) else None
                device = "" if row is None else row.name
                return self._next(tx, row, request, who)
            except (ClaimError, RequestError) as found:
                error: AuricleError = found
            note(tx, "renewal refused", device=device, who=who, detail=str(error))
        raise error

    def _next(
        self, tx: sa.Connection, row: CertificateRow | None, request: x509.CertificateSigningRequest, who: str
    ) -> Certified:
        if row is None or row.kind != "device":
            raise ClaimError("This certificate is not that of a device of this coordinator.")
        device, key = row.name, key_hash(request)
        if row.revoked is not None or self._records.is_banned(tx, device):
            raise ClaimError(f"The certificate of {device} was revoked.")
        if row.expires < time.time():
            raise ClaimError(
                f"The certificate of {device} has expired: claim with a token that auricle cloud enrol token "
                "--replace makes."
            )
        if row.key != key:
            raise ClaimError(f"The request is not signed by the key of {device}'s certificate.")
        newest = self._records.newest(tx, device, key)
        if newest is not None and time.time() < newest.renew_after:
            return self._issuer.certified(newest)
        return self._issuer.issue(tx, device, "device", public_key_of(request), self._days, who)
