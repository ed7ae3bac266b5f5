"""The certificate authority: what it signs, what it keeps to itself, and how it revokes."""

from __future__ import annotations

import datetime
import subprocess
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from auricle.errors import SettingsError, StorageError
from auricle_cloud.identity.authority import PASSPHRASE, Authority
from auricle_cloud.identity.certificates import START, new_key

YEAR = 365 * 86400.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority", "Test")


def test_keys_are_readable_by_their_owner_only(authority: Authority) -> None:
    modes = [(authority.folder / name).stat().st_mode & 0o777 for name in ("", "root.key", "issuing.key")]
    assert modes == [0o700, 0o600, 0o600]


def test_a_device_is_certified_as_a_client_from_long_ago_and_never_as_an_authority(authority: Authority) -> None:
    until = time.time() + YEAR
    certificate = authority.certify("dev-a", new_key().public_key(), until)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value

    assert certificate.subject.rfc4514_string() == "CN=dev-a"
    assert certificate.not_valid_before_utc == START
    assert certificate.not_valid_after_utc.timestamp() == int(until)
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.issued(certificate)


def test_nothing_outlives_the_authority(authority: Authority) -> None:
    certificate = authority.certify("dev-a", new_key().public_key(), time.time() + 100 * YEAR)
    assert certificate.not_valid_after_utc == authority.issuing.not_valid_after_utc


def test_openssl_accepts_the_chain_strictly(authority: Authority, tmp_path: Path) -> None:
    certificate = authority.certify_server(["broker.lan", "::1"], new_key().public_key(), time.time() + YEAR)
    chain = tmp_path / "chain.pem"
    chain.write_text(authority.chain(certificate))
    how = f"-x509_strict -CAfile {authority.folder}/root.pem -purpose sslserver -verify_hostname broker.lan"
    command = ["openssl", "verify", *how.split(), "-untrusted", chain, chain]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "host", ["", "a b", "*.lan", "-x", "x" * 64, "a..b", "h\n", "a" * 300, "hub.lan:8443"], ids=range(9)
)
def test_what_is_no_host_is_not_certified(authority: Authority, host: str) -> None:
    with pytest.raises(SettingsError, match="host"):
        authority.certify_server([host], new_key().public_key(), time.time() + YEAR)


def test_a_list_is_younger_than_the_one_before_even_within_a_second(authority: Authority) -> None:
    def read() -> x509.CertificateRevocationList:
        return x509.load_pem_x509_crl(authority.revoked_file.read_bytes())

    first = read()
    authority.write_revoked([(17, time.time())])
    second = read()
    authority.write_revoked([(17, time.time()), (18, time.time())])
    third = read()

    assert first.last_update_utc < second.last_update_utc < third.last_update_utc
    assert third.last_update_utc < datetime.datetime.now(datetime.timezone.utc)
    assert [entry.serial_number for entry in third] == [17, 18]
    assert third.is_signature_valid(authority.issuing.public_key())  # type: ignore[arg-type]
    assert third.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 3


def test_another_authority_of_the_same_name_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "Test")
    assert not authority.issued(other.certify("dev-a", new_key().public_key(), time.time() + YEAR))
    assert authority.pin != other.pin


def test_a_second_authority_does_not_take_the_place_of_the_first(authority: Authority) -> None:
    before = (authority.folder / "root.pem").read_bytes()
    with pytest.raises(SettingsError, match="authority"):
        Authority.create(authority.folder, "Test")
    assert (authority.folder / "root.pem").read_bytes() == before


def test_keys_with_a_passphrase_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    Authority.create(tmp_path / "a", "Test")
    assert b"ENCRYPTED" in (tmp_path / "a" / "issuing.key").read_bytes()
    Authority(tmp_path / "a")
    for wrong in ("battery staple", None):
        monkeypatch.delenv(PASSPHRASE) if wrong is None else monkeypatch.setenv(PASSPHRASE, wrong)
        with pytest.raises(StorageError, match=PASSPHRASE):
            Authority(tmp_path / "a")
