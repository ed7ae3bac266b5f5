"""A device's certificate: asked for with its key, and believed where it is for that key and by the right authority."""

from __future__ import annotations

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from auricle.files import read_kept
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.wire.claims import UNREADABLE, Certified, pin
from auricle.wire.kinds import DeviceId
from auricle_edge.fleet.identity_claim.claim_server import ClaimError


def certificate_request(key: ec.EllipticCurvePrivateKey) -> str:
    """Proof that we have the key; the name in it counts for nothing."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "auricle")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


def existing_certificate(files: IdentityFiles, key: ec.EllipticCurvePrivateKey, ca_pin: str) -> x509.Certificate | None:
    """The certificate that is there, if it is whole, for this key and under the authority with this pin."""
    try:
        root = x509.load_pem_x509_certificate(read_kept(files.authority))
        chain = x509.load_pem_x509_certificates(read_kept(files.certificate))
        return _sound(chain, key, root) if pin(root) == ca_pin else None
    except (OSError, *UNREADABLE, ClaimError):
        return None


def check_certificate(given: Certified, key: ec.EllipticCurvePrivateKey, root: x509.Certificate) -> x509.Certificate:
    """The certificate of an answer, when it is what was asked for; ClaimError where it is not."""
    try:
        certificate = _sound(x509.load_pem_x509_certificates(given.certificate.encode()), key, root)
    except UNREADABLE as error:
        raise ClaimError("The coordinator answered with something that is not a certificate.") from error
    if name_of(certificate) != given.device:
        raise ClaimError("The coordinator answered with another device's certificate: it is not used.")
    return certificate


def _sound(chain: list[x509.Certificate], key: ec.EllipticCurvePrivateKey, root: x509.Certificate) -> x509.Certificate:
    try:
        certificate, issuing = chain
        certificate.verify_directly_issued_by(issuing)
        issuing.verify_directly_issued_by(root)
    except (*UNREADABLE, InvalidSignature) as error:
        raise ClaimError("The certificate is not from the authority that this device trusts.") from error
    if certificate.public_key() != key.public_key():
        raise ClaimError("The certificate is for another key than this device's.")
    return certificate


def name_of(certificate: x509.Certificate) -> str:
    """The device's name; ClaimError without one."""
    names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        return msgspec.convert(names[0] if len(names) == 1 else "", DeviceId)
    except msgspec.ValidationError as error:
        raise ClaimError("The certificate is not that of a device.") from error


def end_of(certificate: x509.Certificate) -> float:
    """When it runs out, in seconds since 1970."""
    return certificate.not_valid_after_utc.timestamp()
