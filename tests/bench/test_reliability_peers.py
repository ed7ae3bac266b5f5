"""The comparison under faults: a model tells who counted, clients are held, and what is printed is what was found."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.reliability_fleets import Made, counted, is_harmed, is_mean
from bench.reliability_table import report
from bench.reliability_task import ATTACKER, CLIENTS, SIZE, attack_of, quarters, trained, wait_while_held

from auricle.packs.pack import load_pack

START = np.full(SIZE, 0.25, np.float32)


def mean_of(*numbers: int, attack: str = "") -> Made:
    """The model that is the mean of some clients' updates to `START`."""
    return Made(1.0, tuple(quarters(np.mean([trained(START, i, attack) for i in numbers], axis=0, dtype=np.float32))))


def test_the_size_is_that_of_our_plug_in() -> None:
    assert load_pack("digits").plugin_table.size == SIZE


@pytest.mark.parametrize("who", [(0, 1, 2, 3), (0, 1, 3), (2,)])
def test_a_model_tells_whose_updates_it_is_the_mean_of(who: tuple[int, ...]) -> None:
    before, after = Made(0.0, tuple(quarters(START))), mean_of(*who)

    assert counted(before, after) == list(who)
    assert is_mean(before, after)
    assert not is_harmed(before, after)


def test_a_model_that_lost_an_update_or_took_one_twice_is_not_the_mean() -> None:
    before, three = Made(0.0, tuple(quarters(START))), mean_of(0, 1, 2).quarters

    assert not is_mean(before, before)
    assert not is_mean(before, Made(1.0, (three[0] + 0.01, *three[1:])))


@pytest.mark.parametrize("attack", ["nan", "huge", "large"])
def test_an_attack_that_counts_is_seen_in_the_model(attack: str) -> None:
    before = Made(0.0, tuple(quarters(START)))

    assert is_harmed(before, mean_of(0, 1, 2, ATTACKER, attack=attack))
    assert not is_harmed(before, mean_of(0, 1, 2, attack=attack))


def test_a_client_is_held_after_so_many_trainings_until_it_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "hold-1").write_text("1")

    wait_while_held(tmp_path, 1)
    assert not (tmp_path / "held-1").exists()
    held = threading.Thread(target=wait_while_held, args=(tmp_path, 1))
    held.start()
    stopped = threading.Thread(target=wait_while_held, args=(tmp_path, 1, (tmp_path / "held-1").exists))
    stopped.start()
    stopped.join(60)
    assert held.is_alive() and not stopped.is_alive()
    (tmp_path / "hold-1").unlink()
    held.join(60)
    assert not held.is_alive()


def test_who_attacks_is_told_by_a_file(tmp_path: Path) -> None:
    assert attack_of(tmp_path) == ""
    (tmp_path / "attack").write_text("nan")
    assert np.isnan(trained(START, ATTACKER, attack_of(tmp_path))).all()
    assert np.isfinite(trained(START, 0, attack_of(tmp_path))).all()


def test_what_is_printed_is_what_was_found() -> None:
    one: dict[str, Any] = {
        "state": "finished",
        "made": True,
        "finite": True,
        "harmed": False,
        "said": "x",
    }
    found = {
        "title": "A",
        "rules": ["mean", "median"],
        "client": {"seconds": 1.23, "counted": 3, "rounds": 3, "state": "finished", "ends": True, "end": 9.0}
        | {"mean": True, "back": False},
        "server": {"goes_on": False, "state": "failed", "waited": 54.3, "again": 20.0, "kept": True, "lost": 2},
        "mean": [
            {**one, "attack": "nan"},
            {**one, "attack": "huge", "finite": False},
            {**one, "attack": "large", "harmed": True, "off": 0.25},
        ],
        "robust": [{**one, "attack": "nan", "made": False, "state": "failed"}],
        "memory": {"rounds": 99, "first": 100.0, "warm": 101.0, "last": 102.5, "slope": 1.25},
    }
    other = {
        "title": "B",
        "rules": ["mean", ""],
        "memory": {"failed": "no disk"},
        "mean": [{**one, "attack": "nan"}],
    }

    text = report({"sides": {"a": found, "b": other}, "load": [1.0, 3.0], "cores": 2})

    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    assert {len(row) for row in cells} == {3}
    first, second = ([row[i] for row in cells] for i in (1, 2))
    assert first[:6] == [
        "A",
        "---",
        f"1.2 s, with 3 of {CLIENTS}",
        "yes: `finished` after 9 s, 3 of 3 rounds",
        "yes",
        "no",
    ]
    assert first[6:10] == ["no: `failed`, 54 s after the kill", first[7], "yes", "2 of 2"] and "20 s later" in first[7]
    assert first[10:14] == ["sound", "**no numbers any more**", "**off by 0.25**", "no model (`failed`) (median)"]
    assert first[-3:] == ["99", "100, 101, 102", "+1.2"]
    assert second[2] == second[6] == "not measured" and second[13:16] == ["has none"] * 3
    assert second[-3] == "not measured: no disk"
    assert "at a load of 1.0 to 3.0" in text and "- A, mean, no numbers: x" in text
