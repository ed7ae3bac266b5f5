"""What runs take, beside what was said before: bytes to the percent, memory and its growth within a factor of 2.

Times are printed and not asserted (`pytest -s`).
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.test_fleet_run import small

from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet import FleetRun
from auricle_fleet.forecast.crowd import crowd_of
from auricle_fleet.forecast.forecast import DOUBT, forecast
from auricle_fleet.forecast.needs import Needed, Needs
from auricle_fleet.live import federation
from auricle_fleet.population.machine import SPARE_FILES
from auricle_fleet.settings.fleet_settings import FleetSettings

pytest.importorskip("espeakng_loader")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
CHECKOUT = Path(__file__).parents[2]
SPEECH: dict[str, Any] = {"words": "yes,no", "unseen": 2, "takes": 4, "min_clips": 4, "local": "crnn-lite", "rounds": 2}


@pytest.mark.parametrize(
    "changes",
    [{"devices": 6}, {"devices": 8, "participation": 0.5, "codec": "float16", "rounds": 3}],
    ids=["everybody", "half of them"],
)
@pytest.mark.parametrize("engine", ["live", "virtual"])
@pytest.mark.nightly
def test_bytes_are_those_that_were_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, changes: dict[str, Any]
) -> None:
    """No update is sent twice here: on a busy machine one would be, after 10 s without an answer."""
    monkeypatch.setattr(federation, "AgentSettings", functools.partial(AgentSettings, resend_every=3600.0))
    settings = small(**{"engine": engine, "broker": None if engine == "virtual" else "amqtt", **changes})
    needs = Needed(settings, crowd_of(settings)).needs(engine)
    summary = FleetRun(settings, tmp_path / "run").run().summary
    assert needs.up == pytest.approx(summary.bytes_up, rel=0.01)
    assert needs.down == pytest.approx(summary.bytes_down, rel=0.01)
    if engine == "virtual":
        assert (needs.up, needs.down) == (summary.bytes_up, summary.bytes_down)


def took(folder: Path, engine: str, devices: int) -> tuple[Needs, dict[str, Any]]:
    """What was said of a fleet, and what it took in a process of its own."""
    told = {**SPEECH, "engine": engine, "devices": devices}
    settings = FleetSettings(**told)
    said = forecast(settings, folder)
    command = [sys.executable, "bench/fleet_growth_worker.py", json.dumps(told), str(folder / f"{devices}")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    print(
        f"{engine}, {devices} devices: {said.engines[engine].times.run:.0f} s were said, {found['seconds']:.0f} s taken"
    )
    return said.engines[engine].needs, found


@pytest.mark.parametrize("engine", ["live", "virtual"])
@pytest.mark.nightly
def test_memory_files_and_disk_are_near_what_was_said(tmp_path: Path, engine: str) -> None:
    (few, small_one), (many, large) = (took(tmp_path, engine, devices) for devices in (4, 44))
    for needs, found in ((few, small_one), (many, large)):
        assert found["most"] + found["broker"] == pytest.approx(needs.memory, rel=0.3)
        assert needs.files - 8 <= found["files"] <= needs.files + SPARE_FILES
        assert found["broker_files"] <= needs.broker_files + SPARE_FILES
        assert max(found["disk"], *(row["disk"] for row in found["rounds"])) <= DOUBT * needs.disk
    grown, said = large["most"] - small_one["most"], many.memory - few.memory
    assert said / 2 < grown < 2 * said
    assert large["disk"] > many.disk / 3
