"""The comparison under faults: a model tells who counted, clients are held, and what is printed is what was found."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from bench.reliability_fleets import Made, counted, is_harmed, is_mean
from bench.reliability_task import ATTACKER, SIZE, attack_of, quarters, trained, wait_while_held

from auricle.packs.pack import load_pack

START = np.full(SIZE, 0.25, np.float32)


def mean_of(*numbers: int, attack: str = "") -> Made:
    """The model that is the mean of some clients' updates to `START`."""
    return Made(1.0, tuple(quarters(np.mean([trained(START, i, attack) for i in numbers], axis=0, dtype=np.float32))))


@pytest.mark.parametrize("who", [(0, 1, 2, 3), (0, 1, 3), (2,)])
def test_a_model_tells_whose_updates_it_is_the_mean_of(who: tuple[int, ...]) -> None:
    before, after = Made(0.0, tuple(quarters(START))), mean_of(*who)
    assert counted(before, after) == list(who)
    assert is_mean(before, after)
    assert not is_harmed(before, after)
    assert not is_mean(before, before)
    assert not is_mean(before, Made(1.0, (after.quarters[0] + 0.01, *after.quarters[1:])))
    assert load_pack("digits").plugin_table.size == SIZE


@pytest.mark.parametrize("attack", ["nan", "huge", "large"])
def test_an_attack_that_is_told_by_a_file_and_counts_is_seen_in_the_model(attack: str, tmp_path: Path) -> None:
    before = Made(0.0, tuple(quarters(START)))

    assert attack_of(tmp_path) == ""
    (tmp_path / "attack").write_text(attack)
    assert attack_of(tmp_path) == attack
    assert np.isnan(trained(START, ATTACKER, attack)).all() == (attack == "nan")
    assert np.isfinite(trained(START, 0, attack)).all()
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
