"""A small certificate authority in a folder: a root that can be put away, and an issuing authority that works.

`root.pem`, `root.key`, `issuing.pem`, `issuing.key`, `revoked.pem` (the revocation list), `passwords.key` (of the
broker's users). Keys are readable by their owner only, and encrypted where a passphrase is given.
"""

from __future__ import annotations

import datetime
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from auricle.errors import REFUSED_CODE, SettingsError, StorageError
from auricle.files import read_kept, read_text, write_durably
from auricle.wire.claims import UNREADABLE, pin
from auricle_cloud.identity.broker_files import Passwords
from auricle_cloud.identity.certificates import (
    Key,
    PublicKey,
    authority_certificate,
    new_key,
    server_certificate,
    user_certificate,
)

PASSPHRASE = "AURICLE_AUTHORITY_PASSPHRASE"
"""Environment variable with the keys' passphrase; with `_FILE` at its end, of the file that holds it."""
LONGEST_PASSPHRASE = 4096
"""Bytes of a passphrase's file."""
ROOT_YEARS, ISSUING_YEARS = 30, 20
LAG = datetime.timedelta(days=1)
"""A revocation list says that it is a day old: a broker whose clock is behind would refuse everybody otherwise."""
YEAR = datetime.timedelta(days=365)


class AuthorityExistsError(SettingsError):
    """There is an authority already."""

    exit_code = REFUSED_CODE


