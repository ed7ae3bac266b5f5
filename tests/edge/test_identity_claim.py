"""The device's side of a claim, against the real API over TLS: from token to certificate, cut off at every step."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from cryptography import x509
from tests.cloud.api_server import GENEROUS, serving
from tests.cloud.arrivals import register
from tests.cloud.filled_store import Filled

import auricle_cloud.identity.certificates as making
import auricle_edge.fleet.identity_claim.claim as steps
from auricle.errors import REFUSED_CODE, AuricleError, DataError, SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.wire.broker_passwords import read_login
from auricle.wire.claims import read_token, read_token_file, token_text
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.issuing import FleetTold
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.schema import certificates
from auricle_cloud.storage.store import FILE, Store
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer, TryLaterError, may_hold_later
from auricle_edge.settings import agent_settings, read_settings

NUMBERS = itertools.count(1)


@dataclass
class ClaimSite:
    """A coordinator that certifies, and a device with a token."""

    enrolment: Enrolment
    store: Store
    state: Path
    token_file: Path
    url: str
    device: str

    @property
    def issued(self) -> int:
        return len([row for row in self.enrolment.records.all() if row.name == self.device])

    @property
    def pending(self) -> bool:
        return any(row.device == self.device for row in self.enrolment.records.pending())

    @property
    def options(self) -> list[str]:
        options = {"--server": self.url, "--token-file": self.token_file, "--ca-pin": self.pin, "--state": self.state}
        return [str(part) for option in options.items() for part in option]

    @property
    def pin(self) -> str:
        return self.enrolment.authority.pin

    @property
    def password(self) -> str:
        return self.enrolment.authority.passwords().of(self.device)

    @property
    def files(self) -> IdentityFiles:
        return IdentityFiles(self.state / "identity")

    def claim(self) -> steps.Outcome:
        return steps.claim(self.state, self.url, self.pin, self.token_file, time.time())

    def new_token(self) -> None:
        self.token_file.write_text(self.enrolment.tokens([self.device], 3600.0, who="op")[0][1] + "\n")


@contextmanager
def certifying(
    folder: Path, host: str = "127.0.0.1", tells: FleetTold | None = None
) -> Iterator[tuple[Enrolment, Store, str]]:
    """A coordinator that certifies, under this host's name."""
    store = Store(folder / "cloud" / FILE)
    enrolment = Enrolment(Authority.create(folder / "cloud" / "authority", "Test"), store.database)
    key = new_key()
    folder.mkdir(exist_ok=True)
    (folder / "server.pem").write_text(enrolment.server([host], key.public_key(), who="op"))
    (folder / "server.key").write_bytes(key_pem(key))
    settings = ApiSettings(port=0, certificate=folder / "server.pem", key=folder / "server.key", rates=GENEROUS)
    filled = Filled(folder / "cloud", store, Blobs(folder / "blobs"), load_pack("digits"))
    with serving(filled, settings, tells=tells) as server:
        yield enrolment, store, server.url
    store.close()


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Enrolment, Store, str]]:
    with certifying(tmp_path_factory.mktemp("coordinator")) as found:
        yield found


def new_site(coordinator: tuple[Enrolment, Store, str], folder: Path) -> ClaimSite:
    """A device of its own with a token."""
    enrolment, store, url = coordinator
    site = ClaimSite(enrolment, store, folder / "device", folder / "claim.token", url, f"device-{next(NUMBERS)}")
    site.new_token()
    return site


@pytest.fixture
def site(coordinator: tuple[Enrolment, Store, str], tmp_path: Path) -> ClaimSite:
    return new_site(coordinator, tmp_path)


