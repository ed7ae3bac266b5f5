"""Claims, renewals and revocations: what a token is worth, once, and what the journal says of it (RELIABILITY S5)."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sqlalchemy.dialects import postgresql
from tests.cloud.api_server import GENEROUS, serving
from tests.cloud.arrivals import register
from tests.cloud.filled_store import Filled
from tests.recorder import Record

from auricle.errors import SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle.wire.claims import Claim, Renewal
from auricle_cloud.api.api_settings import ApiSettings, Rates
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import Key, new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.issuing import DAY_SECONDS
from auricle_cloud.identity.requests import ClaimError, RequestError
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.schema import certificates, claims
from auricle_cloud.storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "coordinator.db")
    yield store
    store.close()


@pytest.fixture
def enrolment(store: Store, tmp_path: Path) -> Enrolment:
    return Enrolment(Authority.create(tmp_path / "authority", "Test"), store.database)


def request(key: Any, name: str = "coordinator") -> str:
    """A request in whose name a device asks for more than its claim gives."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    how = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, how)
    return signed.public_bytes(Encoding.PEM).decode()


def token(enrolment: Enrolment, device: str = "kitchen-1", seconds: float = 3600.0) -> str:
    return enrolment.tokens([device], seconds, who="op")[0][1]


def claimed(enrolment: Enrolment, key: Key, device: str = "kitchen-1") -> str:
    claim = Claim(token=token(enrolment, device), request=request(key))
    return enrolment.claims.claim(claim, who="10.0.0.7").certificate


def journal(store: Store, kind: str) -> list[tuple[str, str, str]]:
    return [(row.device, row.who, row.detail) for row in store.journal.events(kind=kind)]


def test_the_name_comes_from_the_claim_and_not_from_the_request(enrolment: Enrolment, store: Store) -> None:
    key = new_key()
    certificate = x509.load_pem_x509_certificate(claimed(enrolment, key).encode())
    assert certificate.subject.rfc4514_string() == "CN=kitchen-1"
    assert certificate.public_key() == key.public_key()
    assert certificate.not_valid_before_utc.year < 2024, "a board without a battery begins with an old clock"
    assert journal(store, "certificate issued") == [("kitchen-1", "10.0.0.7", "device kitchen-1, for 1 year")]


def test_only_a_hash_of_the_token_is_kept(enrolment: Enrolment, store: Store, tmp_path: Path) -> None:
    secret = token(enrolment)
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in kept


def test_postgresql_holds_a_claim_until_its_transaction_ends(store: Store) -> None:
    asked: list[str] = []
    with store.database.writing() as tx:
        note = lambda _, query, *__: asked.append(str(query.compile(dialect=postgresql.dialect())))  # noqa: E731
        sa.event.listen(tx, "before_execute", note)
        assert ClaimRecords.find(tx, "x" * 43) is ClaimRecords.find(tx, "x" * 43, hold=False) is None
    assert [query.endswith("FOR UPDATE") for query in asked] == [True, False]


@pytest.mark.reliability("S5", load="a token used twice")
def test_a_token_is_used_once_but_its_own_key_gets_the_same_certificate_again(
    enrolment: Enrolment, store: Store, record_property: Record
) -> None:
    key, secret = new_key(), token(enrolment)
    first = enrolment.claims.claim(Claim(token=secret, request=request(key)), who="a")
    again = enrolment.claims.claim(Claim(token=secret, request=request(key)), who="a")
    with pytest.raises(ClaimError, match="used"):
        enrolment.claims.claim(Claim(token=secret, request=request(new_key())), who="thief")
    assert again == first
    assert [row[:2] for row in journal(store, "claim refused")] == [("kitchen-1", "thief")]
    record_property("certificates of one token", len(enrolment.records.all()))
    record_property("entries in the journal", len(journal(store, "claim refused")))
    assert len(enrolment.records.all()) == 1


def test_expired_unknown_and_replaced_tokens_are_refused_with_an_entry_each(enrolment: Enrolment, store: Store) -> None:
    old, key = token(enrolment), new_key()
    new = token(enrolment)
    with store.database.writing() as tx:
        tx.execute(sa.update(claims).values(expires=time.time() - 1))

    for given, sentence in ((old, "newer"), ("x" * 43, "unknown"), (new, "expired")):
        with pytest.raises(ClaimError, match=sentence):
            enrolment.claims.claim(Claim(token=given, request=request(key)), who="10.0.0.8")

    refused = [row[:2] for row in journal(store, "claim refused")]
    assert refused == [("kitchen-1", "10.0.0.8"), ("", "10.0.0.8"), ("", "10.0.0.8")]
    assert enrolment.records.all() == []


