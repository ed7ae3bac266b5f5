"""The whole service takes a new pack: it starts itself again, keeps what works, and goes back from what crashes it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.edge.agent_site import DEVICE, FLEET, KEY, USERS, Site, run, until
from tests.edge.update_site import Server, serving
from tests.system.conftest import Command
from tests.system.conftest import start as start
from tests.system.virtual_room import VirtualRoom

from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.wire.messages import Release, Target
from auricle_learning.runtimes import StepRuntime

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DIGITS = load_pack("digits")


def another(name: str) -> Pack:
    return Pack(msgspec.structs.replace(DIGITS.manifest, name=name), DIGITS.files)


def offer(server: Server, pack: Pack, rollout: str) -> Target:
    """Release a pack; what the coordinator says of it."""
    path = f"pack/{pack.identity[:12]}.tar.zst"
    server.repository.add(path, pack_bytes(pack), {"kind": "pack", "identity": pack.identity})
    return Target(
        fleet=FLEET, device=DEVICE, boot="c", epoch=5, rollout=rollout, kind="pack", path=path, identity=pack.identity
    )


async def says(site: Site, before: int = 0, **wanted: object) -> Release:
    def found() -> list[Release]:
        said = site.coordinator.said(Release)[before:]
        return [each for each in said if all(getattr(each, name) == value for name, value in wanted.items())]

    await until(lambda: bool(found()))
    return found()[0]


Start = Callable[[], Command]
Starts = Callable[..., Command]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service starts again within seconds, unless others use the processor."""
    monkeypatch.setattr("tests.edge.agent_site.DEADLINE", 90.0)
    monkeypatch.setattr("tests.edge.agent_site.CASE", 280.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving() as running:
        (tmp_path / "root.json").write_bytes(running.repository.root)
        yield running


@pytest.fixture
def room(tmp_path: Path) -> Iterator[VirtualRoom]:
    made = VirtualRoom(tmp_path / "microphone")
    made.open()
    yield made
    made.close()


def service(folder: Path, site: Site, server: Server, room: VirtualRoom, start: Starts, seconds: float) -> Start:
    """What starts the service, which keeps a pack once all was well for so many seconds."""
    address = site.broker.address(DEVICE)
    config = folder / "edge.toml"
    config.write_text(
        f'device = "{DEVICE}"\nstate = "{folder / "state"}"\nfleet = "{FLEET}"\npack = "digits"\n'
        f'broker = "mqtt://{DEVICE}:{USERS[DEVICE]}@{address.host}:{address.port}"\n'
        f'coordinator = "{KEY.public.hex()}"\n'
        f'[updates]\nurl = "{server.url}"\nroot = "{folder / "root.json"}"\nhealth_seconds = {seconds}\n'
    )
    options = ("edge", "run", "--config", str(config), "--source", room.source, "--json")
    return lambda: start(*options)


@pytest.mark.nightly
def test_a_service_takes_a_pack_and_keeps_it(tmp_path: Path, server: Server, room: VirtualRoom, start: Starts) -> None:
    second = another("digits-2")
    target = offer(server, second, "r1")

    async def story(site: Site) -> None:
        command = await asyncio.to_thread(service(tmp_path, site, server, room, start, 6.0))
        await says(site, pack=DIGITS.identity, confirmed=True)
        await site.coordinator.say("cmd", target)
        await says(site, state="trial", pack=second.identity, confirmed=False)
        await says(site, state="confirmed", pack=second.identity, confirmed=True, rollout="r1")
        assert command.process.poll() is None

    run(story, StepRuntime(DIGITS), tmp_path)


@pytest.mark.nightly
def test_a_pack_with_which_the_service_dies_three_times_is_taken_back(
    tmp_path: Path, server: Server, room: VirtualRoom, start: Starts
) -> None:
    second = another("digits-2")
    target = offer(server, second, "r1")

    async def story(site: Site) -> None:
        begin = service(tmp_path, site, server, room, start, 60.0)
        command = await asyncio.to_thread(begin)
        await says(site, pack=DIGITS.identity, confirmed=True)
        await site.coordinator.say("cmd", target)
        heard, seen = 0, set[str]()

        def trials() -> set[str]:
            """Starts with the new pack: what one of them said may come after its death."""
            said = site.coordinator.said(Release)
            return {each.boot for each in said if (each.state, each.pack) == ("trial", second.identity)}

        for _ in range(3):
            await until(lambda: bool(trials() - seen))  # noqa: B023
            seen |= trials()
            command.signal(signal.SIGKILL)
            await asyncio.to_thread(command.end)
            heard = len(site.coordinator.said(Release))
            command = await asyncio.to_thread(begin)
        failed = await says(site, heard, state="failed", pack=DIGITS.identity, confirmed=True, rollout="r1")
        assert "in 3 starts" in failed.reason
        assert not [said for said in site.coordinator.said(Release) if said.pack == second.identity and said.confirmed]

    run(story, StepRuntime(DIGITS), tmp_path)
