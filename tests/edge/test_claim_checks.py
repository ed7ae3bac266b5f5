"""What a device believes of a coordinator's answer: every part of a certificate is compared before it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from auricle.errors import SettingsError, StorageError
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.wire.broker_passwords import read_login
from auricle.wire.claims import LONGEST_TOKEN_FILE
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import new_key
from auricle_edge.fleet.identity_claim.claim import claim, erase, renew
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer
from auricle_edge.ota.update_server import UpdateServer

DEVICE, TOKEN, PASSWORD = "kitchen-1", "t" * 43, "p" * 43
UNTIL, RENEW_AFTER, NOW = 2_000_000_000.0, 1_900_000_000.0, 1_800_000_000.0


@dataclass
class Coordinator:
    """One that certifies whatever a test wants it to."""

    authority: Authority
    url: str = "http://127.0.0.1:1"
    name: str = DEVICE
    """In the certificate."""
    said: str = DEVICE
    """In the answer."""
    chain: str | None = None
    """In place of the certificate for the key that was shown, and the issuing authority's."""
    until: float = UNTIL
    renew_after: float = RENEW_AFTER
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path, body))
        request = x509.load_pem_x509_csr(body["request"].encode())
        assert request.is_signature_valid
        key = request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        chain = self.chain or self.authority.chain(self.authority.certify(self.name, key, self.until))
        times = {"expires": self.until, "renew_after": self.renew_after}
        return {"device": self.said, "certificate": chain, "password": PASSWORD, **times}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("cloud") / "authority", "Test")


@pytest.fixture
def coordinator(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """Its answers are given without a network; `test_identity_claim` has the real one."""
    site = Coordinator(authority)

    def ask(_: ClaimServer, method: str, path: str, body: bytes | None, __: Any) -> bytes:
        root = {"certificate": authority.root_pem}
        return json.dumps(root if method == "GET" else site.answer(path, json.loads(body or b""))).encode()

    monkeypatch.setattr(ClaimServer, "_ask", ask)
    return site


@dataclass
class Board:
    """A device's folder, and its token."""

    state: Path
    token: Path
    coordinator: Coordinator

    @property
    def files(self) -> IdentityFiles:
        return IdentityFiles(self.state / "identity")

    @property
    def record(self) -> Path:
        return self.files.folder / "claim.json"

    def claim(self, now: float = NOW) -> Any:
        self.token.write_text(TOKEN)
        return claim(self.state, self.coordinator.url, self.coordinator.authority.pin, self.token, now)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.files.folder.iterdir()}


@pytest.fixture
def board(coordinator: Coordinator, tmp_path: Path) -> Board:
    return Board(tmp_path / "device", tmp_path / "token", coordinator)


@pytest.mark.parametrize("kind", [lambda url: ClaimServer(url, None), UpdateServer])
def test_what_is_no_host_is_refused(kind: Callable[[str], object]) -> None:
    with pytest.raises(SettingsError, match="cannot be read: write https://host:port"):
        kind("https://hub\x7f.lan")


def test_a_claim_says_who_asks_and_keeps_what_a_renewal_needs(board: Board) -> None:
    outcome = board.claim()
    ((path, body),) = board.coordinator.asked
    assert (outcome.device, outcome.done, outcome.expires, outcome.token_erased) == (DEVICE, "claimed", UNTIL, True)
    assert (path, body["token"]) == ("/v1/enrol", TOKEN)
    assert body["public_key"] == Identity.load_or_create(board.state / DEVICE_KEY).public.hex()
    subject = x509.load_pem_x509_csr(body["request"].encode()).subject
    assert subject.rfc4514_string() == "CN=auricle"
    site = {"server": board.coordinator.url, "pin": board.coordinator.authority.pin}
    assert json.loads(board.record.read_bytes()) == {"device": DEVICE, **site, "renew_after": RENEW_AFTER}
    secret = (board.files.key, board.files.login, board.record)
    assert [path.stat().st_mode & 0o777 for path in secret] == [0o600] * 3
    assert board.files.folder.stat().st_mode & 0o777 == 0o700
    assert read_login(board.files.login) == (DEVICE, PASSWORD)
    assert board.files.authority.read_text() == board.coordinator.authority.root_pem