def tampered(key: Key) -> str:
    """A request whose signature is not that of its key."""
    good, other = x509.load_pem_x509_csr(request(key).encode()), x509.load_pem_x509_csr(request(new_key()).encode())
    der = good.public_bytes(Encoding.DER).replace(
        key.public_key().public_numbers().x.to_bytes(32, "big"),
        other.public_key().public_numbers().x.to_bytes(32, "big"),  # type: ignore[union-attr]
    )
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("no PEM", id="no PEM"),
        pytest.param("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----", id="empty"),
        pytest.param(request(ec.generate_private_key(ec.SECP384R1())), id="other curve"),
        pytest.param(request(ed25519.Ed25519PrivateKey.generate()), id="other kind"),
        pytest.param(tampered(new_key()), id="not signed by its key"),
    ],
)
def test_a_bad_request_is_refused_and_does_not_use_up_the_token(enrolment: Enrolment, bad: str) -> None:
    secret = token(enrolment)
    with pytest.raises(RequestError):
        enrolment.claims.claim(Claim(token=secret, request=bad), who="a")
    assert enrolment.claims.claim(Claim(token=secret, request=request(new_key())), who="a").device == "kitchen-1"


@pytest.mark.parametrize("name", ["coordinator", "observer", "root", "abc", "A-room", "a/b+", "#", ""], ids=range(8))
def test_names_with_other_rights_or_other_letters_get_no_token(enrolment: Enrolment, name: str) -> None:
    with pytest.raises(SettingsError, match="named"):
        token(enrolment, name)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 31 * DAY_SECONDS, float("nan")], ids=["0", "-1", "31 days", "nan"])
def test_tokens_are_short_lived(enrolment: Enrolment, seconds: float) -> None:
    with pytest.raises(SettingsError, match="30 days"):
        token(enrolment, seconds=seconds)


def test_a_renewal_is_due_after_two_thirds_and_asking_twice_issues_one(enrolment: Enrolment, store: Store) -> None:
    key = new_key()
    asked = Renewal(certificate=claimed(enrolment, key), request=request(key))

    early = enrolment.claims.renew(asked, who="a")
    assert early.certificate == asked.certificate
    assert early.renew_after == pytest.approx(time.time() + 365 * DAY_SECONDS * 2 / 3, abs=100)
    with store.database.writing() as tx:
        tx.execute(sa.update(certificates).values(renew_after=time.time() - 1))
    first, second = enrolment.claims.renew(asked, who="a"), enrolment.claims.renew(asked, who="a")

    assert first.certificate == second.certificate != asked.certificate
    assert len(enrolment.records.all()) == 2


def test_only_the_holder_of_a_good_certificate_renews(enrolment: Enrolment, store: Store, tmp_path: Path) -> None:
    key, other = new_key(), Authority.create(tmp_path / "other", "Test")
    own = claimed(enrolment, key)
    forged = other.certify("kitchen-1", key.public_key(), time.time() + DAY_SECONDS)
    server = enrolment.server(["h"], key.public_key(), who="op")
    expired = claimed(enrolment, key, "hall-1")
    with store.database.writing() as tx:
        tx.execute(sa.update(certificates).where(certificates.c.name == "hall-1").values(expires=time.time() - 1))
    lost = claimed(enrolment, key, "lost-1")
    enrolment.revoke("lost-1", who="op")

    for certificate, signer, sentence in (
        (own, new_key(), "signed"),
        (forged.public_bytes(Encoding.PEM).decode(), key, "device"),
        (server, key, "device"),
        (expired, key, "expired"),
        (lost, key, "revoked"),
        ("nothing", key, "read"),
    ):
        with pytest.raises(ClaimError, match=sentence):
            enrolment.claims.renew(Renewal(certificate=certificate, request=request(signer)), who="a")

    assert len(journal(store, "renewal refused")) == 6


def test_claims_and_renewals_bring_the_password_of_the_name(enrolment: Enrolment) -> None:
    key = new_key()
    asked = [Claim(token=token(enrolment, name), request=request(key)) for name in ("kitchen-1", "hall-1")]
    first, other = (enrolment.claims.claim(claim, who="a") for claim in asked)
    again = enrolment.claims.renew(Renewal(certificate=first.certificate, request=request(key)), who="a")
    assert first.password == again.password == enrolment.authority.passwords().of("kitchen-1") != other.password


def test_revoking_ends_certificates_tokens_and_the_devices_standing(enrolment: Enrolment, store: Store) -> None:
    key = new_key()
    certificate = x509.load_pem_x509_certificate(claimed(enrolment, key).encode())
    store.devices.register(register("kitchen-1"), "approved")
    secret = enrolment.tokens(["kitchen-1"], 3600.0, who="op", replace=True)[0][1]

    count = enrolment.revoke("kitchen-1", who="op", reason="stolen")

    listed = x509.load_pem_x509_crl(enrolment.authority.revoked_file.read_bytes())
    assert count == 1
    assert [entry.serial_number for entry in listed] == [certificate.serial_number]
    assert enrolment.records.shut_out() == ["kitchen-1"]
    assert store.devices.get("kitchen-1").standing == "revoked"
    with pytest.raises(ClaimError, match="unknown"):
        enrolment.claims.claim(Claim(token=secret, request=request(key)), who="a")
    with pytest.raises(SettingsError, match="revoked"):
        token(enrolment)
    with pytest.raises(StorageError, match="nobody-1"):
        enrolment.revoke("nobody-1", who="op")