def test_a_token_becomes_a_certificate_and_is_erased(site: ClaimSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "claim", *site.options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    certificate = x509.load_pem_x509_certificates(site.files.certificate.read_bytes())[0]
    assert (told["device"], told["done"], told["token_erased"]) == (site.device, "claimed", True)
    assert certificate.subject.rfc4514_string() == f"CN={site.device}"
    assert not site.token_file.exists()
    modes = [path.stat().st_mode & 0o777 for path in (site.files.folder, site.files.key, site.files.login)]
    assert modes == [0o700, 0o600, 0o600]
    lent = site.files.lend(BrokerAddress.parse("mqtts://broker"))
    assert (lent.ca, lent.certificate, lent.key) == (site.files.authority, site.files.certificate, site.files.key)
    assert lent.tls_context() is not None
    assert lent.credentials() == (site.device, site.password)
    before = {path.name: path.read_bytes() for path in site.files.folder.iterdir()}
    assert site.claim().done == "there already"
    assert {path.name: path.read_bytes() for path in site.files.folder.iterdir()} == before


def test_another_devices_token_is_not_erased_where_this_one_has_its_certificate(
    site: ClaimSite, capsys: pytest.CaptureFixture[str]
) -> None:
    site.claim()
    other = site.enrolment.tokens([f"{site.device}-b"], 3600.0, who="op")[0][1]
    site.token_file.write_text(other)
    assert main(["edge", "claim", *site.options]) == REFUSED_CODE
    assert "another token" in capsys.readouterr().err
    assert site.token_file.read_text() == other


def test_a_token_that_was_used_is_erased_also_where_the_record_of_it_is_gone(site: ClaimSite) -> None:
    token = site.token_file.read_text()
    site.claim()
    site.token_file.write_text(token)
    assert site.claim().done == "there already"
    assert not site.token_file.exists()
    (site.files.folder / steps.TOKEN).unlink()
    site.token_file.write_text(token)
    assert site.claim().done == "there already"


def test_a_claim_that_is_made_again_without_its_token_says_that_it_is_there_already(
    site: ClaimSite, capsys: pytest.CaptureFixture[str]
) -> None:
    site.claim()
    assert main(["edge", "claim", "--token-file", str(site.token_file), "--state", str(site.state)]) == 0
    assert "there already" in capsys.readouterr().out
    assert main(["edge", "claim", "--token-file", str(site.token_file), "--state", f"{site.state}2"]) == 2


@pytest.mark.parametrize("way", ["without TLS", "another name"])
def test_a_server_of_another_name_or_without_tls_is_said(site: ClaimSite, way: str) -> None:
    at = site.url.partition("//")[2]
    url = f"http://{at}" if way == "without TLS" else f"https://{at.replace('127.0.0.1', 'localhost')}"
    with pytest.raises(ClaimError, match=way) as error:
        steps.claim(site.state, url, site.pin, site.token_file, time.time())
    assert error.value.exit_code == 2


def test_a_board_with_a_new_card_says_which_key_signs_its_messages(site: ClaimSite) -> None:
    site.claim()
    old = Identity.load_or_create(site.state / DEVICE_KEY)
    site.store.devices.register(register(site.device, public_key=old.public), "approved")
    shutil.rmtree(site.state)
    site.token_file.write_text(site.enrolment.tokens([site.device], 3600.0, who="op", replace=True)[0][1])
    done = site.claim()
    assert (done.device, done.done) == (site.device, "claimed")
    assert site.store.devices.keys()[site.device] == Identity.load_or_create(site.state / DEVICE_KEY).public
    assert site.store.devices.keys()[site.device] != old.public


class PowerCut(BaseException):
    """The device stops."""


@pytest.mark.parametrize("after", range(8), ids=lambda number: f"after {number} writes")
def test_a_claim_that_is_cut_off_ends_well_the_next_time(
    site: ClaimSite, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    left, erase = [after], steps.erase

    def count() -> None:
        if left[0] == 0:
            raise PowerCut
        left[0] -= 1

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def before(*given: Any, **named: Any) -> Any:
            count()
            return step(*given, **named)

        return before

    def certify(*given: Any, ask: Callable[..., Any] = ClaimServer.certify) -> Any:
        answer = ask(*given)
        count()  # the answer is lost on its way
        return answer

    def zeros_first(token_file: Path) -> bool:
        token_file.write_bytes(bytes(44))
        count()
        return erase(token_file)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "write_durably", counted(steps.write_durably))
        patched.setattr(steps, "write_login", counted(steps.write_login))
        patched.setattr(steps, "erase", counted(zeros_first))
        patched.setattr(ClaimServer, "certify", certify)
        with pytest.raises(PowerCut):
            site.claim()
    site.claim()
    assert not site.token_file.exists()
    assert site.issued == 1
    assert read_login(site.files.login) == (site.device, site.password)
    assert steps.renew(site.state, time.time()).done in ("not due", "renewed")


def test_a_server_with_another_authority_is_not_told_the_token(site: ClaimSite, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "Test")
    with pytest.raises(ClaimError, match="authority"):
        steps.claim(site.state, site.url, other.pin, site.token_file, time.time())
    assert site.pending
    assert site.token_file.exists()


def test_who_shows_the_right_authority_without_its_certificate_is_not_told_the_token(tmp_path: Path) -> None:
    with certifying(tmp_path / "cloud", host="elsewhere.lan") as found:
        site = new_site(found, tmp_path)
        with pytest.raises(ClaimError, match="does not hold"):
            site.claim()
        assert site.pending


def test_a_clock_that_is_behind_is_mended_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As before 2020, when no certificate of ours is valid yet: the unit claims again, and the token stays."""
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    with monkeypatch.context() as patched:
        patched.setattr(making, "START", tomorrow)
        with certifying(tmp_path / "cloud") as found:
            site = new_site(found, tmp_path)
            assert main(["edge", "claim", *site.options]) == 75
            said = capsys.readouterr().err
            assert "not valid yet by the clock of this side." in said and "try again" in said
            assert site.pending and site.token_file.exists()


@pytest.mark.parametrize(
    ("code", "kept", "mended"),
    [(9, True, True), (9, None, True), (10, True, False), (10, None, True), (10, False, True), (62, False, False)],
)
def test_what_a_right_clock_would_mend_is_tried_again(code: int, kept: bool | None, mended: bool) -> None:
    assert may_hold_later(code, kept) is mended


def test_refusals_are_told_in_the_coordinators_words(site: ClaimSite, capsys: pytest.CaptureFixture[str]) -> None:
    site.token_file.write_text("x" * 43)
    assert main(["edge", "claim", *site.options]) == 2
    assert "This claim token is unknown" in capsys.readouterr().err
    assert site.token_file.exists()


def test_nobody_there_is_worth_another_attempt(site: ClaimSite, tmp_path: Path) -> None:
    with pytest.raises(TryLaterError) as error:
        steps.claim(site.state, "https://127.0.0.1:1", site.pin, site.token_file, time.time())
    assert error.value.exit_code == 75


@pytest.mark.parametrize("text", ["", "short", "x" * 200, "a b" * 10, "\x00" * 44, "é" * 30], ids=range(6))
def test_what_is_no_token_is_not_sent(site: ClaimSite, text: str) -> None:
    site.token_file.write_text(text)
    with pytest.raises(DataError):
        site.claim()


@pytest.mark.parametrize("url", ["http://example.org", "ftp://h", "https://", "https://h:x", "https://h/p", "h"])
def test_a_url_that_would_send_the_token_in_the_clear_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        ClaimServer(url, "a" * 64)


def test_a_token_on_a_place_that_cannot_be_written_does_not_stop_a_claim(
    site: ClaimSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    outcome = steps.claim(site.state, site.url, site.pin, site.token_file, time.time())

    assert (outcome.done, outcome.token_erased) == ("claimed", False)


def test_only_a_token_that_is_not_systemds_own_copy_is_said_to_stay(
    site: ClaimSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("auricle_edge.fleet.identity_claim.claim.erase", lambda _: False)
    assert main(["edge", "claim", *site.options]) == 0
    assert "removed" in capsys.readouterr().err
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(site.token_file.parent))
    assert main(["edge", "claim", *site.options]) == 0
    assert capsys.readouterr().err == ""


def test_a_certificate_is_renewed_when_it_is_due(site: ClaimSite) -> None:
    site.claim()
    first = site.files.certificate.read_bytes()
    assert steps.renew(site.state, time.time()).done == "not due"
    with site.store.database.writing() as tx:
        tx.execute(sa.update(certificates).values(renew_after=time.time() - 1))
    outcome = steps.renew(site.state, time.time() + 300 * 86400)
    assert (outcome.device, outcome.done) == (site.device, "renewed")
    assert site.files.certificate.read_bytes() != first
    assert site.claim().done == "there already"


@pytest.mark.parametrize(
    "content", [None, b"", b"kitchen-1:short\n", b"\xff" * 300], ids=["none", "empty", "short", "bytes"]
)
def test_a_password_that_is_missing_or_damaged_is_fetched_by_a_renewal(site: ClaimSite, content: bytes | None) -> None:
    site.claim()
    certificate = site.files.certificate.read_bytes()
    site.files.login.unlink()
    if content is not None:
        site.files.login.write_bytes(content)
    assert steps.renew(site.state, time.time()).done == "not due"
    assert read_login(site.files.login) == (site.device, site.password)
    assert (site.files.certificate.read_bytes(), site.issued) == (certificate, 1)


@pytest.mark.parametrize("password", ["x" * 42, "x" * 44, "x" * 42 + ":", "x" * 42 + "\n", 7], ids=range(5))
def test_what_is_no_password_is_not_kept(site: ClaimSite, monkeypatch: pytest.MonkeyPatch, password: object) -> None:
    ask = ClaimServer._ask

    def changed(self: ClaimServer, *given: Any) -> bytes:
        answer = json.loads(ask(self, *given))
        return json.dumps({**answer, "password": password} if "device" in answer else answer).encode()

    monkeypatch.setattr(ClaimServer, "_ask", changed)
    with pytest.raises(ClaimError, match="cannot be read"):
        site.claim()

    assert not site.files.login.exists()
    assert not site.files.certificate.exists()


def test_a_coordinator_of_an_older_version_gives_no_password(site: ClaimSite, monkeypatch: pytest.MonkeyPatch) -> None:
    certify = ClaimServer.certify
    monkeypatch.setattr(ClaimServer, "certify", lambda *given: msgspec.structs.replace(certify(*given), password=None))
    assert site.claim().done == "claimed"
    assert site.files.lend(BrokerAddress.parse("mqtts://broker")).credentials() == (None, None)
    assert steps.renew(site.state, time.time()).done == "not due"


def test_an_expired_certificate_is_none_and_a_token_replaces_it(site: ClaimSite) -> None:
    site.claim()
    first = site.files.certificate.read_bytes()
    later = time.time() + 400 * 86400
    with pytest.raises(DataError, match="token"):
        steps.claim(site.state, site.url, site.pin, site.token_file, later)
    site.token_file.write_text(site.enrolment.tokens([site.device], 3600.0, who="op", replace=True)[0][1])
    outcome = steps.claim(site.state, site.url, site.pin, site.token_file, later)
    assert outcome.done == "claimed"
    assert site.files.certificate.read_bytes() != first
    assert site.claim().done == "there already"


def test_a_revoked_device_is_told_so_when_it_renews(site: ClaimSite) -> None:
    site.claim()
    site.enrolment.revoke(site.device, who="op")
    with pytest.raises(ClaimError, match="was revoked"):
        steps.renew(site.state, time.time() + 300 * 86400)


def test_two_claims_at_once_end_with_one_certificate(site: ClaimSite) -> None:
    def work(_: int) -> None:
        with suppress(AuricleError):
            site.claim()

    steps._make_private(site.files.folder)
    steps._key(site.files.key)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    assert site.issued == 1
    assert site.claim().done == "there already"


# -- a claim brings fleet, broker and coordinator


ROOT = Path(__file__).parents[2]
TOLD = FleetTold("home", "mqtts://hub.lan:8883", "ab" * 32)


def test_an_agent_that_has_claimed_needs_its_folder_alone(tmp_path: Path) -> None:
    state, file = tmp_path / "pi", tmp_path / "pi-001.token"
    with certifying(tmp_path / "coordinator", tells=TOLD) as (enrolment, store, url):
        (_, token, _), (_, unused, _) = enrolment.tokens(["pi-001", "pi-002"], 3600.0, who="op")
        file.write_text(token_text(token, url, enrolment.authority.pin))
        code = main(["edge", "claim", "--token-file", str(file), "--state", str(state)])
        told = read_settings(None, {"state": str(state)})
        agent = agent_settings(told)
        with store.database.writing() as tx:
            for name in ("pi-001", "pi-002"):
                store.devices.enter(tx, register(name), "pending", approve_claimed=True)
        assert [row.standing for row in store.devices.all()] == ["approved", "pending"]
    assert (code, file.exists()) == (0, False)
    assert (told.device, told.fleet, told.broker, told.coordinator) == ("pi-001", "home", TOLD.broker, TOLD.coordinator)
    assert agent is not None
    assert agent.broker.certificate is not None
    assert read_settings(None, {"state": str(state), "broker": "mqtts://other:1"}).broker == "mqtts://other:1"
    assert unused


def test_a_tokens_file_may_say_where_it_is_exchanged(tmp_path: Path) -> None:
    token, file = "t" * 30, tmp_path / "pi-001.token"
    file.write_text(token_text(token, "https://hub.lan:8443", "c" * 64))
    assert read_token(file) == token
    assert (read_token_file(file).server, read_token_file(file).ca_pin) == ("https://hub.lan:8443", "c" * 64)
    file.write_text(token_text(token, None, "c" * 64))
    assert file.read_text() == f"{token}\n"
    assert main(["edge", "claim", "--token-file", str(file), "--state", str(tmp_path)]) == 2


def test_three_devices_over_tls_take_five_actions_and_two_each_and_a_home_one_and_one_each() -> None:
    text = (ROOT / "docs" / "identity.md").read_text()
    block = text.partition("## Three devices over TLS")[2].partition("```sh\n")[2].partition("```")[0]
    typed = [line for line in block.splitlines() if line.strip()]
    assert [" edge " in line for line in typed] == [False] * 5 + [True] * 2, typed
    assert not re.search(r"[0-9a-f]{32}|PIN|KEY", block)
    home = [line for line in (ROOT / "docs" / "home.md").read_text().splitlines() if line.startswith("    ")]
    assert [" edge " in line for line in home] == [False, True], home
