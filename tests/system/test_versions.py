"""Both sides of a fleet from two versions (RELIABILITY U1): the agents of an older one and this coordinator, and back.

The older version is a commit of this repository; where its history is not there, as in an archive, the test is skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from auricle_cloud.states.selection import unfit
from auricle_cloud.storage.store import Store
from auricle_fleet.broker.broker import start_broker
from tests.system.tls_site import NEEDS_MOSQUITTO

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
BEFORE = "4bb19c0"
"""Its plans refuse fields that it does not know, and it knows no methods."""
PARTS = ("core", "learning", "edge", "cloud", "fleet")
FLEET, NAMES = "f", ("dev-a", "dev-b", "dev-c")
USERS = {name: f"secret-of-{name}" for name in ("coordinator", *NAMES)}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the older version."""
    archive = subprocess.run(
        ["git", "archive", BEFORE, "core", "edge", "cloud", "fleet"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"the history that has {BEFORE} is not here")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
    return folder


@asynccontextmanager
async def part(tree: Path, **told: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A side of the fleet from a checkout."""
    path = os.pathsep.join(str(tree / each) for each in PARTS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests" / "system" / "version_part.py"),
        json.dumps({"fleet": FLEET, "pack": "digits", **told}),
        stdout=asyncio.subprocess.PIPE,
        stderr=(Path(told["folder"]).parent / f"{Path(told['folder']).name}.log").open("wb"),
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line(process: asyncio.subprocess.Process, seconds: float = 60.0) -> dict[str, Any]:
    assert process.stdout is not None
    told = await asyncio.wait_for(process.stdout.readline(), seconds)
    assert told, "the process ended"
    answer: dict[str, Any] = json.loads(told)
    return answer


async def rounds(cloud: Path, agents: dict[Path, tuple[str, ...]], folder: Path, **told: Any) -> list[dict[str, Any]]:
    """Two rounds with a coordinator from one checkout and agents from others."""
    folder.mkdir()
    async with await start_broker(folder / "broker", USERS, fleet=FLEET) as broker, AsyncExitStack() as stack:

        def url(name: str) -> str:
            at = broker.address(name)
            return f"{at.host}:{at.port}:{at.username}:{at.password}"

        told = {"rounds": 2, "gather": 20.0, "broker": url("coordinator"), **told}
        coordinator = await stack.enter_async_context(part(cloud, folder=str(folder / "cloud"), **told))
        key = (await line(coordinator))["key"]
        for number, (tree, names) in enumerate(agents.items()):
            brokers = {name: url(name) for name in names}
            edge = part(tree, folder=str(folder / f"edge{number}"), key=key, brokers=brokers)
            await line(await stack.enter_async_context(edge))
        return [await line(coordinator) for _ in range(2)]


@pytest.mark.parametrize("older", ["agents", "coordinator"])
@pytest.mark.parametrize("mode", ["mutual", "supervised"])
async def test_rounds_go_on_with_the_version_before(before: Path, tmp_path: Path, older: str, mode: str) -> None:
    cloud, edge = (ROOT, before) if older == "agents" else (before, ROOT)
    done = await rounds(cloud, {edge: NAMES}, tmp_path / "run", rule="fedavg", mode=mode, devices=3)
    assert [(each["state"], each["counted"]) for each in done] == [("published", 3)] * 2


async def test_rounds_of_a_method_go_on_without_the_agent_that_is_too_old_for_it(before: Path, tmp_path: Path) -> None:
    agents = {before: NAMES[2:], ROOT: NAMES[:2]}
    done = await rounds(ROOT, agents, tmp_path / "run", rule="scaffold", mode="supervised", devices=2)

    assert [(each["state"], each["counted"]) for each in done] == [("published", 2)] * 2
    store = Store(tmp_path / "run" / "cloud" / "coordinator.db", must_exist=True)
    rows = {row.device: row for row in store.devices.all()}
    store.close()
    reason = unfit(rows["dev-c"], rows["dev-c"].pack, ["methods"])
    assert reason is not None and "too old for methods" in reason