@pytest.mark.parametrize(("name", "said"), [("kitchen-2", DEVICE), (DEVICE, "kitchen-2")], ids=["shown", "said"])
def test_a_claims_certificate_has_the_name_that_the_answer_says(board: Board, name: str, said: str) -> None:
    board.coordinator.name, board.coordinator.said = name, said
    with pytest.raises(ClaimError, match="another device"):
        board.claim()
    assert set(board.content()) == {board.files.key.name, board.files.authority.name}


def test_a_renewed_certificate_has_the_name_that_the_device_has(board: Board) -> None:
    board.claim()
    before = board.content()
    board.coordinator.name = board.coordinator.said = "kitchen-2"
    with pytest.raises(ClaimError, match="another device"):
        renew(board.state, RENEW_AFTER)
    assert board.content() == before


@pytest.mark.parametrize("name", ["Kitchen 1", "", "a/b"])
def test_a_certificate_for_what_is_no_device_is_refused(board: Board, name: str) -> None:
    key = new_key()
    board.files.folder.mkdir(parents=True)
    board.files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    board.coordinator.name = name or "x"
    if not name:
        twice = x509.Name([*_name(DEVICE), *_name("kitchen-2")])
        board.coordinator.chain = _signed_by_hand(board.coordinator.authority, twice, key.public_key())
    with pytest.raises(ClaimError, match="not that of"):
        board.claim()


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _signed_by_hand(authority: Authority, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> str:
    """A chain whose first certificate has any subject."""
    shape = authority.certify(DEVICE, key, UNTIL)
    builder = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=authority.issuing.subject,
        public_key=key,
        serial_number=7,
        not_valid_before=shape.not_valid_before_utc,
        not_valid_after=shape.not_valid_after_utc,
    )
    return authority.chain(builder.sign(authority._key, SHA256()))


@pytest.mark.parametrize("kind", ["another key", "not a certificate"])
def test_a_certificate_for_another_key_and_what_is_none_are_refused(board: Board, kind: str) -> None:
    authority = board.coordinator.authority
    board.coordinator.chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    if kind == "another key":
        board.coordinator.chain = authority.chain(authority.certify(DEVICE, new_key().public_key(), UNTIL))
    with pytest.raises(ClaimError, match=kind):
        board.claim()
    assert not board.files.certificate.exists()


@pytest.mark.parametrize("wrong", ["leaf", "issuing", "one", "three"])
def test_both_signatures_of_a_chain_are_checked(board: Board, authority: Authority, tmp_path: Path, wrong: str) -> None:
    other = Authority.create(tmp_path / "other", "Test")
    board.claim()
    key = x509.load_pem_x509_certificates(board.files.certificate.read_bytes())[0].public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    own = authority.chain(authority.certify(DEVICE, key, UNTIL))
    foreign = other.certify(DEVICE, key, UNTIL)
    board.coordinator.chain = {
        "leaf": authority.chain(foreign),
        "issuing": other.chain(foreign),
        "one": own[: own.index("-----END") + 26],
        "three": own + authority.root_pem,
    }[wrong]
    with pytest.raises(ClaimError, match="not from the authority"):
        renew(board.state, RENEW_AFTER)


@pytest.mark.parametrize(("now", "asked"), [(UNTIL, 1), (UNTIL + 1, 2)], ids=["its last second", "a second later"])
def test_a_certificate_that_has_expired_is_claimed_again(board: Board, now: float, asked: int) -> None:
    board.claim()
    record = json.loads(board.record.read_bytes())
    board.record.write_text(json.dumps({**record, "renew_after": 5.0}))
    again = board.claim(now)
    assert len(board.coordinator.asked) == asked
    assert again.done == ("there already" if asked == 1 else "claimed")
    assert json.loads(board.record.read_bytes())["renew_after"] == (5.0 if asked == 1 else RENEW_AFTER)


