"""How devices get certificates, keep them and lose them: every step is a transaction with an entry in the journal."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import sqlalchemy as sa
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec

from auricle.errors import NOT_FOUND, AuricleError, SettingsError, StorageError
from auricle.wire.claims import RESERVED, Certified, Claim, Renewal, key_hash
from auricle.wire.messages import DeviceId
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import PublicKey
from auricle_cloud.storage.access_rows import CertificateRow, ClaimRow, Kind
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.device_records import Devices
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.state_folders import AUTHORITY

DAY = 86400.0
DEVICE_DAYS, STANDING_DAYS = 365.0, 3650.0
"""How long certificates live: those of devices, which renew them by themselves, and those of servers and users."""
RENEW_AT = 2 / 3
"""Share of its life after which a certificate is renewed."""
LONGEST_CLAIM = 30 * DAY
MOST_TOKENS = 10_000


class ClaimError(AuricleError):
    """A claim or renewal that is refused; its request is not at fault, but the right to it is missing."""


class UnknownNameError(StorageError):
    """A name that nothing was given to."""

    exit_code = NOT_FOUND


class RequestError(AuricleError):
    """A certificate request that is none, or not signed by its own key, or for a key of another kind."""


@dataclass(frozen=True)
class FleetTold:
    """What a device that claims is told of its fleet, so that its agent needs nothing else."""

    fleet: str
    broker: str | None
    """As devices reach it."""
    coordinator: str
    """Public key in hex."""


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
        self.authority, self._replaced, self._tells = authority, replaced, tells
        self.records = ClaimRecords(database)
        self._devices = Devices(database)
        self._days = days

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
            return self._issue(tx, name, "user", public, STANDING_DAYS, who).certificate

    def server(self, hosts: Sequence[str], public: PublicKey, *, who: str) -> str:
        """Certify a server under its names and addresses: its chain; SettingsError for what is no host."""
        until = time.time() + STANDING_DAYS * DAY
        certificate = self.authority.certify_server(hosts, public, until)
        with self.records.writing() as tx:
            return self._enter(tx, hosts[0], "server", certificate, STANDING_DAYS, who).certificate

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
                held, request = _read_certificate(asked.certificate), read_request(asked.request)
            except (ClaimError, RequestError):
                return None
            ours = self.authority.issued(held) and key_hash(held) == key_hash(request)
            return f"certificate {_serial(held)}" if ours else None

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
            return self._certified(known)
        if row.replaces:
            self._replace(tx, device, public_key, who)
        self.records.use(tx, device, key)
        return self._issue(tx, device, "device", _public(request), self._days, who)

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
                held, request = _read_certificate(renewal.certificate), read_request(renewal.request)
                row = self.records.get(tx, _serial(held)) if self.authority.issued(held) else None
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
            return self._certified(newest)
        return self._issue(tx, device, "device", _public(request), self._days, who)

    # -- issuing

    def _issue(self, tx: sa.Connection, name: str, kind: Kind, public: PublicKey, days: float, who: str) -> Certified:
        certificate = self.authority.certify(name, public, time.time() + days * DAY)
        return self._enter(tx, name, kind, certificate, days, who)

    def _enter(
        self, tx: sa.Connection, name: str, kind: Kind, certificate: x509.Certificate, days: float, who: str
    ) -> Certified:
        now, expires = time.time(), certificate.not_valid_after_utc.timestamp()
        row = CertificateRow(
            serial=_serial(certificate),
            name=name,
            kind=kind,
            key=key_hash(certificate),
            chain=self.authority.chain(certificate),
            issued=now,
            expires=expires,
            renew_after=now + (expires - now) * RENEW_AT,
        )
        self.records.add(tx, row)
        device = name if kind == "device" else ""
        note(tx, "certificate issued", device=device, who=who, detail=f"{kind} {name}, for {days:.0f} days")
        return self._certified(row)

    def _certified(self, row: CertificateRow) -> Certified:
        return Certified(
            device=row.name,
            certificate=row.chain,
            expires=row.expires,
            renew_after=row.renew_after,
            password=self.authority.passwords().of(row.name) if row.kind == "device" else None,
            **({} if self._tells is None else dataclasses.asdict(self._tells)),
        )


def open_enrolment(
    state: Path, database: Database, replaced: Callable[[], None] = lambda: None, tells: FleetTold | None = None
) -> Enrolment | None:
    """The enrolment of a coordinator's state folder, see `Enrolment`; None where it has no authority."""
    folder = state / AUTHORITY
    if not (folder / "issuing.pem").is_file():
        return None
    return Enrolment(Authority(folder), database, replaced=replaced, tells=tells)


def check_device(name: str) -> None:
    """SettingsError for what cannot be a device's name, or is the name of somebody with other rights."""
    try:
        msgspec.convert(name, DeviceId)
    except msgspec.ValidationError as error:
        raise SettingsError(f'A device cannot be named "{name}": use 4 to 64 of a-z, 0-9 and hyphen.') from error
    if name in RESERVED:
        raise SettingsError(f'A device cannot be named "{name}": that name has other rights at the broker.')


def read_request(pem: str) -> x509.CertificateSigningRequest:
    """A certificate request that its own key has signed.

    Raises
    ------
    RequestError
        It is no request, its signature is wrong, or its key is not on P-256.
    """
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        _public(request)
        good = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RequestError("The certificate request cannot be read: send PKCS #10 as PEM.") from error
    if not good:
        raise RequestError("The certificate request is not signed by the key in it.")
    return request


def _public(request: x509.CertificateSigningRequest) -> PublicKey:
    public = request.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise RequestError("The certificate request is for a key of another kind: use one on P-256.")
    return public


def _read_certificate(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise ClaimError("The certificate cannot be read: send it as PEM.") from error


def _serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"
