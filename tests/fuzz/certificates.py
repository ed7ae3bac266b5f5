"""A root, an authority below it and a device's certificate, all with keys that are the same in every process."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from auricle_cloud.identity.certificates import authority_certificate, named, user_certificate

UNTIL = datetime.datetime(2090, 1, 1, tzinfo=datetime.timezone.utc)


def site() -> dict[str, bytes]:
    """PEM of the certificates, of the device's key and of its request."""
    root_key, issuing_key, key = (ec.derive_private_key(number, ec.SECP256R1()) for number in (7, 8, 9))
    root = authority_certificate("home root", root_key.public_key(), root_key, None, UNTIL)
    issuing = authority_certificate("home issuing", issuing_key.public_key(), root_key, root, UNTIL)
    certificate = user_certificate("kitchen", key.public_key(), issuing_key, issuing, UNTIL)
    request = x509.CertificateSigningRequestBuilder().subject_name(named("auricle")).sign(key, hashes.SHA256())
    made = {"root": root, "issuing": issuing, "certificate": certificate, "request": request}
    pem = {name: each.public_bytes(Encoding.PEM) for name, each in made.items()}
    return {**pem, "key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())}