def test_a_record_that_was_lost_makes_the_next_renewal_ask_at_once(board: Board) -> None:
    board.claim()
    board.record.unlink()
    assert board.claim().done == "there already"
    assert json.loads(board.record.read_bytes())["renew_after"] == 0


@pytest.mark.parametrize(("now", "done"), [(RENEW_AFTER - 1, "not due"), (RENEW_AFTER, "renewed")])
def test_a_renewal_is_due_from_its_time_on(board: Board, now: float, done: str) -> None:
    board.claim()
    first, later = board.files.certificate.read_bytes(), 86_400 if done == "renewed" else 0
    board.coordinator.until, board.coordinator.renew_after = UNTIL + 86_400, RENEW_AFTER + 86_400
    outcome = renew(board.state, now)
    assert (outcome.device, outcome.done, outcome.expires) == (DEVICE, done, UNTIL + later)
    assert json.loads(board.record.read_bytes())["renew_after"] == RENEW_AFTER + later
    assert (board.files.certificate.read_bytes() == first) == (done == "not due")
    if done == "renewed":
        path, body = board.coordinator.asked[-1]
        assert path == "/v1/renew"
        shown = x509.load_pem_x509_certificate(body["certificate"].encode())
        assert shown == x509.load_pem_x509_certificates(first)[0]


def test_the_same_certificate_given_again_is_not_a_renewal(board: Board) -> None:
    board.claim()
    board.coordinator.chain = board.files.certificate.read_text()
    assert renew(board.state, RENEW_AFTER).done == "not due"


@pytest.mark.parametrize("lost", ["certificate", "authority", "key", "pin"])
def test_without_a_certificate_that_fits_key_and_pin_there_is_nothing_to_renew(board: Board, lost: str) -> None:
    board.claim()
    if lost == "pin":
        record = json.loads(board.record.read_bytes())
        board.record.write_text(json.dumps({**record, "pin": "0" * 64}))
    else:
        getattr(board.files, lost).unlink()
    with pytest.raises(ClaimError, match="fits"):
        renew(board.state, RENEW_AFTER)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"more": 1}'], ids=["none", "empty", "nothing", "unknown"])
def test_a_record_that_cannot_be_read_asks_for_a_token(board: Board, content: bytes | None) -> None:
    board.claim()
    whole = board.record.read_bytes()
    board.record.unlink()
    if content is not None:
        board.record.write_bytes(whole[:-1] + b',"more":1}' if b"more" in content else content)
    with pytest.raises(ClaimError, match="token"):
        renew(board.state, RENEW_AFTER)


@pytest.mark.parametrize("kind", ["another", "damaged"])
def test_a_key_of_another_kind_or_damaged_is_neither_used_nor_replaced(board: Board, kind: str) -> None:
    board.files.folder.mkdir(parents=True)
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    content = other if kind == "another" else b"damaged"
    board.files.key.write_bytes(content)
    with pytest.raises(StorageError, match="kind" if kind == "another" else "read"):
        board.claim()
    assert board.files.key.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_said(board: Board) -> None:
    board.state.write_text("a file")
    with pytest.raises(StorageError, match="cannot be made"):
        board.claim()


def test_a_folder_that_others_could_read_is_closed(board: Board) -> None:
    board.files.folder.mkdir(parents=True, mode=0o755)
    board.claim()
    assert board.files.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("size", [44, LONGEST_TOKEN_FILE + 10])
def test_a_token_is_overwritten_before_it_is_removed(tmp_path: Path, size: int) -> None:
    token, seen = tmp_path / "token", tmp_path / "seen"
    token.write_bytes(b"x" * size)
    seen.hardlink_to(token)
    assert erase(token) is True
    assert not token.exists()
    zeros = min(size, LONGEST_TOKEN_FILE)
    assert seen.read_bytes() == bytes(zeros) + b"x" * (size - zeros)


def test_a_token_that_is_gone_is_erased_and_one_that_cannot_be_is_not(tmp_path: Path) -> None:
    assert erase(tmp_path / "token") is True
    assert erase(tmp_path) is False
