"""Claim tokens and certificates in the database. Of tokens only hashes are kept."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

import sqlalchemy as sa
from msgspec.structs import asdict

from auricle.process.times import for_how_long
from auricle_cloud.storage.access_rows import CertificateGlance, CertificateRow, ClaimRow, PendingClaim
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import certificates, claims, devices


class ClaimRecords:
    """Who may become which device, and who has."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction of the database; see `Database.writing`."""
        return self._db.writing()

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that changes nothing."""
        return self._db.reading()

    def create(
        self, devices: Sequence[str], seconds: float, *, who: str = "", replaces: bool = False
    ) -> list[tuple[str, str, float]]:
        """Make a token for each device: name, token and when it expires. One that it had before is worth nothing."""
        now, kind = time.time(), "replacement token created" if replaces else "claim token created"
        made = [(device, secrets.token_urlsafe(32), now + seconds) for device in devices]
        with self._db.writing() as tx:
            for device, token, expires in made:
                row = {
                    "hash": token_hash(token),
                    "created": now,
                    "expires": expires,
                    "used": None,
                    "key": None,
                    "replaces": replaces,
                }
                self._db.upsert(tx, claims, {"device": device}, row)
                note(tx, kind, device=device, who=who, detail=f"for {for_how_long(seconds)}")
        return made

    @staticmethod
    def find(tx: sa.Connection, token: str, *, hold: bool = True) -> ClaimRow | None:
        """The claim of a token, held until the transaction ends; None without one."""
        query = ClaimRow.select(claims).where(claims.c.hash == token_hash(token))
        return ClaimRow.first(tx, query.with_for_update() if hold else query)

    @staticmethod
    def use(tx: sa.Connection, device: str, key: str) -> None:
        """Note that a device's token was used by the owner of this key."""
        tx.execute(sa.update(claims).where(claims.c.device == device).values(used=time.time(), key=key))

    def pending(self) -> list[PendingClaim]:
        """Tokens that may still be used, by device."""
        query = PendingClaim.select(claims).where(claims.c.used.is_(None), claims.c.expires > time.time())
        with self._db.reading() as tx:
            return PendingClaim.read(tx, query.order_by(claims.c.device))

    def is_used(self) -> bool:
        """Whether devices of this fleet get their names by tokens and certificates."""
        with self._db.reading() as tx:
            return any(
                tx.execute(sa.select(sa.exists().select_from(table))).scalar() for table in (certificates, claims)
            )

    def names(self) -> set[str]:
        """Devices that have or had a token or a certificate, or are registered."""
        with self._db.reading() as tx:
            columns = (claims.c.device, certificates.c.name, devices.c.device)
            return {name for column in columns for name in tx.execute(sa.select(column)).scalars()}

    @staticmethod
    def is_taken(tx: sa.Connection, device: str) -> bool:
        """Whether a device has a certificate that is not revoked, or is registered."""
        certified = sa.exists().where(certificates.c.name == device, certificates.c.revoked.is_(None))
        registered = sa.exists().where(devices.c.device == device)
        return bool(tx.execute(sa.select(certified | registered)).scalar())

    def users(self) -> set[str]:
        """Who may speak to a broker, or might once: who has or had a certificate of a user or device, or a token."""
        certified = sa.select(certificates.c.name).where(certificates.c.kind != "server")
        with self._db.reading() as tx:
            claimed = set(tx.execute(sa.select(claims.c.device)).scalars())
            return claimed | set(tx.execute(certified).scalars())

    # -- certificates

    @staticmethod
    def add(tx: sa.Connection, row: CertificateRow) -> None:
        """Enter a certificate that was issued."""
        tx.execute(certificates.insert().values(**asdict(row)))

    @staticmethod
    def newest(tx: sa.Connection, name: str, key: str) -> CertificateRow | None:
        """The newest certificate of a name for this key that is not revoked."""
        own = (certificates.c.name == name) & (certificates.c.key == key) & certificates.c.revoked.is_(None)
        newest_first = (certificates.c.expires.desc(), certificates.c.issued.desc())
        return CertificateRow.first(tx, CertificateRow.select(certificates).where(own).order_by(*newest_first))

    @staticmethod
    def get(tx: sa.Connection, serial: str) -> CertificateRow | None:
        """A certificate by its serial number in hexadecimal."""
        return CertificateRow.first(tx, CertificateRow.select(certificates).where(certificates.c.serial == serial))

    @staticmethod
    def revoke(tx: sa.Connection, name: str, reason: str) -> int:
        """Revoke all certificates of a name; how many."""
        own = (certificates.c.name == name) & certificates.c.revoked.is_(None)
        done = tx.execute(sa.update(certificates).where(own).values(revoked=time.time(), reason=reason[:200]))
        return done.rowcount

    @staticmethod
    def forget_claim(tx: sa.Connection, device: str) -> None:
        """Make a device's token worthless."""
        tx.execute(sa.delete(claims).where(claims.c.device == device))

    @staticmethod
    def revoked(tx: sa.Connection) -> list[tuple[int, float]]:
        """Serial numbers and times of what is revoked and has not run out."""
        columns = (certificates.c.serial, certificates.c.revoked)
        query = sa.select(*columns).where(certificates.c.revoked.is_not(None), certificates.c.expires > time.time())
        return [(int(row.serial, 16), row.revoked) for row in tx.execute(query.order_by(certificates.c.serial))]

    @staticmethod
    def is_banned(tx: sa.Connection, device: str) -> bool:
        """Whether a device's standing is revoked."""
        query = sa.select(devices.c.standing).where(devices.c.device == device)
        return tx.execute(query).scalar() == "revoked"

    def shut_out(self) -> list[str]:
        """Users and devices that had certificates and have none any more, and devices whose standing is revoked."""
        good = sa.select(certificates.c.name).where(certificates.c.revoked.is_(None))
        lost = sa.select(certificates.c.name).where(certificates.c.kind != "server", certificates.c.name.not_in(good))
        banned = sa.select(devices.c.device).where(devices.c.standing == "revoked")
        with self._db.reading() as tx:
            return sorted({*tx.execute(lost).scalars(), *tx.execute(banned).scalars()})

    def all(self) -> list[CertificateGlance]:
        """Every certificate without its bytes, by name."""
        query = CertificateGlance.select(certificates).order_by(certificates.c.name, certificates.c.issued)
        with self._db.reading() as tx:
            return CertificateGlance.read(tx, query)


def token_hash(token: str) -> bytes:
    """What is kept of a token: it is random, so one round of SHA-256 is as good as many."""
    return hashlib.sha256(token.encode()).digest()