class Authority:
    """The authority in this folder.

    Raises
    ------
    StorageError
        It is missing, it cannot be read, or its passphrase is another one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "issuing.pem").is_file():
            raise StorageError(f"There is no certificate authority in {folder}: make it with auricle cloud enrol init.")
        try:
            self.root = x509.load_pem_x509_certificate(read_kept(folder / "root.pem"))
            self.issuing = x509.load_pem_x509_certificate(read_kept(folder / "issuing.pem"))
            loaded = serialization.load_pem_private_key(read_kept(folder / "issuing.key"), passphrase())
        except (OSError, *UNREADABLE) as error:
            raise StorageError(
                f"The certificate authority in {folder} cannot be used: {error}; is {PASSPHRASE} right?"
            ) from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise StorageError(f"{folder / 'issuing.key'} is not a key on an elliptic curve.")
        self._key: Key = loaded

    @classmethod
    def create(cls, folder: Path, name: str) -> Authority:
        """Make an authority; what a power cut left half-made is finished.

        Raises
        ------
        SettingsError
            There is one already, or the name is not allowed.
        """
        if (folder / "issuing.pem").exists():
            raise AuthorityExistsError(
                f"There is an authority in {folder}: with another one all its devices were strangers."
            )
        if not (0 < len(name) <= 48 and name.isascii() and name.isprintable()):
            raise SettingsError("An authority's name is 1 to 48 letters and digits.")
        now = datetime.datetime.now(datetime.timezone.utc)
        root_key, issuing_key = new_key(), new_key()
        root = authority_certificate(f"{name} root", root_key.public_key(), root_key, None, now + ROOT_YEARS * YEAR)
        issuing = authority_certificate(
            f"{name} issuing", issuing_key.public_key(), root_key, root, now + ISSUING_YEARS * YEAR
        )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for file, key in (("root.key", root_key), ("issuing.key", issuing_key)):
            write_durably(folder / file, key_pem(key, passphrase()), mode=0o600)
        write_durably(folder / "root.pem", root.public_bytes(Encoding.PEM))
        write_durably(folder / "issuing.pem", issuing.public_bytes(Encoding.PEM))
        made = cls(folder)
        made.write_revoked(())
        return made

    @property
    def pin(self) -> str:
        """SHA-256 of the root's certificate: what a device is told beforehand."""
        return pin(self.root)

    @property
    def root_pem(self) -> str:
        """The root's certificate."""
        return self.root.public_bytes(Encoding.PEM).decode()

    @property
    def bundle(self) -> str:
        """Both certificates, for a broker that checks clients."""
        return self.issuing.public_bytes(Encoding.PEM).decode() + self.root_pem

    @property
    def revoked_file(self) -> Path:
        """The revocation list."""
        return self.folder / "revoked.pem"

    def passwords(self) -> Passwords:
        """The passwords of the broker's users; their key is drawn where it is missing.

        It is kept as the seed of an Ed25519 key, which is 32 random bytes, in a file like those of the other keys.

        Raises
        ------
        StorageError
            The key cannot be read or written.
        """
        file = self.folder / "passwords.key"
        try:
            if not file.exists():
                self._draw_once(file)
            loaded = serialization.load_pem_private_key(read_kept(file), passphrase())
        except (OSError, *UNREADABLE) as error:
            raise StorageError(f"The passwords' key {file} cannot be used: {error}.") from error
        if not isinstance(loaded, ed25519.Ed25519PrivateKey):
            raise StorageError(f"{file} is not a key of passwords.")
        return Passwords(loaded.private_bytes_raw())

    def _draw_once(self, file: Path) -> None:
        """Draw the passwords' key; of two processes that want to, one does."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not file.exists():
                write_durably(file, key_pem(ed25519.Ed25519PrivateKey.generate(), passphrase()), mode=0o600)
        finally:
            os.close(handle)

    def chain(self, certificate: x509.Certificate) -> str:
        """A certificate and the issuing authority's."""
        return (certificate.public_bytes(Encoding.PEM) + self.issuing.public_bytes(Encoding.PEM)).decode()

    def certify(self, name: str, public: PublicKey, until: float) -> x509.Certificate:
        """Issue a client certificate for the owner of a key, until these seconds since 1970."""
        return user_certificate(name, public, self._key, self.issuing, _date(until))

    def certify_server(self, hosts: Sequence[str], public: PublicKey, until: float) -> x509.Certificate:
        """Issue a server certificate; SettingsError for what is not a host."""
        return server_certificate(hosts, public, self._key, self.issuing, _date(until))

    def issued(self, certificate: x509.Certificate) -> bool:
        """Whether this authority signed a certificate."""
        try:
            certificate.verify_directly_issued_by(self.issuing)
        except (*UNREADABLE, InvalidSignature):
            return False
        return True

    def issued_file(self, path: Path) -> bool:
        """Whether a file is there, and begins with a certificate that this authority issued."""
        try:
            return self.issued(x509.load_pem_x509_certificates(read_kept(path))[0])
        except (FileNotFoundError, *UNREADABLE):
            return False

    def write_revoked(self, revoked: Iterable[tuple[int, float]]) -> None:
        """Write the revocation list from serial numbers and times in seconds since 1970.

        Brokers that read the list again keep the one with the latest date, so each is at least a second younger than
        the one before. It does not run out: the list is read from a file, and one that ran out would stop the fleet.
        """
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) - LAG
        number = 1
        if self.revoked_file.exists():
            before = x509.load_pem_x509_crl(read_kept(self.revoked_file))
            now = max(now, before.last_update_utc + datetime.timedelta(seconds=1))
            number = before.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number + 1
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.issuing.subject)
            .last_update(now)
            .next_update(self.issuing.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        for serial, at in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(_date(at)).build()
            builder = builder.add_revoked_certificate(entry)
        signed = builder.sign(self._key, hashes.SHA256())
        write_durably(self.revoked_file, signed.public_bytes(Encoding.PEM))


def passphrase(variable: str = PASSPHRASE) -> bytes | None:
    """The keys' passphrase from the environment; None: they are not encrypted.

    Raises
    ------
    SettingsError
        The file with it cannot be read, or it is empty.
    """
    text = os.environ.get(variable)
    file = os.environ.get(f"{variable}_FILE")
    if text is None and file is not None:
        text = read_text(Path(file), "The passphrase's file", most=LONGEST_PASSPHRASE).rstrip("\n")
    if text == "":
        raise SettingsError(f"The passphrase in {variable} is empty: write one, or leave the variable out.")
    return None if text is None else text.encode()


def key_pem(key: Key | ed25519.Ed25519PrivateKey, secret: bytes | None = None) -> bytes:
    """A private key's file, encrypted where there is a passphrase."""
    how = serialization.NoEncryption() if secret is None else serialization.BestAvailableEncryption(secret)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def _date(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
