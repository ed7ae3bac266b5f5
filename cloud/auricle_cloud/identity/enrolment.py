"""How devices get certificates, keep them and lose them: every step is a transaction with an entry in the journal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from auricle.errors import SettingsError
from auricle.process.times import for_how_long, how_many
from auricle.wire.claims import USERS
from auricle.wire.joining import Grant, Join, SealedGrant, seal
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import PublicKey
from auricle_cloud.identity.device_claims import DeviceClaims
from auricle_cloud.identity.issuing import DAY_SECONDS, DEVICE_DAYS, STANDING_DAYS, FleetTold, Issuer
from auricle_cloud.identity.joining import JoinCodes
from auricle_cloud.identity.requests import ClaimError, UnknownNameError, check_device
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.device_records import Devices
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.state_folders import AUTHORITY

LONGEST_CLAIM = 30 * DAY_SECONDS
JOIN_SECONDS = 600.0
"""For how long the token is good that a device gets for a code: it claims at once."""
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
        self.authority = authority
        self.records, self._devices = ClaimRecords(database), Devices(database)
        self._issuer = Issuer(authority, self.records, tells)
        self.claims = DeviceClaims(self._issuer, self.records, self._devices, days, replaced)
        """What devices ask for themselves."""
        self._codes, self._naming = JoinCodes(authority.folder.parent, authority.pin), threading.Lock()

    @property
    def pin(self) -> str:
        """SHA-256 of the root's certificate, which every device is told."""
        return self.authority.pin

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
            raise SettingsError(f"A claim token lives more than 0 and at most {LONGEST_CLAIM / DAY_SECONDS:.0f} days.")
        self.require_names(devices, replace=replace)
        return self.records.create(devices, seconds, who=who, replaces=replace)

    def draw_code(self, seconds: float, *, who: str) -> tuple[str, float]:
        """A code by which devices join for so long, and until when; the one before is worth nothing."""
        drawn = self._codes.draw(seconds)
        with self.records.writing() as tx:
            note(tx, "join code drawn", who=who, detail=f"for {for_how_long(seconds)}")
        return drawn.code, drawn.expires

    def join(self, asked: Join, *, who: str) -> SealedGrant:
        """Give who knows the code a claim token, for the name that it wants or a new one.

        Raises
        ------
        ClaimError
            No code is good now, it is another one, or the name is not to be had.
        """
        try:
            keys = self._codes.check(asked)
            with self._naming:  # two devices at once are two names
                name = asked.device or self.free_names("device", 1)[0]
                token = self.tokens([name], JOIN_SECONDS, who=f"code, from {who}")[0][1]
        except (ClaimError, SettingsError) as error:
            with self.records.writing() as tx:
                note(tx, "join refused", device=asked.device or "", who=who, detail=str(error))
            if isinstance(error, ClaimError):
                raise
            raise ClaimError(f"No device can join as {asked.device}: {error}") from error
        return seal(keys, Grant(token=token, device=name))

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
        """Certify the coordinator, the observer or a worker: its chain."""
        if name not in USERS:
            raise SettingsError(f'"{name}" is a device: make it a claim token with auricle cloud enrol token.')
        with self.records.writing() as tx:
            return self._issuer.issue(tx, name, "user", public, STANDING_DAYS, who).certificate

    def server(self, hosts: Sequence[str], public: PublicKey, *, who: str) -> str:
        """Certify a server under its names and addresses: its chain; SettingsError for what is not a host."""
        until = time.time() + STANDING_DAYS * DAY_SECONDS
        certificate = self.authority.certify_server(hosts, public, until)
        with self.records.writing() as tx:
            return self._issuer.enter(tx, hosts[0], "server", certificate, STANDING_DAYS, who).certificate

    def require(self, name: str) -> None:
        """UnknownNameError where there is neither a claim nor a certificate of a name."""
        if name not in self.records.names():
            raise UnknownNameError(
                f'There is no claim and no certificate of "{name}": auricle cloud enrol list shows all.'
            )

    def revoke(self, name: str, *, who: str, reason: str = "") -> int:
        """Revoke every certificate and token of a name, and a device's standing; write the list; how many there were.

        Raises
        ------
        StorageError
            Nothing is known of the name.
        """
        self.require(name)
        if any(row.device == name for row in self._devices.all()):
            self._devices.set_standing([name], "revoked", who=who, reason=reason)
        with self.records.writing() as tx:
            self.records.forget_claim(tx, name)
            count = self.records.revoke(tx, name, reason)
            note(
                tx,
                "certificate revoked",
                device=name,
                who=who,
                detail=f"{how_many(count, 'certificate')}. {reason}".strip(),
            )
            self.authority.write_revoked(self.records.revoked(tx))
        return count


def open_enrolment(
    state: Path, database: Database, replaced: Callable[[], None] = lambda: None, tells: FleetTold | None = None
) -> Enrolment | None:
    """The enrolment of a coordinator's state folder, see `Enrolment`; None where it has no authority."""
    folder = state / AUTHORITY
    if not (folder / "issuing.pem").is_file():
        return None
    return Enrolment(Authority(folder), database, replaced=replaced, tells=tells)
