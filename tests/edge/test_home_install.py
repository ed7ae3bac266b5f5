"""A bundle that Home Assistant has installed: real metadata, a real broker, the real guard of a device in a folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.home_assistant_schemas import update_violations
from tests.edge.slots_bundle import Device, make_bundle, quick_folder
from tests.edge.test_outputs import run, until
from tests.edge.test_updates_agent import ANOTHER, FIRST, offer
from tests.edge.test_updates_bundle import release
from tests.edge.update_site import Server, serving
from tests.home_broker import home_broker
from tests.system.tls_site import NEEDS_MOSQUITTO

from auricle.errors import SettingsError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.packs.pack import pack_bytes
from auricle_edge.listening.events.chosen import require_asked
from auricle_edge.listening.events.home_device import HomeDevice, HomeState
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.outputs import EventSettings
from auricle_edge.ota.bundle_upgrade import BundleUpgrade
from auricle_edge.ota.following import Following, count_start
from auricle_edge.ota.newest_bundle import find_newest
from auricle_edge.ota.offers import NO_ANSWER, Offers, Version
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.records import FOLDER, WANTED, Wanted, read_record
from auricle_edge.ota.slots.commands import main as guard
from auricle_edge.settings import EdgeSettings, UpdateSettings

pytestmark = NEEDS_MOSQUITTO
BASE = "auricle-events/kitchen-1"


class Board:
    """A device in a folder that runs 1.0, its server, and root, who works when systemd would start him."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server, self.device = folder, server, Device(folder / "disk")
        old = make_bundle(folder / "1.0", "1.0", more={"tuf/root.json": server.repository.root})
        assert guard(["install", "--root", str(self.device.root), str(old)]) == 0
        (folder / "first.tar.zst").write_bytes(pack_bytes(FIRST))
        self.settings = EdgeSettings(
            device="kitchen-1",
            state=str(folder / "state"),
            pack=str(folder / "first.tar.zst"),
            local="lite",
            updates=UpdateSettings(url=server.url),
        )

    @property
    def wanted(self) -> Wanted | None:
        return read_record(self.settings.folder / FOLDER / WANTED, Wanted)

    def root_works(self) -> str:
        wanted = self.wanted
        assert wanted is not None
        return BundleUpgrade(self.settings, self.device.root, lambda _: None).run(wanted).state

    def check(self) -> None:
        """What the guard's timer starts."""
        assert guard(["check", "--root", str(self.device.root)]) == 0

    @asynccontextmanager
    async def agent(self, address: BrokerAddress, restart: Callable[[], None]) -> AsyncIterator[Following]:
        """What runs of the agent: it follows, looks for offers and tells its home."""
        count_start(self.settings)
        shelf = PackShelf(self.settings.folder, self.settings.pack)
        updates = Following(self.settings, shelf.current().identity, restart=restart)
        offers = Offers(self.settings, updates)

        def state() -> HomeState:
            now = offers.version
            return HomeState(version=now.running, latest=now.latest, installing=now.installing, reason=now.reason)

        async def unheard() -> None: ...

        home = HomeDevice("kitchen-1", "home", ("yes",), state, lambda on: None, install=offers.install)
        output = HomeMqtt(address, "auricle-events/{device}", "kitchen-1", no_answer, home=(home, "homeassistant"))
        work = [asyncio.create_task(updates.run(unheard)), asyncio.create_task(offers.run())]
        await output.open()
        try:
            yield updates
        finally:
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await output.close()


def no_answer(_: object) -> Any:
    raise AssertionError("nobody asked")


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    with quick_folder() as folder, serving() as server:
        made = Board(folder, server)
        monkeypatch.setenv("AURICLE_INSTALLATION", str(made.device.home))
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(made.device.root / "run/auricle"))
        monkeypatch.setattr("auricle_edge.ota.following.LOOK_SECONDS", 0.05)
        monkeypatch.setattr("auricle_edge.ota.offers.TURN_SECONDS", 0.05)
        monkeypatch.setattr("auricle_edge.listening.events.presence.LOOK_SECONDS", 0.05)
        yield made


class Hub:
    """Home Assistant's place at the broker."""

    def __init__(self, address: BrokerAddress) -> None:
        self.update: dict[str, Any] = {}
        handlers = {f"{BASE}/update": self._hear, "homeassistant/update/#": self._configured}
        self.link = MqttLink(LinkSettings(address, "hub"), handlers=handlers)
        self.config: dict[str, Any] = {}

    async def _configured(self, message: Delivery) -> None:
        self.config = json.loads(message.payload)

    async def _hear(self, message: Delivery) -> None:
        assert not update_violations(message.payload)
        self.update = json.loads(message.payload)

    async def shows(self, *, reason: str = "", **wanted: Any) -> None:
        def right() -> bool:
            fits = all(self.update.get(name) == value for name, value in wanted.items())
            return fits and bool(self.update) and reason in self.update["release_summary"]

        try:
            await asyncio.wait_for(until(right), 20)
        except asyncio.TimeoutError:
            raise AssertionError(f"{wanted} {reason!r} is not {self.update}") from None

    async def press(self, payload: bytes | None = None) -> None:
        """Install, as Home Assistant does it of what was announced."""
        topic, install = self.config["command_topic"], self.config["payload_install"].encode()
        await self.link.publish(topic, install if payload is None else payload)


