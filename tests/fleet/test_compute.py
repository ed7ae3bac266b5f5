"""Training on the virtual clock: as many steps as it will take, each as long as it is said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fleet.test_trace_rounds import fleet_of, seen
from tests.fleet.test_virtual_book import virtual

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet import FleetRun, FleetSettings, Group, Network
from auricle_fleet.virtual.device import work_of
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import get_preset
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.step_count import Count, steps_of


@pytest.mark.parametrize(
    ("count", "told", "steps"),
    [
        (Count(16, 0), {}, 3),  # of 16 places, in three epochs
        (Count(17, 0), {}, 6),
        (Count(17, 0), {"share": 0.5}, 9),  # 8 of the 16 are windows
        (Count(17, 0), {"share": 0.5, "negatives": 200}, 6),  # 4 are
        (Count(17, 0), {"share": 0.99}, 51),  # a place is left for clips
        (Count(5, 40), {}, 9),  # every clip without a label once
        (Count(0, 40), {"share": 0.5}, 9),
        (Count(0, 0), {}, 0),
    ],
)
def test_how_many_steps_clips_make(count: Count, told: dict[str, Any], steps: int) -> None:
    assert steps_of(count, 3, 16, **told) == steps


def test_late_devices_come_late_by_what_they_compute(tmp_path: Path) -> None:
    """Six clips are a batch, `fedavg` has three epochs: 6 s where a step takes 2, and 120 s in the slow group."""
    work = work_of(load_pack("digits"), get_preset("fedavg").plan, LearnSettings(), 2.0)
    assert work is not None and (work.epochs, work.batch, work.share) == (3, 16, 0.0)
    both = work_of(
        load_pack("digits"), get_preset("fedavg").with_method(MethodSettings("ditto")).plan, LearnSettings(), 2.0
    )
    assert both is not None and both.epochs == 2 * work.epochs  # of two passes
    groups = (
        Group(name="fast", count=3, attack="free-ride"),
        Group(name="slow", attack="free-ride", compute=20.0, delay=4.0, network=Network(latency=1.0)),
    )
    told: dict[str, Any] = {"rounds": 1, "step_seconds": 2.0, "quorum": 0.5}
    waits = fleet_of(groups, tmp_path / "waits", deadline=1000.0, **told)
    assert [counted for *_, counted in seen(waits, waits._settings)] == [3]  # the quorum is in after 6 s
    name = next(name for name, group in zip(waits.names, waits.groups, strict=True) if group and group.name == "slow")
    late = waits._fleet[name].arrival(1, 0.0, 0, 0, work)
    assert late is not None and 120 + 2 + 2 <= late <= 120 + 6 + 2
    assert waits._fleet[name].arrival(1, 0.0, 0, 0) == pytest.approx(late - 120)
    patience = max(RunSettings.least_wait, RunSettings.patience * 6)
    assert waits._run_clock.now() == pytest.approx(6 + patience)
    short = fleet_of(groups, tmp_path / "short", deadline=5.0, **told)
    assert [counted for *_, counted in seen(short, short._settings)] == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"takes": 12, "learning": "supervised"},
        {"takes": 12, "start": "pack", "judge": "off"},
        {"takes": 12, "learning": "mutual", "method": "fedavg"},
    ],
    ids=["supervised", "carried", "mutual"],
)
def test_devices_take_the_steps_that_were_counted(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = FleetRun(virtual(rounds=1, **changes), tmp_path / "run")
    run.run()
    engine: Any = run.engine
    plan = run.start.preset.plan
    work = work_of(engine._pack, plan, run.judging.learn, 1.0)
    assert work is not None
    store = Store(tmp_path / "run" / "state" / "coordinator" / FILE, must_exist=True)
    rows = {row.device: row.steps for row in store.updates.counted("keywords", 1)}
    store.close()
    assert rows == {name: work.seconds(engine._fleet[name]._clips_in(1), 1.0) for name in rows} and len(rows) == 4


def test_only_the_virtual_engine_says_how_long_a_step_takes() -> None:
    with pytest.raises(SettingsError, match="--step-seconds needs --engine virtual"):
        FleetRun(FleetSettings(engine="live", step_seconds=0.1))
    with pytest.raises(SettingsError, match='The group "slow" has a compute, and no step takes time'):
        FleetRun(FleetSettings(engine="virtual", groups=(Group(name="slow", compute=2.0),)))
    with pytest.raises(SettingsError, match="--step-seconds is -1"):
        FleetRun(FleetSettings(engine="virtual", step_seconds=-1.0))
    with pytest.raises(SettingsError, match="compute"):
        FleetRun(FleetSettings(engine="virtual", step_seconds=1.0, groups=(Group(name="none", compute=0.0),)))
