"""One command makes what a fleet of boards needs, and all of it fits together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cloud.test_cloud_commands import auricle

from auricle.mqtt_link.link import BrokerAddress
from auricle.settings import read_toml
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_cloud.identity.broker_folder import BrokerFolder
from auricle_cloud.ota.repository import Repository
from auricle_cloud.service import as_devices_reach
from auricle_export.flash.fleet_file import load_fleet

pytest.importorskip("tuf")


def test_a_fleet_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "home"

    done = auricle("fleet", "new", "home", "--host", "hub.lan", "--host", "127.0.0.1", "--out", out, "--json")

    made = json.loads(done.stdout)
    fleet = load_fleet(out / "fleet.toml")
    assert (fleet.name, fleet.broker, fleet.server) == ("home", "mqtts://hub.lan:8883", "https://hub.lan:8443")
    assert (fleet.ca_pin, fleet.coordinator) == (made["pin"], made["coordinator"])
    assert Path(fleet.update_root or "").read_bytes() == Repository(out / "state" / "releases").root_file.read_bytes()
    assert {path.name for path in (out / "keys").iterdir()} == {"root.key", "targets.key"}
    assert BrokerFolder.read(out / "broker").hosts == ["hub.lan", "127.0.0.1"]
    serve = read_toml(out / "coordinator.toml")
    for name in ("certificate", "key"):
        assert Path(serve["api"][name]).is_file()
    assert set(serve) <= set(CoordinatorSettings.__struct_fields__)
    assert Path(serve["state"], "authority", "issuing.pem").is_file()
    token = auricle("enrol", "token", "--device", "pi-001", "--state", serve["state"])
    assert token.returncode == 0, token.stderr


def test_a_fleet_is_not_made_twice_and_its_name_is_checked(tmp_path: Path) -> None:
    given = ("--host", "hub.lan", "--out", tmp_path / "home")
    assert auricle("fleet", "new", "home", *given).returncode == 0
    again, wrong = auricle("fleet", "new", "home", *given), auricle("fleet", "new", "My Home", *given)
    assert (again.returncode, wrong.returncode) == (7, 2)


def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    done = auricle("fleet", "new", "home", "--host", "fd00::1", "--out", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    fleet = load_fleet(tmp_path / "home" / "fleet.toml")
    assert (fleet.broker, fleet.server) == ("mqtts://[fd00::1]:8883", "https://[fd00::1]:8443")
    serve = read_toml(tmp_path / "home" / "coordinator.toml")
    assert BrokerAddress.parse(serve["broker"]).host == "fd00::1"
    assert (tmp_path / "home" / "state" / "api-url").read_text() == "https://[fd00::1]:8443\n"


def test_devices_are_told_of_a_broker_as_they_reach_it() -> None:
    assert as_devices_reach(BrokerAddress.parse("mqtts://coordinator:secret@[fd00::1]")) == "mqtts://[fd00::1]:8883"
    assert as_devices_reach(BrokerAddress.parse("mqtts://hub.lan:8884")) == "mqtts://hub.lan:8884"
    assert as_devices_reach(BrokerAddress.parse("mqtt://coordinator@127.0.0.1")) is None


def test_an_authority_that_is_there_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    pin = json.loads(auricle("enrol", "init", "--state", state, "--json").stdout)["pin"]
    done = auricle("fleet", "new", "home", "--host", "hub.lan", "--out", tmp_path / "home", "--state", state)
    assert done.returncode == 0, done.stderr
    assert load_fleet(tmp_path / "home" / "fleet.toml").ca_pin == pin
    assert not (tmp_path / "home" / "state").exists()


@pytest.mark.parametrize(
    ("hosts", "listens"), [(["127.0.0.1", "localhost"], "127.0.0.1"), (["127.0.0.1", "hub.lan"], "0.0.0.0")]
)
def test_a_fleet_tried_on_one_machine_listens_there_alone(hosts: list[str], listens: str, tmp_path: Path) -> None:
    named = [word for host in hosts for word in ("--host", host)]
    done = auricle("fleet", "new", "home", *named, "--out", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert read_toml(tmp_path / "home" / "coordinator.toml")["api"]["listen"] == f"{listens}:8443"
    assert f"listener 8883 {listens}\n" in (tmp_path / "home" / "broker" / "mosquitto.conf").read_text()
