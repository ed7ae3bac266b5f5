"""X.509 certificates of one shape each: authorities, devices and users, servers (RFC 5280)."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from auricle.errors import SettingsError

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
"""Every certificate begins here: a board without a battery believes that it is some day in the past."""
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)({_LABEL}\.)*{_LABEL}")

Key = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey


def new_key() -> Key:
    """A key on P-256, which every broker's TLS library knows."""
    return ec.generate_private_key(ec.SECP256R1())


def named(name: str) -> x509.Name:
    """A subject with a common name and nothing else."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def authority_certificate(
    name: str, public: PublicKey, signer: Key, issuer: x509.Certificate | None, until: datetime.datetime
) -> x509.Certificate:
    """A root's certificate, signed by itself, or with `issuer` that of an authority below it."""
    builder = (
        _begin(named(name), public, signer, issuer, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1 if issuer is None else 0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
    )
    return builder.sign(signer, hashes.SHA256())


def user_certificate(
    name: str, public: PublicKey, signer: Key, issuer: x509.Certificate, until: datetime.datetime
) -> x509.Certificate:
    """The certificate of a device, or of another user of the broker: it can be a client and nothing else."""
    return _leaf(_begin(named(name), public, signer, issuer, until), ExtendedKeyUsageOID.CLIENT_AUTH, signer)


def server_certificate(
    hosts: Sequence[str], public: PublicKey, signer: Key, issuer: x509.Certificate, until: datetime.datetime
) -> x509.Certificate:
    """The certificate of a broker or API that is reached under these names and addresses.

    Raises
    ------
    SettingsError
        No host is given, or one is neither a name nor an address.
    """
    if not hosts:
        raise SettingsError("A server's certificate needs at least one name or address under which it is reached.")
    alternatives = x509.SubjectAlternativeName([host_of(host) for host in hosts])
    builder = _begin(named(hosts[0][:64]), public, signer, issuer, until).add_extension(alternatives, critical=False)
    return _leaf(builder, ExtendedKeyUsageOID.SERVER_AUTH, signer)


def host_of(text: str) -> x509.GeneralName:
    """A host's name or address as it stands in a certificate; SettingsError where it is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        if not _HOST.fullmatch(text):
            host, _, port = text.rpartition(":")
            hint = ": leave out the port" if _HOST.fullmatch(host) and port.isdecimal() else ""
            raise SettingsError(f'"{text}" is neither a host\'s name nor an address{hint}.') from None
        return x509.DNSName(text)


def _begin(
    subject: x509.Name, public: PublicKey, signer: Key, issuer: x509.Certificate | None, until: datetime.datetime
) -> x509.CertificateBuilder:
    above = subject if issuer is None else issuer.subject
    if issuer is not None:
        until = min(until, issuer.not_valid_after_utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _leaf(builder: x509.CertificateBuilder, purpose: x509.ObjectIdentifier, signer: Key) -> x509.Certificate:
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
