"""What devices send to get a certificate, read: names, requests, certificates that they show."""

from __future__ import annotations

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from auricle.errors import NOT_FOUND, AuricleError, SettingsError, StorageError
from auricle.wire.claims import RESERVED, UNREADABLE
from auricle.wire.kinds import DeviceId
from auricle_cloud.identity.certificates import PublicKey


class ClaimError(AuricleError):
    """A claim or renewal that is refused; its request is not at fault, but the right to it is missing."""


class UnknownNameError(StorageError):
    """A name that nothing was given to."""

    exit_code = NOT_FOUND


class RequestError(AuricleError):
    """A text that is not a certificate request, or one not signed by its own key, or for a key of another kind."""


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
        It is not a request, its signature is wrong, or its key is not on P-256.
    """
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        public_key_of(request)
        good = request.is_signature_valid
    except UNREADABLE as error:
        raise RequestError("The certificate request cannot be read: send PKCS #10 as PEM.") from error
    if not good:
        raise RequestError("The certificate request is not signed by the key in it.")
    return request


def public_key_of(request: x509.CertificateSigningRequest) -> PublicKey:
    """Its key; RequestError where that is not on P-256."""
    public = request.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise RequestError("The certificate request is for a key of another kind: use one on P-256.")
    return public


def read_certificate(pem: str) -> x509.Certificate:
    """A certificate as a device shows it; ClaimError where it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except UNREADABLE as error:
        raise ClaimError("The certificate cannot be read: send it as PEM.") from error


def serial_of(certificate: x509.Certificate) -> str:
    """Its number in hex, by which it is found and revoked."""
    return f"{certificate.serial_number:x}"
