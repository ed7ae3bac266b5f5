"""A claim brings fleet, broker and coordinator: then an agent needs its state folder, and no key is typed by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cloud.api_server import GENEROUS, serving
from tests.cloud.arrivals import register
from tests.cloud.filled_store import Filled

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.wire.claims import read_token, read_token_file, token_text
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.issuing import FleetTold
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store
from auricle_edge.settings import agent_settings, read_settings

ROOT = Path(__file__).parents[2]
TOLD = FleetTold("home", "mqtts://hub.lan:8883", "ab" * 32)


def test_an_agent_that_has_claimed_needs_its_folder_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "cloud" / FILE)
    enrolment = Enrolment(Authority.create(tmp_path / "cloud" / "authority", "Test"), store.database)
    key = new_key()
    (tmp_path / "server.pem").write_text(enrolment.server(["127.0.0.1"], key.public_key(), who="op"))
    (tmp_path / "server.key").write_bytes(key_pem(key))
    settings = ApiSettings(port=0, certificate=tmp_path / "server.pem", key=tmp_path / "server.key", rates=GENEROUS)
    (_, token, _), (_, unused, _) = enrolment.tokens(["pi-001", "pi-002"], 3600.0, who="op")
    state, file = tmp_path / "pi", tmp_path / "pi-001.token"
    filled = Filled(tmp_path / "cloud", store, Blobs(tmp_path / "blobs"), load_pack("digits"))

    with serving(filled, settings, tells=TOLD) as server:
        file.write_text(token_text(token, server.url, enrolment.authority.pin))
        code = main(["edge", "claim", "--token-file", str(file), "--state", str(state)])
    told = read_settings(None, {"state": str(state)})
    agent = agent_settings(told)

    assert (code, file.exists()) == (0, False)
    assert (told.device, told.fleet, told.broker, told.coordinator) == ("pi-001", "home", TOLD.broker, TOLD.coordinator)
    assert agent is not None
    assert agent.broker.certificate is not None
    assert read_settings(None, {"state": str(state), "broker": "mqtts://other:1"}).broker == "mqtts://other:1"
    with store.database.writing() as tx:
        for name in ("pi-001", "pi-002"):
            store.devices.enter(tx, register(name), "pending", approve_claimed=True)
    assert [row.standing for row in store.devices.all()] == ["approved", "pending"]
    assert unused
    store.close()


def test_a_tokens_file_may_say_where_it_is_exchanged(tmp_path: Path) -> None:
    token, file = "t" * 30, tmp_path / "pi-001.token"

    file.write_text(token_text(token, "https://hub.lan:8443", "c" * 64))
    assert read_token(file) == token
    assert (read_token_file(file).server, read_token_file(file).ca_pin) == ("https://hub.lan:8443", "c" * 64)
    file.write_text(token_text(token, None, "c" * 64))
    assert file.read_text() == f"{token}\n"
    assert main(["edge", "claim", "--token-file", str(file), "--state", str(tmp_path)]) == 2


def test_half_a_fleet_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="to take part in a fleet"):
        read_settings(None, {"state": str(tmp_path), "fleet": "home"})


def test_three_devices_over_tls_take_eleven_actions() -> None:
    text = (ROOT / "docs" / "identity.md").read_text()
    block = text.partition("## Three devices over TLS")[2].partition("```sh\n")[2].partition("```")[0]
    actions = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]

    assert len(actions) == 11, actions
    assert not re.search(r"[0-9a-f]{32}|PIN|KEY", block)