def play(board: Board, story: Callable[[Hub, BrokerAddress], Any]) -> None:
    async def whole() -> None:
        process, address = await home_broker(board.folder)
        hub = Hub(address)
        async with hub.link:
            await hub.link.wait_connected(20)
            await story(hub, address)
        await process.stop()

    asyncio.run(asyncio.wait_for(whole(), 120))


def test_a_newer_bundle_is_shown_installed_by_a_press_and_confirmed(board: Board) -> None:
    release(board.folder, board.server, "1.1")
    release(board.folder, board.server, "3.0", {"board": "pi4"})

    async def story(hub: Hub, address: BrokerAddress) -> None:
        async with board.agent(address, lambda: None):
            await hub.shows(installed_version="1.0", latest_version="1.1", in_progress=False)
            await hub.press(b"install")
            await hub.press()
            await hub.shows(latest_version="1.1", in_progress=True)
            assert await asyncio.to_thread(board.root_works) == "staged"
            await until(lambda: board.wanted is None)
            await hub.shows(in_progress=True)
        async with board.agent(address, lambda: None) as updates:
            await hub.shows(installed_version="1.1", in_progress=True)
            board.check()
            updates.health._since = -1e6
            updates.watch(True)
            board.check()
            await hub.shows(installed_version="1.1", latest_version="1.1", in_progress=False)
            assert hub.update["release_summary"] == ""

    play(board, story)
    assert board.device.probe() == "1.1" and board.wanted is None, "no boot installs anything by itself"


def test_one_that_is_given_back_or_cannot_be_had_says_why_and_may_be_tried_again(board: Board) -> None:
    release(board.folder, board.server, "1.1")

    async def story(hub: Hub, address: BrokerAddress) -> None:
        async with board.agent(address, lambda: None):
            await hub.shows(latest_version="1.1")
            board.server.instead["metadata/timestamp.json"] = lambda request: request.send_error(503)
            await hub.press()
            await until(lambda: board.wanted is not None)
            assert await asyncio.to_thread(board.root_works) == "later"
            await hub.shows(latest_version="1.1", in_progress=False, reason="answers 503")
            board.server.instead.clear()
            await hub.press()
            await hub.shows(in_progress=True)
            assert await asyncio.to_thread(board.root_works) == "staged"
        guard(["revert", "--root", str(board.device.root), "--reason", "it crashed"])
        async with board.agent(address, lambda: None):
            await hub.shows(
                installed_version="1.0", latest_version="1.0", in_progress=False, reason="given back: it crash"
            )

    play(board, story)
    assert board.device.probe() == "1.0"


def test_a_rollout_that_waits_is_gone_on_with_at_once(board: Board) -> None:
    named = offer(board.server)
    board.server.instead["metadata/timestamp.json"] = lambda request: request.send_error(503)
    restarts: list[bool] = []

    async def story(hub: Hub, address: BrokerAddress) -> None:
        async with board.agent(address, lambda: restarts.append(True)) as updates:
            await updates.follow(named)
            await hub.shows(latest_version="r1", in_progress=False, reason="answers 503")
            board.server.instead.clear()
            await hub.press()
            await until(lambda: restarts)
            assert board.wanted is None, "the pack that waits, and no bundle"

    play(board, story)
    assert PackShelf(board.settings.folder, board.settings.pack).current().identity == ANOTHER.identity


def test_root_who_does_not_begin_is_said(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle_edge.ota.offers.ROOT_SECONDS", -1.0)
    offers = Offers(board.settings, Following(board.settings, FIRST.identity, restart=lambda: None))
    run(offers.install())
    assert offers.version == Version("1.0", "1.0", reason=NO_ANSWER)


def test_it_looks_by_the_signed_metadata_and_nothing_else(board: Board) -> None:
    assert find_newest(board.settings).version == ""
    release(board.folder, board.server, "1.1")
    assert find_newest(board.settings).version == "1.1"
    release(board.folder, board.server, "1.2", {"version": "0.9"})
    assert find_newest(board.settings).version == "1.1", "by what is signed"


def test_a_device_that_came_another_way_installs_nothing(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AURICLE_INSTALLATION", str(board.folder / "nothing"))
    offers = Offers(board.settings, Following(board.settings, FIRST.identity, restart=lambda: None))
    run(offers.install())
    assert board.wanted is None and not offers.version.installing
    assert find_newest(board.settings).version == ""


def test_installing_needs_discovery() -> None:
    told = {"mqtt": "mqtt://127.0.0.1", "mqtt_install": True}
    with pytest.raises(SettingsError, match="mqtt_install needs mqtt_discovery"):
        require_asked(msgspec.convert(told, EventSettings))
