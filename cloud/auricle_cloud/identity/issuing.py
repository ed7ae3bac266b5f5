"""Certificates as they are issued: signed, entered, and told to their owners."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import sqlalchemy as sa
from cryptography import x509

from auricle.process.times import for_how_long
from auricle.wire.claims import Certified, key_hash
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import PublicKey
from auricle_cloud.identity.requests import serial_of
from auricle_cloud.storage.access_rows import CertificateRow, Kind
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.journal import note

DAY_SECONDS = 86400.0
DEVICE_DAYS, STANDING_DAYS = 365.0, 3650.0
"""How long certificates live: those of devices, which renew them by themselves, and those of servers and users."""
RENEW_AT = 2 / 3
"""Share of its life after which a certificate is renewed."""


@dataclass(frozen=True)
class FleetTold:
    """What a device that claims is told of its fleet, so that its agent needs nothing else."""

    fleet: str
    broker: str | None
    """As devices reach it."""
    coordinator: str
    """Public key in hex."""


class Issuer:
    """Issues certificates of one authority.

    Parameters
    ----------
    authority
        It signs.
    records
        They remember.
    tells
        What devices are told of their fleet.
    """

    def __init__(self, authority: Authority, records: ClaimRecords, tells: FleetTold | None) -> None:
        self.authority, self._records, self._tells = authority, records, tells

    def issue(self, tx: sa.Connection, name: str, kind: Kind, public: PublicKey, days: float, who: str) -> Certified:
        """Certify a key under a name for so many days, in the transaction of what it is for."""
        certificate = self.authority.certify(name, public, time.time() + days * DAY_SECONDS)
        return self.enter(tx, name, kind, certificate, days, who)

    def enter(
        self, tx: sa.Connection, name: str, kind: Kind, certificate: x509.Certificate, days: float, who: str
    ) -> Certified:
        """Enter a certificate that was just signed."""
        now, expires = time.time(), certificate.not_valid_after_utc.timestamp()
        row = CertificateRow(
            serial=serial_of(certificate),
            name=name,
            kind=kind,
            key=key_hash(certificate),
            chain=self.authority.chain(certificate),
            issued=now,
            expires=expires,
            renew_after=now + (expires - now) * RENEW_AT,
        )
        self._records.add(tx, row)
        device = name if kind == "device" else ""
        note(
            tx, "certificate issued", device=device, who=who, detail=f"{kind} {name}, for {for_how_long(days * 86_400)}"
        )
        return self.certified(row)

    def certified(self, row: CertificateRow) -> Certified:
        """What its owner is told."""
        return Certified(
            device=row.name,
            certificate=row.chain,
            expires=row.expires,
            renew_after=row.renew_after,
            password=self.authority.passwords().of(row.name) if row.kind == "device" else None,
            **({} if self._tells is None else dataclasses.asdict(self._tells)),
        )
