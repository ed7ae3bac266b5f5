"""A real run with groups: who is mute never counts, who lies is bounded, and the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.test_fleet_run import small

from auricle_fleet import FleetRun, Group, Network

pytest.importorskip("espeakng_loader")


@pytest.mark.slow
def test_groups_live_as_they_are_told(tmp_path: Path) -> None:
    """Four devices: one mute, one that says a thousand times its clips, one behind a slow network."""
    groups = (
        Group(name="mute", drop_out=1.0),
        Group(name="boaster", attack="samples"),
        Group(name="far", network=Network(latency=0.05, kilobits=8000)),
    )
    result = FleetRun(small(groups=groups, rule="fedavg", deadline=20.0, quorum=0.5), tmp_path / "run").run()

    by_group = {row.group: row for row in result.devices}
    assert by_group["mute"].rounds == 0
    assert by_group["far"].rounds == by_group["boaster"].rounds == by_group[None].rounds == 2
    assert all(row.bounded == (by_group["boaster"].device,) for row in result.rounds)
    page = result.paths.report.read_text()
    assert all(f"<td>{name}</td>" in page for name in ("mute", "boaster", "far", "all others"))


@pytest.mark.slow
def test_updates_of_an_asynchronous_run_make_models(tmp_path: Path) -> None:
    result = FleetRun(small(mode="async", rule="trimmed-mean", rule_options={"beta": 0.2}), tmp_path / "run").run()
    assert [row.state for row in result.rounds] == ["published", "published"]


@pytest.mark.slow
def test_detection_judges_by_the_clips_of_half_of_the_unseen(tmp_path: Path) -> None:
    run = FleetRun(small(rule="fedvsa", detect=True, unseen=4, rounds=1), tmp_path / "run")
    run.run()
    assert run.federation is not None and run.federation.coordinator is not None
    assert run.federation.coordinator.settings.detection is not None
    assert 0 < len(run.judging.features) < len(run.data.unseen)
