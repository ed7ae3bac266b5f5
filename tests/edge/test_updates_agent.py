"""An agent that follows updates, at a real broker: what it says of itself at each step is what is true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import msgspec
import pytest
from tests.core import tiny_pack
from tests.edge.agent_site import DEVICE, FLEET, Site, run, until
from tests.edge.slots_bundle import Device, identity, make_bundle, pack, quick_folder
from tests.edge.update_site import Server, serving

from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.wire.messages import Release, Target
from auricle_edge.fleet.agent import Agent
from auricle_edge.ota.bundle_upgrade import BundleUpgrade
from auricle_edge.ota.following import Following, count_start
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_upgrade import PackJob, fetch_pack
from auricle_edge.ota.records import (
    FOLDER,
    KEPT,
    PROGRESS,
    TRIAL,
    WANTED,
    PackKept,
    PackTrial,
    Progress,
    UpdateRefusedError,
    Wanted,
    read_record,
    write_record,
)
from auricle_edge.ota.slots.commands import main as guard
from auricle_edge.settings import EdgeSettings, UpdateSettings
from auricle_learning.runtimes import StepRuntime

DIGITS = load_pack("digits")
"""What the agent trains with; the packs that are updated here are tiny ones."""
FIRST = tiny_pack.pack()
ANOTHER, THIRD = (
    Pack(msgspec.structs.replace(FIRST.manifest, name=name), FIRST.files) for name in ("another", "third")
)


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(DIGITS)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with quick_folder() as made:
        monkeypatch.setenv("AURICLE_INSTALLATION", str(made / "nothing"))
        monkeypatch.setattr("auricle_edge.ota.following.LOOK_SECONDS", 0.05)
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def settings_of(folder: Path, server: Server, **updates: Any) -> EdgeSettings:
    (folder / "root.json").write_bytes(server.repository.root)
    (folder / "first.tar.zst").write_bytes(pack_bytes(FIRST))
    table = UpdateSettings(url=server.url, root=str(folder / "root.json"), **updates)
    state, pack = str(folder / "device"), str(folder / "first.tar.zst")
    return EdgeSettings(device=DEVICE, state=state, fleet=FLEET, pack=pack, local="lite", updates=table)


@asynccontextmanager
async def following(
    site: Site, settings: EdgeSettings, restart: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[Agent, Following]]:
    count_start(settings)
    updates = Following(settings, shelved(settings), restart=restart)
    async with site.device(parts={"updates": updates}) as agent:
        work = asyncio.create_task(updates.run(agent.say_release))
        try:
            yield agent, updates
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def shelved(settings: EdgeSettings) -> str:
    return PackShelf(settings.folder, settings.pack).current().identity


async def says(site: Site, **wanted: Any) -> Release:
    def newest() -> Release | None:
        said = site.coordinator.said(Release)
        return said[-1] if said else None

    await until(lambda: newest() is not None and all(getattr(newest(), k) == v for k, v in wanted.items()))
    found = newest()
    assert found is not None
    return found


def target(kind: Literal["bundle", "pack"], path: str, name: str, rollout: str = "r1") -> Target:
    return Target(fleet=FLEET, device=DEVICE, boot="c", epoch=5, rollout=rollout, kind=kind, path=path, identity=name)


def offer(server: Server) -> Target:
    """Release the other pack; what the coordinator says of it."""
    path = f"pack/{ANOTHER.identity[:12]}.tar.zst"
    server.repository.add(path, pack_bytes(ANOTHER), {"kind": "pack", "identity": ANOTHER.identity, "version": "2"})
    return target("pack", path, ANOTHER.identity)


def test_a_device_says_what_it_runs_and_whether_it_has_what_is_named(
    folder: Path, runtime: StepRuntime, server: Server
) -> None:
    async def story(site: Site) -> None:
        async with following(site, settings_of(folder, server)):
            first = await site.coordinator.wait(Release)
            assert (first.bundle, first.board, first.pack, first.confirmed) == (None, "", DIGITS.identity, True)
            assert (first.state, first.rollout) == ("idle", "")
            await site.coordinator.say("cmd", target("pack", "pack/x", FIRST.identity))
            await says(site, rollout="r1", state="confirmed", confirmed=True)
            count = len(site.coordinator.said(Release))
            await site.coordinator.say("cmd", target("pack", "pack/x", FIRST.identity))
            await site.coordinator.wait(Release, count + 1)
            await site.coordinator.say("cmd", target("bundle", "bundle/x", "1" * 64, "r2"))
            assert "bundle" in (await says(site, rollout="r2", state="refused")).reason
        assert server.asked == []

    run(story, runtime, folder)


@pytest.mark.slow
def test_a_pack_is_fetched_tried_and_kept_once_all_is_well(folder: Path, runtime: StepRuntime, server: Server) -> None:
    settings = settings_of(folder, server)

    async def story(site: Site) -> None:
        restarted = Mock()
        async with following(site, settings, restarted):
            await site.coordinator.wait(Release)
            await site.coordinator.say("cmd", offer(server))
            await says(site, state="fetching", confirmed=True)
            await until(lambda: restarted.call_count == 1)
        assert shelved(settings) == ANOTHER.identity
        async with following(site, settings) as (_, updates):
            await says(site, state="trial", rollout="r1", confirmed=False)
            updates.watch(True)
            await says(site, state="trial")
            updates._began = updates.health._since = -1e6  # the time has passed
            updates.watch(True)
            await says(site, state="confirmed", rollout="r1", confirmed=True)
            kept = read_record(settings.folder / FOLDER / KEPT, PackKept)
            assert kept == PackKept(identity=ANOTHER.identity, version="2")
        async with following(site, settings):
            await says(site, state="confirmed", confirmed=True)

    run(story, runtime, folder)


def on_trial(settings: EdgeSettings, server: Server) -> None:
    """A device that was just switched to another pack."""
    named = offer(server)
    wanted = Wanted(rollout="r1", path=named.path, identity=named.identity)
    write_record(settings.folder / FOLDER / PROGRESS, Progress(kind="pack", wanted=wanted))
    fetch_pack(PackJob(settings=settings, wanted=wanted))


def test_a_pack_with_which_the_device_never_gets_well_goes_by_itself(
    folder: Path, runtime: StepRuntime, server: Server
) -> None:
    settings = settings_of(folder, server)
    on_trial(settings, server)

    async def story(site: Site) -> None:
        restarted = Mock()
        async with following(site, settings, restarted) as (_, updates):
            await says(site, state="trial", confirmed=False)
            updates._began = -1e6
            updates.watch(False)
            assert restarted.call_count == 1
        async with following(site, settings):
            said = await says(site, state="failed", confirmed=True, rollout="r1")
            assert shelved(settings) == FIRST.identity
            assert "healthy" in said.reason
            await site.coordinator.say("cmd", offer(server))
            await site.coordinator.barrier()
            assert site.coordinator.said(Release)[-1].state == "failed"

    run(story, runtime, folder)


def test_a_pack_that_crashes_the_device_at_every_start_goes_at_the_fourth(folder: Path, server: Server) -> None:
    settings = settings_of(folder, server)
    on_trial(settings, server)
    trial = settings.folder / FOLDER / TRIAL
    for starts in (1, 2, 3):
        count_start(settings)
        assert read_record(trial, PackTrial) == PackTrial(identity=ANOTHER.identity, version="2", starts=starts)
        assert shelved(settings) == ANOTHER.identity
    for _ in range(2):
        count_start(settings)
        assert shelved(settings) == FIRST.identity
        assert not trial.exists()


def test_a_trial_that_was_never_switched_to_is_void(folder: Path, server: Server) -> None:
    settings = settings_of(folder, server)
    write_record(settings.folder / FOLDER / TRIAL, PackTrial(identity=ANOTHER.identity, starts=9))
    count_start(settings)
    assert shelved(settings) == FIRST.identity
    assert not (settings.folder / FOLDER / TRIAL).exists()


@pytest.mark.parametrize(
    ("content", "fleet", "changes", "reason"),
    [
        (pack_bytes(ANOTHER), {"fleet": "office"}, {}, "fleet office"),
        (pack_bytes(ANOTHER)[:-100], {}, {}, "is no|not"),
        (pack_bytes(THIRD), {}, {}, "What came"),
        (None, {}, {"local": "crnn-huge"}, "crnn-huge"),
        (None, {}, {"pack_key": "a" * 64}, "signed"),
    ],
    ids=["fleet", "damaged", "other", "models", "signature"],
)
def test_a_pack_that_will_not_do_is_refused_with_the_reason(
    content: bytes | None, fleet: dict[str, str], changes: dict[str, str], reason: str, folder: Path, server: Server
) -> None:
    named = offer(server)
    settings = msgspec.structs.replace(settings_of(folder, server), **changes)
    if content is not None:
        server.repository.add(named.path, content, {"kind": "pack", "identity": ANOTHER.identity, **fleet})
    wanted = Wanted(rollout="r1", path=named.path, identity=named.identity)
    with pytest.raises(UpdateRefusedError, match=reason):
        fetch_pack(PackJob(settings=settings, wanted=wanted))
    assert shelved(settings) == FIRST.identity
    assert not (settings.folder / FOLDER / TRIAL).exists()


@pytest.mark.slow
def test_no_network_is_fetching_with_a_reason(folder: Path, runtime: StepRuntime, server: Server) -> None:
    named = offer(server)
    server.instead["metadata/timestamp.json"] = lambda request: request.send_error(503)

    async def story(site: Site) -> None:
        async with following(site, settings_of(folder, server)):
            await site.coordinator.wait(Release)
            await site.coordinator.say("cmd", named)
            await until(lambda: "answers 503" in site.coordinator.said(Release)[-1].reason)
            said = site.coordinator.said(Release)[-1]
            assert (said.state, said.confirmed) == ("fetching", True)

    run(story, runtime, folder)


# -- bundles


@pytest.mark.slow
def test_a_bundle_is_asked_of_root_tried_and_confirmed_or_failed(
    folder: Path, runtime: StepRuntime, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(folder, server)
    device = Device(folder / "disk")
    first = make_bundle(folder / "1.0", "1.0")
    guard(["install", "--root", str(device.root), str(first)])
    monkeypatch.setenv("AURICLE_INSTALLATION", str(device.home))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(device.root / "run/auricle"))
    wanted_file = settings.folder / FOLDER / WANTED

    def named(version: str) -> Target:
        made = make_bundle(folder / version, version)
        name, path = identity(made), f"bundle/pi5/raspios-12/{version}.tar"
        custom = {"kind": "bundle", "identity": name, "version": version, "board": "pi5", "os": "raspios-12"}
        content = pack(made, folder / f"{version}.tar").read_bytes()
        server.repository.add(path, content, {**custom, "fleet": "home"})
        return target("bundle", path, name, f"rollout-{version}")

    def root_works() -> str:
        """What systemd starts when the agent has written down what it wants."""
        wanted = read_record(wanted_file, Wanted)
        assert wanted is not None
        return BundleUpgrade(settings, device.root, lambda _: None).run(wanted).state

    def checked() -> None:
        """What the guard's timer starts."""
        assert guard(["check", "--root", str(device.root)]) == 0

    async def story(site: Site) -> None:
        second, third = named("1.1"), named("1.2")
        async with following(site, settings):
            said = await says(site, bundle=identity(first), confirmed=True)
            assert (said.board, said.os, said.version) == ("pi5", "raspios-12", "1.0")
            await site.coordinator.say("cmd", second)
            await says(site, state="fetching", rollout="rollout-1.1", confirmed=True)
            await until(wanted_file.exists)
            assert await asyncio.to_thread(root_works) == "staged"
            await says(site, state="trial", bundle=identity(first), confirmed=False)
        async with following(site, settings) as (_, updates):
            await says(site, state="trial", bundle=second.identity, confirmed=False)
            assert not wanted_file.exists()
            checked()
            await says(site, state="trial", confirmed=False)
            updates.health._since = -1e6
            updates.watch(True)
            checked()
            said = await says(site, state="confirmed", bundle=second.identity, confirmed=True)
            assert said.version == "1.1"

            await site.coordinator.say("cmd", third)
            await until(wanted_file.exists)
            assert await asyncio.to_thread(root_works) == "staged"
        async with following(site, settings):
            await says(site, state="trial", bundle=third.identity, rollout="rollout-1.2", confirmed=False)
            device.boot("again")
            checked()
            said = await says(site, state="failed", rollout="rollout-1.2")
            assert "switched off" in said.reason
            heard = site.coordinator.said(Release)
            assert not [each for each in heard if each.bundle == third.identity and each.confirmed]
        async with following(site, settings):
            await says(site, state="failed", bundle=second.identity, rollout="rollout-1.2", confirmed=True)
            await site.coordinator.say("cmd", third)
            await site.coordinator.barrier()
            assert not wanted_file.exists()

    run(story, runtime, folder)


