"""Three coordinators with brokers and devices of their own make one model, while one of them and their meeting place
are killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from auricle_cloud.storage.store import FILE, Store
from tests.system.conftest import Command
from tests.system.killed_coordinator import FLEET, TASK
from tests.system.toy_fleet import ToyFleet, toy_fleet

REGIONS = ("east", "north", "south")
ROUNDS = 4
METHOD = ("--pack", "digits", "--method", "lpa", "--start", "scratch")


@pytest.mark.slow
async def test_three_regions_go_on_from_one_model_whoever_is_killed(
    start: Callable[..., Command], tmp_path: Path
) -> None:
    named = [word for name in REGIONS for word in ("--region", name)]

    def meeting(listen: str) -> tuple[Command, str]:
        where = ("--state", str(tmp_path / "meeting"), "--listen", listen, "--json")
        place = start("cloud", "regions", *METHOD, *named, *where)
        return place, place.wait_line(lambda line: "regions" in line)["regions"]

    def region(name: str, fleet: ToyFleet, url: str) -> Command:
        token = (tmp_path / "meeting" / f"{name}.token").read_text()
        broker = fleet.broker.address("coordinator").url
        told = ("--fleet", FLEET, "--broker", broker, "--state", str(fleet.state), "--approval", "auto")
        rounds = ("--rounds", str(ROUNDS), "--devices", "2", "--listen", "none", "--json")
        env = {"AURICLE_REGION_TOKEN": token}
        return start("cloud", "serve", *METHOD, *told, *rounds, "--region", url, env=env)

    async def wait(command: Command, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        return await asyncio.to_thread(command.wait_line, wanted)

    place, url = await asyncio.to_thread(meeting, "127.0.0.1:0")
    async with AsyncExitStack() as stack:
        fleets = {
            name: await stack.enter_async_context(toy_fleet(tmp_path / name, (f"{name}-a", f"{name}-b")))
            for name in REGIONS
        }
        served = {name: region(name, fleet, url) for name, fleet in fleets.items()}
        for name, fleet in fleets.items():
            fleet.key = (await wait(served[name], lambda line: "coordinator" in line))["coordinator"]
            fleet.start_agents(bytes.fromhex(fleet.key))

        await wait(served["east"], lambda line: line.get("round") == 1)
        place.signal(signal.SIGKILL)
        place, again = await asyncio.to_thread(meeting, url.rpartition("/")[2])
        assert again == url
        await wait(served["north"], lambda line: line.get("round") == 2)
        served["south"].signal(signal.SIGKILL)
        served["south"] = region("south", fleets["south"], url)
        for command in served.values():
            assert await asyncio.to_thread(command.end, 120) == 0, command.errors[-2000:]

        models = {}
        for name, fleet in fleets.items():
            with closing(Store(fleet.state / FILE)) as store:
                models[name] = store.models.current(TASK).blob
                rounds = [store.rounds.get(TASK, number) for number in range(1, ROUNDS + 1)]
            for row in rounds:
                assert row.state == "published"
                assert row.report is not None
                assert {update["device"] for update in row.report["updates"]} == {f"{name}-a", f"{name}-b"}
                assert row.report["flag"] is None
    assert len(set(models.values())) == 1, models
    place.signal(signal.SIGTERM)
    assert await asyncio.to_thread(place.end) == 0, place.errors[-2000:]
