"""Certificates and requests of a version or on a curve that nobody knows are refused like other damaged ones."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.fuzz.certificates import site

from auricle.errors import SettingsError
from auricle_cloud.commands.serve_options import method_options
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.requests import ClaimError, RequestError, read_certificate, read_request
from auricle_edge.fleet.identity_claim.certificate import check_certificate
from auricle_edge.fleet.identity_claim.claim_server import ClaimError as DeviceClaimError
from auricle_edge.settings import name_in_certificate

SITE = site()
VERSION = bytes.fromhex("a003020102")
"""Version 3 of a certificate, in DER."""
CURVE = bytes.fromhex("06082a8648ce3d030107")
"""P-256, in DER."""


def other(pem: bytes, old: bytes, new: bytes) -> bytes:
    """The same PEM with other bytes somewhere in its DER."""
    head, *lines, foot = pem.decode().strip().splitlines()
    der = base64.b64decode("".join(lines))
    assert old in der
    return f"{head}\n{base64.encodebytes(der.replace(old, new, 1)).decode()}{foot}\n".encode()


UNKNOWN_VERSION = other(SITE["certificate"], VERSION, VERSION[:-1] + b"\x09")
UNKNOWN_CURVE = other(SITE["certificate"], CURVE, CURVE[:-1] + b"\x7f")


def test_a_request_of_an_unknown_version_or_curve_is_refused() -> None:
    version = other(SITE["request"], bytes.fromhex("020100"), bytes.fromhex("020109"))

    for request in (version, other(SITE["request"], CURVE, CURVE[:-1] + b"\x7f")):
        with pytest.raises(RequestError):
            read_request(request.decode())


def test_a_certificate_of_an_unknown_version_or_curve_is_not_one_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ClaimError, match="read"):
        read_certificate(UNKNOWN_VERSION.decode())
    authority = Authority.create(tmp_path / "authority", "home")
    for pem in (UNKNOWN_VERSION, UNKNOWN_CURVE):
        (tmp_path / "c.pem").write_bytes(pem)
        assert not authority.issued_file(tmp_path / "c.pem")


@pytest.mark.parametrize("pem", [UNKNOWN_VERSION, UNKNOWN_CURVE], ids=["version", "curve"])
def test_a_device_refuses_such_an_answer_to_its_claim(pem: bytes) -> None:
    from cryptography import x509

    from auricle.wire.claims import Certified

    given = Certified(device="kitchen", certificate=(pem + SITE["issuing"]).decode(), expires=2e9, renew_after=1e9)
    root = x509.load_pem_x509_certificate(SITE["root"])

    with pytest.raises(DeviceClaimError):
        check_certificate(given, ec.derive_private_key(9, ec.SECP256R1()), root)


def test_a_device_with_such_a_certificate_says_so(tmp_path: Path) -> None:
    (tmp_path / "certificate.pem").write_bytes(UNKNOWN_VERSION)

    with pytest.raises(SettingsError, match="is not a device's certificate"):
        name_in_certificate(tmp_path / "certificate.pem")


def test_an_option_of_a_method_that_is_not_text_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not UTF-8"):
        method_options([b"prune_high=\xff".decode("utf-8", "surrogateescape")])
