"""A rollout from end to end: a real broker, the coordinator and its API, and devices that fetch with python-tuf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.arrivals import register
from tests.cloud.coordinator_site import FLEET, TOPICS, Site, run
from tests.cloud.release_files import make_bundle
from tests.cloud.rolling import START
from tests.cloud.site_runs import end
from tuf.ngclient import Updater

from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.packs.pack import load_pack
from auricle.wire.frames import open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Release, Target
from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.repository import Repository
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.service import application
from auricle_learning.runtimes import StepRuntime


class Board:
    """A device that installs what it is told to, or says that it failed; one that is busy forgets it."""

    def __init__(self, site: Site, name: str, root: bytes, *, healthy: bool = True) -> None:
        self.name, self.healthy, self.root, self.folder = name, healthy, root, site.folder / name
        self.key, self.pack, self.bundle = Identity.create(), site.pack.identity, "0" * 64
        self.targets: list[Target] = []
        self.busy = False
        self.url, self.coordinator = "", b""
        settings = LinkSettings(site.broker.address(name), name)
        handlers = {TOPICS.coordinator_state: self._greet, TOPICS.down(name, "cmd"): self._command}
        self.link = MqttLink(settings, handlers=handlers)

    async def _say(self, kind: str, message: Any) -> None:
        topic = TOPICS.up(self.name, kind)
        await self.link.publish(topic, seal(self.key, topic, message))

    def _head(self) -> dict[str, Any]:
        return {"fleet": FLEET, "device": self.name, "boot": "b"}

    async def _greet(self, _: Delivery) -> None:
        await self._say("reg", register(**self._head(), public_key=self.key.public, pack=self.pack))
        await self._release()

    async def _release(self, **changes: Any) -> None:
        values = {"board": "pi5", "os": "trixie", "bundle": self.bundle, "version": "1", "pack": self.pack}
        await self._say("rel", Release(**{**self._head(), **values, "confirmed": True, **changes}))

    async def _command(self, arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.coordinator)
        if isinstance(message, Target):
            self.targets.append(message)
            if not self.busy:
                await self._install(message)

    async def _install(self, target: Target) -> None:
        await self._release(rollout=target.rollout, state="fetching")
        data = await asyncio.to_thread(self._fetch, target.path)
        identity = read_candidate(data).identity
        assert identity == target.identity
        await self._release(rollout=target.rollout, state="trial", bundle=identity, confirmed=False)
        if self.healthy:
            self.bundle = identity
            await self._release(rollout=target.rollout, state="confirmed")
        else:
            await self._release(rollout=target.rollout, state="failed", reason="no sound")

    def _fetch(self, path: str) -> Path:
        self.folder.mkdir(exist_ok=True)
        urls = [f"{self.url}/v1/updates/{what}/" for what in ("metadata", "targets")]
        updater = Updater(str(self.folder / "tuf"), urls[0], str(self.folder), urls[1], bootstrap=self.root)
        updater.refresh()
        info = updater.get_targetinfo(path)
        assert info is not None
        return Path(updater.download_target(info, str(self.folder / "bundle.tar")))


@asynccontextmanager
async def served(site: Site, boards: list[Board]) -> AsyncIterator[Coordinator]:
    """A coordinator with its API until the end of the block."""
    coordinator = site.coordinator(None, approval="auto")
    api = ApiSettings(port=0)
    async with listening(application(coordinator, api), api) as url:
        for board in boards:
            board.url, board.coordinator = url, coordinator.identity.public
        running = asyncio.create_task(coordinator.run())
        try:
            yield coordinator
        finally:
            await end(running)


async def until(true: Callable[[], bool]) -> None:
    """Wait for the database to say so."""

    async def look() -> None:
        while not await asyncio.to_thread(true):
            await asyncio.sleep(0.1)

    await asyncio.wait_for(look(), 40)


def states(coordinator: Coordinator, name: str) -> dict[str, str]:
    return {device: member.state for device, member in coordinator.store.rollouts.whole(name)[1].items()}


@pytest.mark.slow
def test_devices_update_and_say_so_through_a_coordinator_that_is_replaced(tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        repository = Repository.create(site.state / "releases", tmp_path / "keys")
        root = repository.root_file.read_bytes()
        path = repository.add(read_candidate(make_bundle(tmp_path / "b.tar", fleet=FLEET)), tmp_path / "keys")
        boards = [Board(site, name, root) for name in ("dev-a", "dev-b", "dev-c")]
        boards[1].busy = True
        async with served(site, boards) as first:
            for board in boards:
                await board.link.start()
            await until(lambda: len(first.store.rollouts.installed(board.name for board in boards)) == 3)
            await until(lambda: len(first.store.releases.all()) == 1)
            given = {**START, "stages": [100.0], "errors": 0.1, "soak": 0.0}
            name = first.store.rollouts.start(first.store.releases.all(), **given)
            await until(lambda: states(first, name) == {"dev-a": "updated", "dev-b": "asked", "dev-c": "updated"})
        boards[1].busy = False
        async with served(site, boards) as second:
            # told again by the one that came after
            await until(lambda: second.store.rollouts.get(name).state == "finished")
            assert set(states(second, name).values()) == {"updated"}
        for board in boards:
            await board.link.stop()
        assert {target.path for board in boards for target in board.targets} == {path}

    run(case, StepRuntime(load_pack("digits")), tmp_path)


@pytest.mark.slow
def test_a_version_that_fails_on_a_device_pauses_the_rollout(tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        repository = Repository.create(site.state / "releases", tmp_path / "keys")
        repository.add(read_candidate(make_bundle(tmp_path / "b.tar", fleet=FLEET)), tmp_path / "keys")
        root = repository.root_file.read_bytes()
        boards = [Board(site, name, root, healthy=False) for name in ("dev-a", "dev-b", "dev-c")]
        async with served(site, boards) as coordinator:
            for board in boards:
                await board.link.start()
            store = coordinator.store
            await until(lambda: len(store.rollouts.installed(board.name for board in boards)) == 3)
            await until(lambda: len(store.releases.all()) == 1)
            given = {**START, "stages": [10.0, 100.0], "errors": 0.1, "soak": 0.0}
            name = store.rollouts.start(store.releases.all(), **given)
            await until(lambda: store.rollouts.get(name).state == "paused")
            assert "no sound" in store.rollouts.get(name).reason
            assert list(states(coordinator, name).values()) == ["failed"]
        for board in boards:
            await board.link.stop()
        assert sum(bool(board.targets) for board in boards) == 1

    run(case, StepRuntime(load_pack("digits")), tmp_path)
