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


ENGINES: dict[str, dict[str, Any]] = {"live": {"engine": "live"}, "virtual": {"engine": "virtual", "broker": None}}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_says_after_each_round_what_was_given_away_and_ends_at_its_budget(tmp_path: Path, engine: str) -> None:
    rows: list[RoundRow] = []
    noise = Privacy(clip=0.5, noise=2.0, budget=5.5)
    told_run = small(rounds=9, privacy=noise, **ENGINES[engine], **NOISY)
    FleetRun(told_run, tmp_path / "run", on_round=rows.append).run()
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
def test_both_engines_make_the_same_clipped_model_and_say_the_same_of_it(tmp_path: Path) -> None:
    """Without noise, whose draws nobody can repeat; each update weighs the same, and nothing else of it is told."""
    settings = {"privacy": Privacy(clip=0.2, noise=0.0), "takes": 6, **NOISY}
    ran = {name: FleetRun(small(**settings, **told), tmp_path / name).run() for name, told in ENGINES.items()}
    live, virtual = ran["live"], ran["virtual"]
    assert live.paths.model.read_bytes() == virtual.paths.model.read_bytes()
    named = ("state", "counted", "epsilon", "accounting", "device_epsilon", "personal", "inference_loss", "left_out")
    for ours, theirs in zip(virtual.rounds, live.rounds, strict=True):
        assert [getattr(ours, name) for name in named] == [getattr(theirs, name) for name in named]
        assert (ours.epsilon or 0.0) > 1e6 and ours.inference_loss is None


@pytest.mark.slow
def test_both_engines_have_one_account_which_a_run_that_goes_on_remembers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"privacy": Privacy(clip=0.5, noise=2.0), "rounds": 3, **NOISY}
    live = FleetRun(small(**settings, **ENGINES["live"]), tmp_path / "live").run()
    told = small(**settings, **ENGINES["virtual"])
    first = FleetRun(told, tmp_path / "virtual", on_round=lambda row: row.round == 2 and first.stop())
    assert first.run().interrupted
    virtual = FleetRun.resume(tmp_path / "virtual").run()
    spent = [[(row.epsilon, row.device_epsilon, row.accounting) for row in run.rounds] for run in (live, virtual)]
    assert spent[0] == spent[1] and len(spent[0]) == 3
    again = FleetRun(told, tmp_path / "again").run()
    assert again.paths.model.read_bytes() != virtual.paths.model.read_bytes(), "noise is of the system's randomness"
    ledgers = [_privacy_of(tmp_path / name, 3) for name in ("live", "virtual")]
    assert ledgers[0] == ledgers[1]


def _privacy_of(run: Path, number: int) -> dict[str, Any]:
    """What the report of a round says of its noise."""
    state = {"AURICLE_STATE": str(run / "state" / "coordinator")}
    return dict(told(auricle("rounds", "why", str(number), "--json", **state))["privacy"])


@pytest.mark.slow
def test_a_draw_that_leaves_everybody_out_gives_nothing_away(tmp_path: Path) -> None:
    rows: list[RoundRow] = []
    few = small(rounds=6, participation=0.01, privacy=Privacy(clip=0.5), **ENGINES["virtual"], **NOISY)
    FleetRun(few, tmp_path / "run", on_round=rows.append).run()
    nobody = [row for row in rows if not row.invited]
    assert nobody and {row.state for row in nobody} == {"aborted"} and {row.epsilon for row in nobody} == {None}


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
