"""A name that is given to another card: what the old one had is worth nothing, and the device's history stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from tests.cloud.arrivals import open_round
from tests.cloud.desk import ANA, BASE, TASK, Desk, body_of, register, update

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle.wire.claims import Certified, Claim, Renewal
from auricle.wire.identity import Identity
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.certificates import Key, new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.requests import ClaimError, RequestError
from auricle_cloud.storage.state_folders import AUTHORITY
from auricle_cloud.storage.store import FILE, Store

NAME = "dev-a"
NEW = Identity(b"n" * 32)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"), "Test")


@pytest.fixture
def enrolment(store: Store, authority: Authority) -> Enrolment:
    return Enrolment(authority, store.database)


def request(key: Key) -> str:
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return signed.public_bytes(Encoding.PEM).decode()


def claim(enrolment: Enrolment, key: Key, identity: Identity | None = NEW, *, replace: bool = True) -> Certified:
    token = token_of(enrolment, replace=replace)
    public = None if identity is None else identity.public.hex()
    return enrolment.claims.claim(Claim(token=token, request=request(key), public_key=public), who="10.0.0.7")


def token_of(enrolment: Enrolment, name: str = NAME, *, replace: bool = True) -> str:
    ((_, token, _),) = enrolment.tokens([name], 3600.0, who="op", replace=replace)
    return token


def listed(authority: Authority) -> list[int]:
    return [entry.serial_number for entry in x509.load_pem_x509_crl(authority.revoked_file.read_bytes())]


def serial(certified: Certified) -> int:
    return x509.load_pem_x509_certificates(certified.certificate.encode())[0].serial_number


def test_who_may_speak_to_a_broker_are_devices_and_users_and_no_broker(enrolment: Enrolment) -> None:
    assert enrolment.records.users() == set()
    claim(enrolment, new_key(), ANA, replace=False)
    token_of(enrolment, "dev-b", replace=False)
    enrolment.user("coordinator", new_key().public_key(), who="op")
    enrolment.server(["broker.lan"], new_key().public_key(), who="op")
    assert enrolment.records.users() == {NAME, "dev-b", "coordinator"}


def test_a_name_that_claimed_or_registered_gets_no_second_token_by_accident(enrolment: Enrolment, store: Store) -> None:
    claim(enrolment, new_key(), ANA, replace=False)
    store.devices.register(register("dev-b", ANA), "approved")
    enrolment.tokens(["dev-c"], 3600.0, who="op")

    for name in (NAME, "dev-b"):
        with pytest.raises(SettingsError, match=f"{name} is taken: add --replace"):
            enrolment.tokens(["dev-d", name], 3600.0, who="op")
    enrolment.tokens(["dev-c"], 3600.0, who="op")  # nobody has claimed with the one before
    for name in ("dev-c", "dev-d"):
        with pytest.raises(SettingsError, match=f"There is no {name} to replace"):
            enrolment.tokens([NAME, name], 3600.0, who="op", replace=True)

    assert [row.device for row in enrolment.records.pending()] == ["dev-c"]


def test_nothing_changes_before_the_token_is_claimed(enrolment: Enrolment, store: Store, authority: Authority) -> None:
    key = new_key()
    old = claim(enrolment, key, ANA, replace=False)
    store.devices.register(register(NAME, ANA), "approved")

    enrolment.tokens([NAME], 3600.0, who="op", replace=True)

    assert enrolment.claims.renew(Renewal(certificate=old.certificate, request=request(key)), who="a") == old
    assert store.devices.keys() == {NAME: ANA.public}
    assert serial(old) not in listed(authority)
    assert store.journal.events(kind="replacement token created")[0].device == NAME


def test_a_claim_that_replaces_revokes_certificates_and_key_and_keeps_the_rest(
    enrolment: Enrolment, store: Store, authority: Authority
) -> None:
    key = new_key()
    old = claim(enrolment, key, ANA, replace=False)
    store.devices.register(register(NAME, ANA), "pending")
    store.devices.set_standing([NAME], "quarantined", who="op", reason="odd")
    store.devices.set_label(NAME, "Kitchen", who="op")
    before = store.devices.get(NAME)

    new = claim(enrolment, new_key())

    assert serial(old) in listed(authority)
    assert serial(new) not in listed(authority)
    assert enrolment.records.shut_out() == []
    assert store.devices.get(NAME) == msgspec.structs.replace(before, public_key=NEW.public)
    assert not store.devices.register(register(NAME, ANA), "approved")
    assert store.devices.register(register(NAME, NEW), "approved")
    assert store.devices.get(NAME).standing == "quarantined"
    with pytest.raises(ClaimError, match="was revoked"):
        enrolment.claims.renew(Renewal(certificate=old.certificate, request=request(key)), who="a")
    (entry,) = store.journal.events(kind="replaced")
    assert (entry.device, entry.who) == (NAME, "10.0.0.7")
    assert entry.detail == f"1 certificate revoked, key {NEW.public.hex()[:16]}"


def test_a_claim_that_is_made_again_by_the_same_key_replaces_once(enrolment: Enrolment, store: Store) -> None:
    claim(enrolment, new_key(), ANA, replace=False)
    token = token_of(enrolment)
    asked = Claim(token=token, request=request(new_key()), public_key=NEW.public.hex())

    assert enrolment.claims.claim(asked, who="a") == enrolment.claims.claim(asked, who="a")
    with pytest.raises(ClaimError, match="was used by another key"):
        enrolment.claims.claim(Claim(token=token, request=request(new_key()), public_key="0" * 64), who="thief")

    assert len(store.journal.events(kind="replaced")) == 1


def test_an_agent_that_does_not_name_its_key_is_refused_and_the_token_stays_good(
    enrolment: Enrolment, store: Store
) -> None:
    claim(enrolment, new_key(), ANA, replace=False)
    asked = Claim(token=token_of(enrolment), request=request(new_key()))

    with pytest.raises(RequestError, match="agent"):
        enrolment.claims.claim(asked, who="a")

    assert store.journal.events(kind="replaced") == []
    named = msgspec.structs.replace(asked, public_key=NEW.public.hex())
    assert enrolment.claims.claim(named, who="a").device == NAME


def test_a_revoked_device_is_never_replaced(enrolment: Enrolment, store: Store) -> None:
    claim(enrolment, new_key(), ANA, replace=False)
    store.devices.register(register(NAME, ANA), "approved")
    asked = Claim(token=token_of(enrolment), request=request(new_key()), public_key=NEW.public.hex())
    store.devices.set_standing([NAME], "revoked", who="op")

    with pytest.raises(ClaimError, match="revoked"):
        enrolment.claims.claim(asked, who="a")
    for replace in (False, True):
        with pytest.raises(SettingsError, match="revoked"):
            token_of(enrolment, replace=replace)

    assert store.devices.revoked() == {NAME}


# -- the command


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A coordinator's folder with two devices that have claimed, pi-001 and pi-003."""
    made = Authority.create(tmp_path / AUTHORITY, "Test")
    store = Store(tmp_path / FILE)
    enrolment = Enrolment(made, store.database)
    for name in ("pi-001", "pi-003"):
        token = token_of(enrolment, name, replace=False)
        enrolment.claims.claim(Claim(token=token, request=request(new_key())), who="a")
    store.close()
    return tmp_path