def test_a_device_that_claims_again_after_a_revoked_certificate_is_let_in(enrolment: Enrolment) -> None:
    claimed(enrolment, new_key())
    enrolment.revoke("kitchen-1", who="op")
    claimed(enrolment, new_key())
    assert enrolment.records.shut_out() == []


# -- over HTTP


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Filled:
    return Filled(tmp_path, store, Blobs(tmp_path / "blobs"), load_pack("digits"))


def few_failures(many: float) -> ApiSettings:
    """So many refusals at once, and then one in a thousand seconds."""
    rates = Rates(address=GENEROUS.address, token=GENEROUS.token, failures=(0.001, many))
    return ApiSettings(port=0, rates=rates)


def test_a_device_claims_over_the_api_and_sees_why_it_may_not(filled: Filled, enrolment: Enrolment) -> None:
    body = {"token": token(enrolment), "request": request(new_key())}
    with serving(filled) as server:
        shown = server.ask("GET", "/v1/authority", role=None)[1]
        status, answer, _ = server.ask("POST", "/v1/enrol", body, role=None)
        again = server.ask("POST", "/v1/enrol", {**body, "request": request(new_key())}, role=None)
        wrong = server.ask("POST", "/v1/enrol", {**body, "device": "coordinator"}, role=None)

    assert shown == {"certificate": enrolment.authority.root_pem}
    assert (status, answer["device"]) == (200, "kitchen-1")
    assert (again[0], wrong[0]) == (403, 422)


def test_where_there_is_no_authority_it_says_so(filled: Filled) -> None:
    with serving(filled) as server:
        assert server.ask("POST", "/v1/enrol", {"token": "x" * 43, "request": "y"}, role=None)[0] == 404


@pytest.mark.reliability("S5", load="guessed tokens")
def test_guessing_tokens_is_slowed_down_and_entered_in_the_journal(
    filled: Filled, enrolment: Enrolment, record_property: Record
) -> None:
    body = {"token": "x" * 43, "request": request(new_key())}
    with serving(filled, few_failures(5.0)) as server:
        asked = [server.ask("POST", "/v1/enrol", body, role=None) for _ in range(8)]
    statuses = [status for status, _, _ in asked]
    record_property("tried", len(statuses))
    record_property("accepted", sum(status < 300 for status in statuses))
    record_property("told to wait", statuses.count(429))
    record_property("entries in the journal", len(journal(filled.store, "claim refused")))
    assert statuses == [403] * 5 + [429] * 3
    assert asked[-1][2].getheader("Retry-After") is not None
    assert [row[1] for row in journal(filled.store, "claim refused")] == ["127.0.0.1"] * 5


def test_who_guesses_does_not_shut_out_those_behind_the_same_address(filled: Filled, enrolment: Enrolment) -> None:
    guess = {"token": "x" * 43, "request": request(new_key())}
    key, other = new_key(), new_key()
    held = claimed(enrolment, key, "kitchen-2")
    forged = {"certificate": held, "request": request(other)}
    own = {"token": token(enrolment), "request": request(new_key())}
    with serving(filled, few_failures(5.0)) as server:
        guesses = [server.ask("POST", "/v1/enrol", guess, role=None)[0] for _ in range(25)]
        thefts = [server.ask("POST", "/v1/renew", forged, role=None)[0] for _ in range(25)]
        claims_ = [server.ask("POST", "/v1/enrol", own, role=None)[0] for _ in range(10)]
        renewed = server.ask("POST", "/v1/renew", {"certificate": held, "request": request(key)}, role=None)[0]
        misused = [server.ask("POST", "/v1/enrol", own | {"request": request(other)}, role=None) for _ in range(8)]

    assert (guesses, thefts) == ([403] * 5 + [429] * 20, [429] * 25)
    assert (claims_, renewed) == ([200] * 10, 200)
    assert [status for status, *_ in misused] == [403] * 5 + [429] * 3
    assert "device" in misused[-1][1]["detail"]
    assert len(journal(filled.store, "claim refused")) == 10


def test_many_devices_behind_one_address_claim_one_after_the_other(filled: Filled, enrolment: Enrolment) -> None:
    made = enrolment.tokens([f"device-{i:03}" for i in range(10)], 3600.0, who="op")
    with serving(filled, few_failures(2.0)) as server:
        bodies = [{"token": secret, "request": request(new_key())} for _, secret, _ in made]
        asked = [server.ask("POST", "/v1/enrol", body, role=None)[0] for body in bodies]
    assert asked == [200] * 10
