"""Fleets with noise on devices: what is given away round by round, a budget that ends a run, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cloud.test_cloud_commands import auricle, told
from tests.fleet.test_fleet_run import small

from auricle.errors import SettingsError
from auricle_cloud.settings import Privacy
from auricle_cloud.storage.store import FILE, Store
from auricle_fleet import FleetRun, RoundRow
from auricle_fleet.commands.run_commands import read_settings

pytest.importorskip("espeakng_loader")

NOISY: dict[str, Any] = {"method": "fedavg", "preset": "fedavg"}


@pytest.mark.slow
def test_a_run_says_after_each_round_what_was_given_away_and_ends_at_its_budget(tmp_path: Path) -> None:
    rows: list[RoundRow] = []
    noise = Privacy(clip=0.5, noise=2.0, budget=5.5)
    FleetRun(small(rounds=9, privacy=noise, **NOISY), tmp_path / "run", on_round=rows.append).run()
    done = [row for row in rows if row.state == "published"]
    assert 2 <= len(done) < 9
    assert [row.state for row in rows[len(done) :]] == ["aborted"]
    epsilons = [row.epsilon or 0.0 for row in done]
    assert epsilons == sorted(epsilons) and 0 < epsilons[0] < epsilons[-1] <= 5.5
    assert all((row.device_epsilon or 0) > (row.epsilon or 0) for row in done)
    assert all(row.inference_loss is None and row.personal_accuracy is None for row in done)
    state = {"AURICLE_STATE": str(tmp_path / "run" / "state" / "coordinator")}
    why = told(auricle("rounds", "why", "1", "--json", **state))
    assert (why["privacy"]["clip"], why["privacy"]["counted"], why["privacy"]["rounds"]) == (0.5, 4, 1)
    assert why["privacy"]["epsilon"] == epsilons[0] and why["privacy"]["accounting"] == done[0].accounting == "PLD"
    shown = auricle("rounds", "show", "1", **state).stdout
    assert f"After 1 round with noise epsilon is {epsilons[0]:.4g} (by PLD) towards who sees models" in shown
    ended = auricle("rounds", "why", str(len(done) + 1), **state).stdout
    assert "the privacy budget is spent: after another round epsilon would be" in ended.replace("The", "the")
    store = Store(tmp_path / "run" / "state" / "coordinator" / FILE)
    assert [event.round for event in store.journal.events(kind="privacy budget spent")] == [len(done) + 1]
    store.close()


@pytest.mark.slow
def test_options_and_a_file_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('method = "fedavg"\npreset = "fedavg"\n[privacy]\nclip = 0.5\nbudget = 8.0\n')
    given = {"method": "fedavg", "preset": "fedavg", "clip": 0.5, "budget": 8.0}
    assert read_settings(file, {}).privacy == read_settings(None, given).privacy == Privacy(0.5, budget=8.0)
    assert read_settings(file, {"noise": 3.0}).privacy == Privacy(0.5, 3.0, 8.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": "lpa"}, "fedavg"),
        ({"method": "krum"}, "fedavg"),
        ({"method": "fedavg", "mode": "async"}, "synchronous"),
        ({"method": "fedavg", "detect": True}, "hide"),
    ],
)
def test_rules_modes_and_detection_that_noise_makes_meaningless_are_refused(
    changes: dict[str, Any], match: str
) -> None:
    with pytest.raises(SettingsError, match=match):
        FleetRun(small(privacy=Privacy(clip=1.0), **changes))


@pytest.mark.parametrize(
    ("privacy", "match"),
    [
        (Privacy(budget=1.0), "noise"),
        (Privacy(noise=1.0), "clipping"),
        (Privacy(clip=0.0), "above 0"),
        (Privacy(clip=1.0, budget=0.0), "--dp-budget"),
    ],
)
def test_numbers_that_promise_nothing_are_refused(privacy: Privacy, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        FleetRun(small(privacy=privacy, method="fedavg"))
