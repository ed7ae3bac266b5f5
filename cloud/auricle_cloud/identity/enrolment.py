"""How devices get certificates, keep them and lose them: every step is a transaction with an entry in the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import sqlalchemy as sa
from cryptography import x509

from auricle.errors import AuricleError, SettingsError
from auricle.wire.claims import RESERVED, Certified, Claim, Renewal, key_hash
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import PublicKey
from auricle_cloud.identity.issuing import DAY, DEVICE_DAYS, STANDING_DAYS, FleetTold, Issuer
from auricle_cloud.identity.requests import (
    ClaimError,
    RequestError,
    UnknownNameError,
    check_device,
    public_key_of,
    read_certificate,
    read_request,
    serial_of,
)
from auricle_cloud.storage.access_rows import CertificateRow, ClaimRow
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.device_records import Devices
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.state_folders import AUTHORITY

LONGEST_CLAIM = 30 * DAY
MOST_TOKENS = 10_000


class Enrolment:
    """What an authority does for one coordinator's database.

    Parameters
    ----------
    authority
        It signs.
    database
        It remembers.
    days
        Life of a device's certificate.
    replaced
        Called when a device has another key, before its claim is answered.
    tells
        What devices are told of their fleet.
    """

    def __init__(
        self,
        authority: Authority,
        database: Database,
        *,
        days: float = DEVICE_DAYS,
        replaced: Callable[[], None] = lambda: None,
        tells: FleetTold | None = None,
    ) -> None:
        self.authority, self._replaced, self._days = authority, replaced, days
        self.records, self._devices = ClaimRecords(database), Devices(database)
        self._issuer = Issuer(authority, self.records, tells)

    @property
    def pin(self) -> str:
        """SHA-256 of the root's certificate, which every device is told."""
        return self.authority.pin

    # -- by the operator

    def tokens(
        self, devices: Sequence[str], seconds: float, *, who: str, replace: bool = False
    ) -> list[tuple[str, str, float]]:
        """Make a claim token for each device: name, token and when it expires.

        Parameters
        ----------
        devices
            Their names: new ones, or with `replace` such as have claimed or registered before.
        seconds
            How long a token may be used.
        who
            For the journal.
        replace
            Whoever claims takes the place of the board that has the name.

        Raises
        ------
        SettingsError
            A name or the time is not allowed, a device was revoked for good, a name is taken, or there is nobody to
            replace.
        """
        if not 0 < seconds <= LONGEST_CLAIM:
            raise SettingsError(f"A claim token lives more than 0 and at most {LONGEST_CLAIM / DAY:.0f} days.")
        self.require_names(devices, replace=replace)
        return self.records.create(devices, seconds, who=who, replaces=replace)

    def require_names(self, devices: Sequence[str], *, replace: bool = False) -> None:
        """Refuse names that get no token; errors as in `tokens`."""
        if not 1 <= len(devices) <= MOST_TOKENS:
            raise SettingsError(f"Between 1 and {MOST_TOKENS} tokens can be made at once.")
        with self.records.writing() as tx:
            for device in devices:
                check_device(device)
                if self.records.is_banned(tx, device):
                    raise SettingsError(f"{device} was revoked for good: choose a new name.")
                if self.records.is_taken(tx, device) != replace:
                    raise SettingsError(
                        f"There is no {device} to replace: is that its name? A new device is made without --replace."
                        if replace
                        else f"{device} is taken: add --replace for its own board, with a new card or not, or one that "
                        "takes its place; any other needs another name."
                    )

    def free_names(self, prefix: str, count: int) -> list[str]:
        """New names in order, PREFIX-001 and so on: none that has a claim or a certificate."""
        taken, number = self.records.names(), 0
        names: list[str] = []
        while len(names) < count:
            number += 1
            if (name := f"{prefix}-{number:03}") not in taken:
                names.append(name)
        return names

    def user(self, name: str, public: PublicKey, *, who: str) -> str:
        """Certify the coordinator or the observer: its chain."""
        if name not in RESERVED[:2]:
            raise SettingsError(f'"{name}" is a device: make it a claim token with auricle cloud enrol token.')
        with self.records.writing() as tx:
            return self._issuer.issue(tx, name, "user", public, STANDING_DAYS, who).certificate

    def server(self, hosts: Sequence[str], public: PublicKey, *, who: str) -> str:
        """Certify a server under its names and addresses: its chain; SettingsError for what is no host."""
        until = time.time() + STANDING_DAYS * DAY
        certificate = self.authority.certify_server(hosts, public, until)
        with self.records.writing() as tx:
            return self._issuer.enter(tx, hosts[0], "server", certificate, STANDING_DAYS, who).certificate

    def revoke(self, name: str, *, who: str, reason: str = "") -> int:
        """Revoke every certificate and token of a name, and a device's standing; write the list; how many there were.

        Raises
        ------
        StorageError
            Nothing is known of the name.
        """
        if name not in self.records.names():
            raise UnknownNameError(
                f'There is no claim and no certificate of "{name}": auricle cloud enrol list shows all.'
            )
        if any(row.device == name for row in self._devices.all()):
            self._devices.set_standing([name], "revoked", who=who, reason=reason)
        with self.records.writing() as tx:
            self.records.forget_claim(tx, name)
            count = self.records.revoke(tx, name, reason)
            note(tx, "certificate revoked", device=name, who=who, detail=f"{count} certificates. {reason}".strip())
            self.authority.write_revoked(self.records.revoked(tx))
        return count

    # -- by the device

    def proof(self, asked: Claim | Renewal) -> str | None:
        """What a request is counted by that shows a token or key of ours; None where it shows none.

        Nobody else can use up what is counted so: a token is told to one board, and only who holds the key of a
        certificate can sign the request for the next.
        """
        with self.records.reading() as tx:
            if isinstance(asked, Claim):
                row = self.records.find(tx, asked.token, hold=False)
                return None if row is None else f"claim {row.device} {row.expires}"
            try:
                held, request = read_certificate(asked.certificate), read_request(asked.request)
            except (ClaimError, RequestError):
                return None
            ours = self.authority.issued(held) and key_hash(held) == key_hash(request)
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
        with self.records.writing() as tx:
            row = self.records.find(tx, claim.token)
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
        if self.records.is_banned(tx, row.device):
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
            known = self.records.newest(tx, device, key) if row.key == key else None
            if known is None:
                raise ClaimError(f"The claim token of {device} was used by another key: if that was not you, revoke.")
            return self._issuer.certified(known)
        if row.replaces:
            self._replace(tx, device, public_key, who)
        self.records.use(tx, device, key)
        return self._issuer.issue(tx, device, "device", public_key_of(request), self._days, who)

    def _replace(self, tx: sa.Connection, device: str, public_key: str | None, who: str) -> None:
        """What the board that had the name holds is worth nothing from now on; standing and history stay."""
        if public_key is None:
            raise RequestError(f"The claim must name its public_key to replace {device}: install this version's agent.")
        count = self.records.revoke(tx, device, "replaced")
        self._devices.rekey(tx, device, bytes.fromhex(public_key))
        note(tx, "replaced", device=device, who=who, detail=f"{count} certificates revoked, key {public_key[:16]}")
        self.authority.write_revoked(self.records.revoked(tx))

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
        with self.records.writing() as tx:
            device = ""
            try:
                held, request = read_certificate(renewal.certificate), read_request(renewal.request)
                row = self.records.get(tx, serial_of(held)) if self.authority.issued(held) else None
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
        if row.revoked is not None or self.records.is_banned(tx, device):
            raise ClaimError(f"The certificate of {device} was revoked.")
        if row.expires < time.time():
            raise ClaimError(
                f"The certificate of {device} has expired: claim with a token that auricle cloud enrol token "
                "--replace makes."
            )
        if row.key != key:
            raise ClaimError(f"The request is not signed by the key of {device}'s certificate.")
        newest = self.records.newest(tx, device, key)
        if newest is not None and time.time() < newest.renew_after:
            return self._issuer.certified(newest)
        return self._issuer.issue(tx, device, "device", public_key_of(request), self._days, who)


def open_enrolment(
    state: Path, database: Database, replaced: Callable[[], None] = lambda: None, tells: FleetTold | None = None
) -> Enrolment | None:
    """The enrolment of a coordinator's state folder, see `Enrolment`; None where it has no authority."""
    folder = state / AUTHORITY
    if not (folder / "issuing.pem").is_file():
        return None
    return Enrolment(Authority(folder), database, replaced=replaced, tells=tells)
