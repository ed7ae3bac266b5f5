"""How a suite tunes: as many tries for every method, on a seed that it does not judge by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.fleet.ended_run import summary

from auricle.errors import SettingsError
from auricle.settings import from_mapping, read_toml
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.plan import Suite, cells
from auricle_fleet.suite.tuning import Try, best_tries, every_try, first_tries, second_tries, told

TEXT = """
seeds = [1]
[tuning]
setting = "rate"
values = [0.05, 0.1, 0.2]
seed = 9
rounds = 2
[[methods]]
name = "FedAvg"
settings = { preset = "fedavg", rate = 1.0 }
[[methods]]
name = "FedProx"
settings = { preset = "fedavg", method = "fedprox", method_options = { weighting = "fedvsa" } }
constant = { name = "mu", values = [0.01, 0.1] }
[[methods]]
name = "FedAdam"
settings = { preset = "fedavg" }
constant = { name = "server_rate", values = [0.02, 0.1, 0.5] }
"""
WHERE = "suite.toml"


def suite(folder: Path, text: str = TEXT) -> Suite:
    path = folder / WHERE
    path.write_text(text)
    return from_mapping(Suite, read_toml(path), WHERE)


def reached(tries: list[Try], accuracies: list[float | None]) -> dict[str, Ended]:
    return {
        each.cell.name: Ended(each.cell, msgspec.structs.replace(summary(), plugin_accuracy_validation=accuracy), ())
        for each, accuracy in zip(tries, accuracies, strict=True)
    }


def test_each_method_has_as_many_tries_a_constant_takes_some_of_them(tmp_path: Path) -> None:
    read = suite(tmp_path)
    tries = first_tries(read, WHERE)
    assert [(each.method, each.value, each.constant) for each in tries] == [
        *(("FedAvg", rate, None) for rate in (0.05, 0.1, 0.2)),
        *(("FedProx", rate, 0.01) for rate in (0.05, 0.1)),
        ("FedAdam", 0.05, 0.02),
    ]
    ended = reached(tries, [0.3, 0.5, 0.5, 0.2, 0.4, 0.6])
    best = best_tries(read, tries, ended)
    assert {name: each.value for name, each in best.items()} == {"FedAvg": 0.1, "FedProx": 0.1, "FedAdam": 0.05}
    second = second_tries(read, WHERE, best)
    assert [(each.method, each.value, each.constant) for each in second] == [
        ("FedProx", 0.1, 0.1),
        ("FedAdam", 0.05, 0.1),
        ("FedAdam", 0.05, 0.5),
    ]
    ended |= reached(second, [0.45, 0.5, 0.7])
    every = [*tries, *second]
    best = best_tries(read, every, ended)
    assert {name: sum(each.method == name for each in every) for name in best} == dict.fromkeys(best, 3)
    found = {each.method: each for each in told(read, every, best, ended)}
    assert found["FedAvg"].kept == "0.1", "of two alike the earlier one"
    assert found["FedProx"].tried == (("0.05, mu 0.01", 0.2), ("0.1, mu 0.01", 0.4), ("0.1, mu 0.1", 0.45))
    assert found["FedProx"].kept == "0.1, mu 0.1"
    kept = {cell.method: cell.settings for cell in cells(read, WHERE, {name: each.over for name, each in best.items()})}
    assert kept["FedProx"].method_options == {"weighting": "fedvsa", "mu": 0.1} and kept["FedProx"].rate == 0.1
    assert kept["FedAdam"].server_rate == 0.5 and kept["FedAvg"].rate == 0.1


def test_a_suite_tunes_by_the_devices_own_clips_where_its_claims_are_of_them(tmp_path: Path) -> None:
    read = suite(tmp_path, TEXT.replace("rounds = 2", 'rounds = 2\nfigure = "personal"'))
    tries = first_tries(read, WHERE)[:3]
    ended = {
        each.cell.name: Ended(
            each.cell, msgspec.structs.replace(summary(), plugin_accuracy_validation=i / 9, personal_accuracy=own), ()
        )
        for i, (each, own) in enumerate(zip(tries, (0.2, 0.7, 0.6), strict=True))
    }
    best = best_tries(read, tries, ended)
    assert best["FedAvg"].value == 0.1
    assert told(read, tries, best, ended)[0].tried == (("0.05", 0.2), ("0.1", 0.7), ("0.2", 0.6))
    with pytest.raises(SettingsError, match=r'does not tune by the figure "unseen"'):
        suite(tmp_path, TEXT.replace("rounds = 2", 'rounds = 2\nfigure = "unseen"'))


def test_tries_are_short_on_a_seed_of_their_own_with_validation_speakers(tmp_path: Path) -> None:
    read = suite(tmp_path)
    every = every_try(read, WHERE)
    assert {(t.cell.settings.seed, t.cell.settings.rounds, t.cell.settings.validation) for t in every} == {(9, 2, True)}
    assert len({each.cell.name for each in every}) == len(every) == 6 + 2 + 2
    assert all(cell.settings.validation and cell.settings.rounds == 80 for cell in cells(read, WHERE))
    plain = suite(tmp_path, "[[methods]]\nname = 'a'\n")
    assert not cells(plain, WHERE)[0].settings.validation and every_try(plain, WHERE) == []


def test_a_method_of_which_nothing_ended_has_no_value_to_run_with(tmp_path: Path) -> None:
    read = suite(tmp_path)
    tries = first_tries(read, WHERE)
    best = best_tries(read, tries, reached(tries, [None] * 5 + [0.1]))
    assert [each.method for each in best.values()] == ["FedAdam"]
    assert {each.method for each in second_tries(read, WHERE, best)} == {"FedAdam"}
    assert {cell.method for cell in cells(read, WHERE, {name: each.over for name, each in best.items()})} == {"FedAdam"}
