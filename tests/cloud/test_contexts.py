"""Which coordinator a command acts on, and how it ends: contexts, flags over the environment, exit codes, times."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import TASK, Filled, fill
from tests.cloud.test_cloud_commands import auricle, here, there, told

from auricle.packs.pack import load_pack
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store


def test_a_coordinator_is_named_once(filled: Filled, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    nothing = auricle("overview", **home)
    made = auricle("use", "home", "--state", filled.folder, **home)
    seen = told(auricle("overview", "--json", **home))
    listed = auricle("use", **home).stdout

    assert (nothing.returncode, made.returncode, seen["devices"]) == (2, 0, 5)
    assert re.search(rf"^\*\s+home\s+{filled.folder}", listed, re.MULTILINE)
    file = tmp_path / "config" / "auricle" / "cloud.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert auricle("use", "home", "--forget", **home).returncode == 0
    assert auricle("overview", **home).returncode == 2


def test_a_context_keeps_the_token_of_its_server(filled: Filled, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    with serving(filled) as server:
        token = {"AURICLE_TOKEN": server.tokens["viewer"]}
        assert auricle("use", "hub", "--server", server.url, **home, **token).returncode == 0
        assert told(auricle("overview", "--json", **home))["devices"] == 5


def test_a_folder_that_is_not_there_yet_is_taken(tmp_path: Path) -> None:
    assert auricle("use", "home", "--state", "hoem/state", XDG_CONFIG_HOME=str(tmp_path)).returncode == 0
    assert "hoem/state" in (tmp_path / "auricle" / "cloud.toml").read_text()


def test_a_context_is_changed_by_what_is_said_and_keeps_the_rest(tmp_path: Path) -> None:
    home, file = {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path / "auricle" / "cloud.toml"

    assert auricle("use", "hub", "--task", "words", **home).returncode == 2, "it names no coordinator"
    assert auricle("use", "hub", "--server", "https://hub:8090", **home, AURICLE_TOKEN="secret").returncode == 0
    assert auricle("use", "hub", "--task", "words", **home).returncode == 0
    assert auricle("use", "hub", "--server", "https://hub:8090", **home).returncode == 0
    kept = file.read_text()
    assert auricle("use", "hub", "--server", "https://other:8090", **home).returncode == 0
    other = file.read_text()
    assert auricle("use", "hub", "--state", tmp_path, **home).returncode == 0

    assert 'server = "https://hub:8090"\ntask = "words"\ntoken = "secret"' in kept
    assert "secret" not in other, "a token is its server's alone"
    assert 'task = "words"' in other
    assert file.read_text().strip().endswith(f'[context."hub"]\nstate = "{tmp_path}"\ntask = "words"')


def test_flags_beat_the_environment_and_stand_before_or_after_the_command(filled: Filled, tmp_path: Path) -> None:
    fill(tmp_path / "other").store.devices.set_label("dev-a", "of the other", who="t")
    with serving(filled) as server:
        around = there(server)
        at = ("--state", tmp_path / "other")
        for line in (("devices", "list", *at), (*at, "devices", "list")):
            rows = told(auricle(*line, "--json", **around))["devices"]
            assert rows[0]["label"] == "of the other", line
        over = {**here(filled), "AURICLE_TOKEN": server.tokens["viewer"], "AURICLE_STATE": "/no/such"}
        assert told(auricle("overview", "--server", server.url, "--json", **over))["devices"] == 5
    assert auricle("overview", **around, **here(filled)).returncode == 2  # the environment names two places


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("overview", "--server", "http://127.0.0.1:9"), 6),
        (("rounds", "wait", 3, "--timeout", 0), 4),
        (("rounds", "wait", 3, "--timeout", "0s"), 4),
        (("rounds", "start", "--wait", "--timeout", "soon"), 2),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(filled: Filled, line: tuple[object, ...], code: int) -> None:
    done = auricle(*line, **here(filled), AURICLE_TOKEN="auricle_x")
    assert done.returncode == code, done.stderr


@pytest.mark.slow
def test_start_waits_for_its_rounds(filled: Filled) -> None:
    assert auricle("rounds", "start", "--wait", "--timeout", 0, **here(filled)).returncode == 4

    def abort() -> None:
        while not [row for row in filled.store.rounds.listed(TASK, limit=1) if row.round == 5]:
            time.sleep(0.05)
        filled.store.rounds.move(TASK, 5, "planned", "aborted", report={"invited": []})

    other = threading.Thread(target=abort)
    other.start()
    done = auricle("rounds", "start", "--wait", "--timeout", 60, **here(filled))
    other.join()
    assert (done.returncode, "Planned: round 5." in done.stdout) == (3, True), done.stderr


@pytest.mark.slow
def test_preflight_takes_the_settings_file_of_serve(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text(
        f'fleet = "home"\nbroker = "mqtt://127.0.0.1:9"\nstate = "{tmp_path}"\npack = "digits"\n'
        '[rounds]\nmethod = "multi-krum"\n[api]\nlisten = "127.0.0.1:0"\n'
    )

    done = auricle("preflight", "--config", file, "--json")

    said = {found["check"]: found for found in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert {check for check, found in said.items() if found["verdict"] == "bad"} == {"broker"}
    assert "multi-krum" in said["method"]["sentence"] and "digits" in said["pack"]["sentence"]
    assert auricle("preflight", "--state", tmp_path).returncode == 2


def test_a_server_that_is_not_trusted_is_said_with_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path / "state" / FILE)
    enrolment = Enrolment(Authority.create(tmp_path / "state" / "authority", "Test"), store.database)
    key = new_key()
    (tmp_path / "server.pem").write_text(enrolment.server(["127.0.0.1"], key.public_key(), who="op"))
    (tmp_path / "server.key").write_bytes(key_pem(key))
    settings = ApiSettings(port=0, certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    filled = Filled(tmp_path / "state", store, Blobs(tmp_path / "blobs"), load_pack("digits"))
    with serving(filled, settings) as server:
        around = there(server)
        refused = auricle("overview", **around)
        trusted = auricle("overview", SSL_CERT_FILE=str(tmp_path / "state" / "authority" / "root.pem"), **around)

    assert (refused.returncode, trusted.returncode) == (6, 0)
    assert "SSL_CERT_FILE" in refused.stderr


def test_times_in_json_have_their_zone(filled: Filled) -> None:
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d"
    row = told(auricle("devices", "show", "dev-a", "--json", **here(filled)))["row"]
    assert re.fullmatch(form, row["last_seen"])
    assert row["offline_since"] is None
    event = json.loads(auricle("journal", "--json", **here(filled)).stdout)["events"][0]
    assert re.fullmatch(form, event["at"])
