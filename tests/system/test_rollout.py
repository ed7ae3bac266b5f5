"""Rollouts of packs, all of it real: mosquitto over TLS, `auricle cloud serve`, `auricle edge run`, an operator."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.firstboot.house import House, auricle, house
from tests.system.conftest import Command
from tests.system.rollout_site import DIGITS, Releases, another, deaf, wait_for, write_pack
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.virtual_room import VirtualRoom

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow, pytest.mark.timeout(600)]

DEVICE = "kitchen-1"
HEALTHY = 4  # seconds
PATIENCE = 120.0


class Board:
    """A device that claims its certificate; its agent is started again whenever it ends, as systemd would."""

    def __init__(self, folder: Path, site: House, releases: Releases) -> None:
        self.state, self.room = folder / "device", VirtualRoom(folder / "microphone")
        self._config = folder / "edge.toml"
        url = f"https://{site.host}:{site.api_port}"
        token = site.tokens(DEVICE) / f"{DEVICE}.token"
        told = ["--token-file", str(token), "--ca-pin", site.pin, "--state", str(self.state)]
        auricle("edge", "claim", "--server", url, *told)
        self._config.write_text(
            f'state = "{self.state}"\nfleet = "home"\npack = "digits"\nbroker = "mqtts://{site.host}:{site.broker_port}"\n'
            f'coordinator = "{site.key}"\n[detect]\nvad = "off"\n[capture]\nsource = "{self.room.source}"\n'
            f'[updates]\nroot = "{releases.root}"\nhealth_seconds = {HEALTHY}\n'
        )
        self._over, self._agents = threading.Event(), list[Command]()
        self._thread = threading.Thread(target=self._keep)

    def open(self) -> None:
        self.room.open()
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._agents:
            self._agents[-1].signal(signal.SIGTERM)
        self._thread.join(60)
        self.room.close()

    def _keep(self) -> None:
        while not self._over.is_set():
            self._agents.append(Command("edge", "run", "--config", str(self._config), "--json"))
            self._agents[-1].end(600)

    @property
    def log(self) -> str:
        """The end of what the agent said of itself."""
        return "".join(agent.errors for agent in self._agents)[-4000:]

    def record(self, name: str) -> dict[str, Any]:
        """What the device has written of its updates."""
        try:
            read: dict[str, Any] = json.loads((self.state / "updates" / name).read_bytes())
        except FileNotFoundError:
            return {}
        return read

    @property
    def pack(self) -> str:
        """What it runs, as its own command says."""
        told = auricle("edge", "status", "--state", str(self.state), "--json")
        return str(json.loads(told)["pack"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "house", ["127.0.0.1"], "--pack", "digits") as made:
        yield made


@pytest.fixture
def releases(site: House) -> Releases:
    return Releases(site)


@pytest.fixture
def board(tmp_path: Path, site: House, releases: Releases) -> Iterator[Board]:
    """It runs the digits, and has said so."""
    made = Board(tmp_path, site, releases)
    made.open()
    try:
        wait_for(lambda: releases.knows(DEVICE), lambda: made.log, PATIENCE)
        yield made
    finally:
        made.close()


def test_a_device_is_updated_in_rollouts_show_only_when_it_is_well_on_the_new_pack(
    tmp_path: Path, releases: Releases, board: Board
) -> None:
    identity = releases.add(write_pack(another("better"), tmp_path))
    said: list[tuple[str, str, bool]] = []

    def look(cloud: str) -> None:
        at_device = board.record("progress.json").get("state", "none"), bool(board.record("kept.json"))
        said.append((cloud, *at_device))

    rollout = releases.start(identity)
    shown = releases.watch(rollout, look, PATIENCE)
    assert shown["row"]["state"] == "finished", shown
    (device,) = shown["devices"]
    assert (device["state"], device["runs"], device["confirmed"]) == ("updated", identity, True)
    assert ("asked", "trial", False) in said
    assert {kept for cloud, _, kept in said if cloud == "updated"} == {True}
    assert board.pack == identity


@pytest.mark.nightly
def test_a_pack_that_fails_on_sound_is_given_back_and_pauses_the_rollout(
    tmp_path: Path, releases: Releases, board: Board
) -> None:
    identity = releases.add(write_pack(deaf("deaf"), tmp_path))
    said: list[str] = []
    tried: list[str] = []

    def look(cloud: str) -> None:
        said.append(cloud)
        tried.append(board.record("trial.json").get("identity", ""))

    rollout = releases.start(identity)
    shown = releases.watch(rollout, look, 2 * PATIENCE)
    row, device = shown["row"], shown["devices"][0]
    assert (row["state"], row["updated"], row["failed"]) == ("paused", 0, 1), shown
    assert (device["state"], device["runs"], device["confirmed"]) == ("failed", DIGITS.identity, True)
    assert "did not get healthy" in "".join(device["sentences"]), device["sentences"]
    assert "updated" not in said
    assert identity in tried
    assert board.pack == DIGITS.identity


@pytest.mark.nightly
def test_metadata_of_yesterday_is_refused_and_todays_is_taken_afterwards(
    tmp_path: Path, releases: Releases, board: Board
) -> None:
    second, third = (releases.add(write_pack(another(name), tmp_path)) for name in ("second", "third"))
    shutil.copytree(releases.metadata, tmp_path / "yesterday")
    fourth = releases.add(write_pack(another("fourth"), tmp_path))
    assert releases.watch(releases.start(second), lambda _: None, PATIENCE)["row"]["state"] == "finished"
    releases.metadata.rename(tmp_path / "today")
    shutil.copytree(tmp_path / "yesterday", releases.metadata)
    rollout = releases.start(third)
    shown = releases.watch(rollout, lambda _: None, PATIENCE)
    row, device = shown["row"], shown["devices"][0]
    assert (row["state"], row["updated"], row["refused"]) == ("paused", 0, 1), shown
    assert (device["state"], device["runs"]) == ("refused", second)
    assert "not in order" in "".join(device["sentences"]), device["sentences"]
    assert board.pack == second
    shutil.rmtree(releases.metadata)
    shutil.copytree(tmp_path / "today", releases.metadata)
    releases.abort(rollout)
    assert releases.watch(releases.start(fourth), lambda _: None, PATIENCE)["row"]["updated"] == 1
    assert board.pack == fourth
