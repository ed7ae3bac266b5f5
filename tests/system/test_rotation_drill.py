"""Every key of releases in other hands, one after the other: an operator's commands, the coordinator's site, devices.

Who stole a key has a copy of the coordinator's folder, too, and a site of its own, to which a device is led.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle.packs.pack import Pack, pack_bytes
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage.release_folder import Offline
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_upgrade import PackJob, fetch_pack
from auricle_edge.ota.records import UpdateRefusedError, Wanted
from auricle_edge.settings import EdgeSettings, UpdateSettings
from tests.core import tiny_pack
from tests.firstboot.house import free_port
from tests.system.command_lines import home
from tests.system.conftest import Command

FIRST = tiny_pack.pack()


class Operator:
    """Who has a coordinator's folder and the offline keys of its releases."""

    def __init__(self, state: Path, keys: Path) -> None:
        self.state, self.keys = state, keys

    def releases(self, command: str, *words: object, keys: bool = True) -> dict[str, Any]:
        """What `auricle cloud releases COMMAND` answers."""
        done = self._run(command, *words, keys=keys)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return dict(json.loads(done.stdout))

    def refused(self, command: str, *words: object) -> str:
        """Why it does not do it."""
        done = self._run(command, *words, keys=True)
        assert done.returncode != 0, f"{command}: {done.stdout}"
        return done.stderr

    def _run(self, command: str, *words: object, keys: bool) -> subprocess.CompletedProcess[str]:
        about = ["--state", self.state, "--json", *(["--keys", self.keys] if keys else [])]
        line = [sys.executable, "-m", "auricle", "cloud", "releases", command, *words, *about]
        return subprocess.run(list(map(str, line)), capture_output=True, text=True, check=False, env=dict(os.environ))

    def add(self, name: str) -> Wanted:
        """Release another pack; what a device is told of it."""
        file, wanted = another(self.keys.parent, name)
        self.releases("add", file)
        return wanted


def another(folder: Path, name: str) -> tuple[Path, Wanted]:
    """A pack of another name, and what a device is told of it."""
    pack, file = Pack(msgspec.structs.replace(FIRST.manifest, name=name), FIRST.files), folder / f"{name}.tar.zst"
    file.write_bytes(pack_bytes(pack))
    return file, Wanted(rollout="r1", path=f"pack/{pack.identity[:12]}.tar.zst", identity=pack.identity)


class Thief:
    """Who has a copy of all that an operator has at this moment, with every key."""

    def __init__(self, folder: Path, operator: Operator) -> None:
        shutil.copytree(operator.state / "releases", folder / "releases")
        self.keys = Path(shutil.copytree(operator.keys, folder / "keys"))
        self.folder, self.repository = folder, Repository(folder / "releases")

    def add(self, name: str) -> Wanted:
        file, wanted = another(self.folder, name)
        self.repository.add(read_candidate(file), self.keys)
        return wanted


class Device:
    """A device that knows the first root, wherever it looks."""

    def __init__(self, folder: Path, root: Path) -> None:
        folder.mkdir()
        (folder / "first.tar.zst").write_bytes(pack_bytes(FIRST))
        self._folder, self._root = folder, root

    def fetch(self, url: str, wanted: Wanted) -> bool:
        """Whether it runs the pack that it was told of; UpdateRefusedError: it does not believe it."""
        updates = UpdateSettings(url=url, root=str(self._root))
        state, pack = str(self._folder / "state"), str(self._folder / "first.tar.zst")
        settings = EdgeSettings(state=state, pack=pack, local="lite", updates=updates)
        fetch_pack(PackJob(settings=settings, wanted=wanted))
        return PackShelf(settings.folder, settings.pack).current().identity == wanted.identity

    def believes_nothing_of(self, thief: Thief, wanted: Wanted) -> None:
        with site_of(thief) as url, pytest.raises(UpdateRefusedError):
            self.fetch(url, wanted)

    @property
    def root_version(self) -> int:
        signed = json.loads((self._folder / "state/updates/tuf/metadata/root.json").read_bytes())["signed"]
        return int(signed["version"])


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def site_of(thief: Thief) -> Iterator[str]:
    """What a thief shows under another address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(thief.repository.folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def drill(operator: Operator, url: str, folder: Path, note: Callable[[str, object], None]) -> None:
    @contextmanager
    def timed(step: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        note(f"{step}_s", round(time.monotonic() - began, 1))

    operator.releases("init", "--root", folder / "root.json")
    near, away = (Device(folder / name, folder / "root.json") for name in ("near", "away"))
    assert near.fetch(url, operator.add("one"))

    # The targets key: its holder's stick is gone, and so is a copy of the coordinator's folder.
    thief = Thief(folder / "thief", operator)
    evil = thief.add("evil")
    with timed("targets"):
        operator.releases("rotate", "targets", "--yes")
        assert near.fetch(url, operator.add("two"))
    near.believes_nothing_of(thief, evil)

    # The root key: the thief says which keys count, in a chain of roots of its own.
    with timed("root"):
        operator.releases("rotate", "root", "--yes")
        assert near.fetch(url, operator.add("three"))
    roles: tuple[Offline, ...] = ("targets", "root", "targets", "root")
    for role in roles:
        thief.repository.replace_key(role, thief.keys)
    near.believes_nothing_of(thief, thief.add("worse"))

    # The online key: the coordinator's machine was in other hands.
    with timed("online"):
        operator.releases("renew", "--new-online-key", "--yes")
        assert near.fetch(url, operator.add("four"))

    # No single stick decides any more.
    def countersign() -> None:
        for waiting in sorted((operator.state / "releases" / "pending").glob("*.json")):
            copy = folder / f"signed-{waiting.name}"
            operator.releases("sign", waiting, "--key", folder / "second.key", "--out", copy, keys=False)
            operator.releases("publish", copy, keys=False)

    with timed("two_holders"):
        public = operator.releases("make-key", folder / "second.key", keys=False)["done"].split()[-1]
        for role in ("root", "targets"):
            operator.releases("threshold", role, "2", "--add", public, "--yes")
            countersign()
        five = operator.add("five")
        with pytest.raises(UpdateRefusedError, match="not among"):
            near.fetch(url, five)
        countersign()
        assert near.fetch(url, five)

    # Who was away all the time knows the first root alone.
    with timed("away"):
        assert away.fetch(url, five)
    assert away.root_version == near.root_version
    note("roots", near.root_version)

    # What was replaced signs nothing.
    for role in ("targets", "root"):
        old = folder / f"old-{role}"
        shutil.copytree(operator.keys, old)
        (old / f"{role}.old.key").replace(old / f"{role}.key")
        assert f"{role} key" in Operator(operator.state, old).refused("renew", "--yes")
    for device in (near, away):
        device.believes_nothing_of(thief, evil)


@pytest.mark.slow
@pytest.mark.nightly
async def test_every_key_of_releases_is_replaced_by_commands_and_devices_follow(
    tmp_path: Path, start: Callable[..., Command], record_property: Callable[[str, object], None]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with home(start, tmp_path) as site:
        await site.coordinator(listen=address, state=tmp_path / "coordinator")
        operator = Operator(tmp_path / "coordinator", tmp_path / "keys")
        await asyncio.to_thread(drill, operator, f"http://{address}/v1/updates", tmp_path, record_property)
