"""The hub of a home: made once, found again, at the addresses of now; and what it does not take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509
from tests.cloud.test_cloud_commands import auricle
from tests.system.tls_site import NEEDS_MOSQUITTO, free_port

from auricle.errors import BrokerError, SettingsError
from auricle.process.cli import main
from auricle.wire.join_codes import read_code
from auricle_cloud.commands import home_broker
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_cloud.commands.home import HomeHub, home_hub, own_hosts
from auricle_cloud.commands.serve_options import by_table
from auricle_cloud.identity.joining import JoinCodes
from auricle_cloud.storage.store import FILE, Store

GIVEN = by_table({"method_options": []})


def opened(folder: Path, *hosts: str, **api: str) -> tuple[HomeHub, CoordinatorSettings]:
    """A hub that was started for a moment."""
    given = {**GIVEN, "api": {**GIVEN["api"], "listen": f"127.0.0.1:{free_port()}", **api}}
    with home_hub(folder, given, hosts, free_port()) as begun:
        return begun


@pytest.mark.slow
@NEEDS_MOSQUITTO
def test_a_second_start_keeps_all_but_code_and_addresses(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    first, _ = opened(folder, "127.0.0.1")
    keys = {path: path.read_bytes() for path in (folder / "authority").iterdir()}
    second, settings = opened(folder, "localhost")
    assert {path: path.read_bytes() for path in (folder / "authority").iterdir()} == keys
    assert (first.token is None, second.token is None) == (False, True)
    assert first.code != second.code
    assert JoinCodes(folder, "").current() is not None
    assert read_code(second.code) == JoinCodes(folder, "").current().code  # type: ignore[union-attr]
    assert (settings.approval, settings.rounds.quorum, settings.storage.backups) == (
        "claimed",
        0.6,
        str(folder / "backups"),
    )
    for server in ("api", "broker"):
        chain = x509.load_pem_x509_certificates((folder / server / "server.pem").read_bytes())
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert settings.api.device_broker is not None
    assert settings.api.device_broker.startswith("mqtts://localhost:")
    assert settings.broker is not None
    assert settings.broker.startswith("mqtts://coordinator@127.0.0.1:")
    looked = json.loads(auricle("doctor", "--json", "--state", folder).stdout)["findings"]
    assert {each["check"]: each["verdict"] for each in looked}["authority"] == "good"
    store = Store(folder / FILE)
    assert [(row.name, row.idle) for row in store.schedules.all()] == [("morning", 2), ("night", 3)]
    assert [(row.name, row.role) for row in store.tokens.all()] == [("home", "admin")]
    store.close()


def test_own_hosts_are_an_address_and_names() -> None:
    assert "localhost" in own_hosts()
    assert own_hosts()[0].count(".") == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--config", "c.toml"], "settings in its folder"),
        (["--take-over"], "takes over"),
        (["--database", "postgresql://h/d"], "--database"),
        (["--listen", "none"], "fixed port"),
        (["--host", "h:1"], "leave out the port"),
    ],
)
def test_what_a_hub_does_not_take_is_refused_before_anything_is_made(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cloud", "serve", "--home", "--state", str(tmp_path / "hub"), *more]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "hub" / "fleet.toml").exists()


def test_a_host_without_a_home_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cloud", "serve", "--host", "hub.lan"]) == 2
    assert "--home" in capsys.readouterr().err


@pytest.mark.slow
def test_without_mosquitto_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_broker, "find_mosquitto", lambda: None)
    with pytest.raises(BrokerError, match="apt install mosquitto"):
        opened(tmp_path / "hub", "127.0.0.1")
    with pytest.raises(SettingsError, match="fixed port"):
        opened(tmp_path / "other", "127.0.0.1", listen="127.0.0.1:0")
