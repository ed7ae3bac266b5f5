"""A device joins a home by a short code, against the real API over TLS: wrong, old and repeated codes, false hubs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.edge.test_identity_claim import certifying

from auricle.errors import DataError
from auricle.process.cli import main
from auricle.wire.claims import pin
from auricle.wire.join_codes import draw_code, read_code, show_code
from auricle.wire.joining import SALT_BYTES, Grant, Join, SealedGrant, code_keys, proof_of, seal, unseal
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.issuing import FleetTold
from auricle_cloud.identity.joining import WRONG_TRIES, JoinCodes
from auricle_cloud.identity.requests import ClaimError as RefusedError
from auricle_cloud.storage.store import Store
from auricle_edge.fleet.identity_claim import home
from auricle_edge.fleet.identity_claim.claim import read_claim
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer, TryLaterError
from auricle_edge.settings import read_settings

TELLS = FleetTold("home", "mqtts://127.0.0.1:8883", "ab" * 32)
Hub = tuple[Enrolment, Store, str]
PIN, SALT = "cd" * 32, "01" * 16


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with certifying(tmp_path_factory.mktemp("hub"), tells=TELLS) as running:
        yield running


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of somebody else, who announces it in this network."""
    with certifying(tmp_path_factory.mktemp("stranger"), tells=TELLS) as running:
        yield running


def code_of(hub: Hub, seconds: float = 600.0) -> str:
    return hub[0].draw_code(seconds, who="op")[0]


def entries(hub: Hub, kind: str) -> list[str]:
    return [row.detail for row in hub[1].journal.events(kind=kind)]


def other(code: str) -> str:
    return next(drawn for drawn in iter(draw_code, None) if drawn != code)


def test_a_code_is_read_as_people_type_it() -> None:
    assert read_code("k7qm-4t2x") == read_code("K7QM 4T2X") == "K7QM4T2X"
    assert read_code("oil0-oil0") == "01100110"
    assert show_code("K7QM4T2X") == "K7QM-4T2X"
    for text in ("", "K7QM-4T2", "K7QM-4T2XX", "K7QM-4T2U", "K7QM\n4T2X"):
        with pytest.raises(DataError, match="eight"):
            read_code(text)


def test_only_who_knows_code_salt_and_pin_has_the_keys() -> None:
    keys, grant = code_keys("K7QM4T2X", SALT, PIN), Grant(token="t" * 43, device="kitchen-1")
    sealed = seal(keys, grant)
    assert unseal(code_keys("K7QM4T2X", SALT, PIN), sealed) == grant
    assert grant.token.encode().hex() not in sealed.sealed
    others = [("K7QM4T2Y", SALT, PIN), ("K7QM4T2X", "02" * 16, PIN), ("K7QM4T2X", SALT, "ce" * 32)]
    for other_keys in (code_keys(*each) for each in others):
        assert proof_of(other_keys, "kitchen-1") != proof_of(keys, "kitchen-1")
        with pytest.raises(DataError):
            unseal(other_keys, sealed)
    for damaged in ("", "0", "00", sealed.sealed[:-2], sealed.sealed[:-2] + "00"):
        if damaged != sealed.sealed:
            with pytest.raises(DataError):
                unseal(keys, SealedGrant(sealed=damaged))


def test_a_device_joins_by_the_code_and_knows_its_fleet(hub: Hub, tmp_path: Path) -> None:
    code = code_of(hub)
    first = home.join(tmp_path / "a", [hub[2]], code, None, time.time())
    second = home.join(tmp_path / "b", [hub[2]], code, "kitchen-1", time.time())
    assert (first.device, first.done, second.device) == ("device-001", "claimed", "kitchen-1")
    settings = read_settings(None, {"state": str(tmp_path / "a")})
    assert (settings.name, settings.fleet, settings.broker) == ("device-001", "home", TELLS.broker)
    assert settings.coordinator == TELLS.coordinator
    kept = read_claim(tmp_path / "a")
    assert kept is not None
    assert (kept.home, kept.server, kept.pin) == (True, hub[2], hub[0].pin)
    assert not home.is_half_way(tmp_path / "a")
    assert home.keep(tmp_path / "a", time.time(), lambda: pytest.fail("it is where it was")).done == "not due"


def test_a_name_that_is_taken_is_refused_and_a_new_one_given(hub: Hub, tmp_path: Path) -> None:
    code = code_of(hub)
    home.join(tmp_path / "a", [hub[2]], code, "bath-room", time.time())
    with pytest.raises(ClaimError, match="bath-room"):
        home.join(tmp_path / "b", [hub[2]], code, "bath-room", time.time())
    assert home.join(tmp_path / "b", [hub[2]], code, None, time.time()).device.startswith("device-")


def test_a_wrong_code_counts_and_after_ten_the_right_one_is_worth_nothing(hub: Hub, tmp_path: Path) -> None:
    code = code_of(hub)
    wrong, before = other(code), len(entries(hub, "join refused"))
    for tries_left in reversed(range(WRONG_TRIES)):
        with pytest.raises(ClaimError, match=f"not the hub's code: it can be tried {tries_left} times"):
            home.join(tmp_path, [hub[2]], wrong, None, time.time())
    with pytest.raises(ClaimError, match="expired or was tried too often"):
        home.join(tmp_path, [hub[2]], code, None, time.time())
    assert len(entries(hub, "join refused")) == before + WRONG_TRIES + 1
    assert not home.has_joined(tmp_path)
    home.join(tmp_path, [hub[2]], code_of(hub), None, time.time())