def test_the_command_asks_and_says_what_it_does(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cloud", "enrol", "token", "--state", str(state), "--device", "pi-001"]

    assert main(words) == 2
    assert "add --replace" in capsys.readouterr().err
    assert main([*words, "--replace"]) == 2
    asked = capsys.readouterr().err
    assert "revoked" in asked and "add --yes" in asked
    assert main([*words, "--replace", "--yes", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert [(row["device"], row["replaces"]) for row in answer["tokens"]] == [("pi-001", True)]


def test_many_tokens_are_for_new_names_only(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cloud", "enrol", "token", "--state", str(state), "--count", "2", "--prefix", "pi"]

    assert main([*words, "--replace", "--yes"]) == 2
    assert "--device" in capsys.readouterr().err
    assert main([*words, "--out", str(state / "tokens")]) == 0

    assert "2 names of pi" in capsys.readouterr().out
    assert sorted(path.name for path in (state / "tokens").iterdir()) == ["pi-002.token", "pi-004.token"]


# -- at a coordinator that runs


def replace(desk: Desk, authority: Authority) -> None:
    """As the API of the running coordinator does it."""
    claim(Enrolment(authority, desk.store.database, replaced=desk.inbox.reload), new_key())


def test_the_new_cards_key_is_believed_at_once_and_the_old_ones_no_more(desk: Desk, authority: Authority) -> None:
    body = body_of()
    replace(desk, authority)

    desk.tell(ANA, NAME, "reg", register(NAME, ANA))
    desk.tell(ANA, NAME, "upd", update(body), body)
    assert desk.answers == []
    desk.tell(NEW, NAME, "reg", register(NAME, NEW, boot="b2"))
    desk.tell(NEW, NAME, "upd", update(body, boot="b2"), body)

    assert desk.inbox.refused == {"identity": 1, "signature": 1}
    assert desk.verdicts() == ["accepted"]
    assert desk.inbox.keys[NAME] == NEW.public


def test_a_registration_that_was_on_its_way_does_not_bring_the_old_key_back(desk: Desk, authority: Authority) -> None:
    """The old card's was entered, then the name was given away, and only then the inbox goes on."""
    run = desk.inbox._batch.run

    async def overtaken(write: Callable[[sa.Connection], Any]) -> Any:
        done = await run(write)
        await asyncio.to_thread(replace, desk, authority)
        return done

    desk.inbox._batch.run = overtaken  # type: ignore[method-assign]
    desk.tell(ANA, NAME, "reg", register(NAME, ANA))

    assert desk.answers == [("Register", NAME, "registered")]
    assert desk.inbox.keys[NAME] == NEW.public


def test_an_update_of_the_old_card_stays_counted_once_and_the_new_one_gets_no_second(
    desk: Desk, authority: Authority
) -> None:
    first, second = body_of(0.25), body_of(0.75)
    desk.tell(ANA, NAME, "upd", update(first), first)
    replace(desk, authority)

    desk.tell(NEW, NAME, "upd", update(second), second)
    open_round(desk.store, [NAME], 2, task=TASK, base=BASE)
    desk.tell(NEW, NAME, "upd", update(second, round=2), second)

    assert desk.verdicts() == ["accepted", "conflict", "accepted"]
    assert [row.body for row in desk.store.updates.counted(TASK, 1)] == [update(first).body]