def test_root_is_asked_again_when_it_could_not_and_its_refusal_is_passed_on(
    folder: Path, runtime: StepRuntime, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(folder, server)
    device = Device(folder / "disk")
    guard(["install", "--root", str(device.root), str(make_bundle(folder / "1.0", "1.0"))])
    monkeypatch.setenv("AURICLE_INSTALLATION", str(device.home))
    monkeypatch.setattr("auricle_edge.ota.bundle_request.FIRST_PAUSE", 0.01)
    wanted_file = settings.folder / FOLDER / WANTED

    def attempt() -> int:
        wanted = read_record(wanted_file, Wanted)
        return 0 if wanted is None else wanted.attempt

    async def story(site: Site) -> None:
        async with following(site, settings):
            await site.coordinator.say("cmd", target("bundle", "bundle/none.tar", "1" * 64))
            await until(lambda: attempt() == 1)
            server.instead["metadata/timestamp.json"] = lambda request: request.send_error(503)
            upgrade = BundleUpgrade(settings, device.root, lambda _: None)
            wanted = read_record(wanted_file, Wanted)
            assert wanted is not None
            assert (await asyncio.to_thread(upgrade.run, wanted)).state == "later"
            await until(lambda: attempt() == 2)
            said = site.coordinator.said(Release)[-1]
            assert (said.state, "answers 503" in said.reason) == ("fetching", True)
            server.instead.clear()
            wanted = read_record(wanted_file, Wanted)
            assert wanted is not None
            await asyncio.to_thread(upgrade.run, wanted)
            assert "not among" in (await says(site, state="refused")).reason
            await until(lambda: not wanted_file.exists())

    run(story, runtime, folder)