def test_a_code_that_has_expired_is_worth_nothing_nor_is_the_one_before(tmp_path: Path) -> None:
    now = 1000.0
    codes = JoinCodes(tmp_path, PIN, lambda: now)
    first = codes.draw(60.0).code
    second = codes.draw(60.0).code
    asked = {code: Join(salt=SALT, proof=proof_of(code_keys(code, SALT, PIN), None)) for code in (first, second)}
    with pytest.raises(RefusedError, match="not the hub's code"):
        codes.check(asked[first])
    now += 60.0
    with pytest.raises(RefusedError, match="expired"):
        codes.check(asked[second])
    now -= 1.0
    assert JoinCodes(tmp_path, PIN, lambda: now).check(asked[second]) == code_keys(second, SALT, PIN)
    assert (tmp_path / "join-code.json").stat().st_mode & 0o777 == 0o600


def test_what_somebody_recorded_is_not_heard_twice(tmp_path: Path) -> None:
    codes = JoinCodes(tmp_path, PIN)
    asked = Join(salt=SALT, proof=proof_of(code_keys(codes.draw(60.0).code, SALT, PIN), None))
    codes.check(asked)
    with pytest.raises(RefusedError, match="repeats"):
        codes.check(asked)


def test_a_false_hub_learns_no_code_and_does_not_keep_the_device_from_its_own(
    hub: Hub, stranger: Hub, tmp_path: Path
) -> None:
    code, _ = code_of(hub), code_of(stranger)
    joined = home.join(tmp_path, [stranger[2], hub[2]], code, None, time.time())
    kept = read_claim(tmp_path)
    assert kept is not None
    assert (joined.done, kept.pin) == ("claimed", hub[0].pin)
    with pytest.raises(ClaimError, match="not the hub's code"):
        home.join(tmp_path / "b", [stranger[2]], code, None, time.time())
    assert not home.has_joined(tmp_path / "b")


def test_a_hub_that_says_yes_without_the_code_is_told_no_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lies = seal(code_keys(draw_code(), secrets.token_hex(SALT_BYTES), PIN), Grant(token="t" * 43, device="kitchen-1"))
    monkeypatch.setattr(ClaimServer, "join", lambda *_: lies)
    with pytest.raises(ClaimError, match="does not know the code"):
        home.join(tmp_path, [hub[2]], draw_code(), None, time.time())
    assert not home.is_half_way(tmp_path)


def test_a_proof_that_is_passed_on_under_another_root_is_a_wrong_code(hub: Hub, stranger: Hub) -> None:
    """Who sits between shows his own root, and hands what the device says to its hub."""
    code = code_of(hub)
    false_pin = pin(ClaimServer(stranger[2], None).unproven_root())
    salt = secrets.token_hex(SALT_BYTES)
    with pytest.raises(ClaimError, match="not the hub's code"):
        ClaimServer(hub[2], None).join(Join(salt=salt, proof=proof_of(code_keys(code, salt, false_pin), None)))


def test_a_claim_that_was_cut_off_goes_on_without_a_code(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(ClaimServer, "certify", lambda *_: (_ for _ in ()).throw(TryLaterError("cut off")))
        with pytest.raises(TryLaterError):
            home.join(tmp_path, [hub[2]], code_of(hub), None, time.time())
    assert home.is_half_way(tmp_path)
    assert home.finish(tmp_path, time.time()).done == "claimed"


def test_a_hub_that_moved_is_found_by_its_authority_and_no_other(hub: Hub, stranger: Hub, tmp_path: Path) -> None:
    home.join(tmp_path, [hub[2]], code_of(hub), None, time.time())
    record = tmp_path / "identity" / "claim.json"
    record.write_text(record.read_text().replace(hub[2], "https://127.0.0.1:1"))
    (tmp_path / "identity" / "fleet.json").unlink()
    with pytest.raises(ClaimError, match=r"127\.0\.0\.1:1 does not answer"):
        home.keep(tmp_path, time.time(), lambda: [stranger[2]])
    found = home.keep(tmp_path, time.time(), lambda: [stranger[2], hub[2]])
    kept = read_claim(tmp_path)
    assert kept is not None
    assert (found.done, kept.server) == ("moved", hub[2])
    assert read_settings(None, {"state": str(tmp_path)}).broker == TELLS.broker


def test_without_a_code_or_a_hub_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path)]
    monkeypatch.setattr(home, "find_hubs", list)
    assert main(["edge", "run", "--home", *state]) == 2
    assert "--code" in capsys.readouterr().err
    assert main(["edge", "run", "--home", "--code", "K7QM-4T2X", *state]) == 75
    assert "--hub" in capsys.readouterr().err
    assert main(["edge", "run", "--code", "K7QM-4T2X", *state]) == 2
    assert "--home" in capsys.readouterr().err
