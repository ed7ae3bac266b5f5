"""The comparison under faults: a model tells who counted, clients are held, and what is printed is what was found."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import reliability_memory
from bench.reliability_fleets import Made, counted, is_harmed, is_mean
from bench.reliability_memory import FEWEST, WARM, Held, files_of, memory, rss_of, slope, threads_of
from bench.reliability_table import report
from bench.reliability_task import ATTACKER, SIZE, attack_of, quarters, trained, wait_while_held
from bench.step_process import Failed

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


GONE = 2**22 + 1
"""No process has this number."""


def test_what_processes_hold_and_what_has_ended_holds_nothing(tmp_path: Path) -> None:
    here = [os.getpid(), GONE]
    before = files_of(here)
    with (tmp_path / "file").open("w"):
        assert files_of(here) == before + 1
    assert threads_of(here) >= threading.active_count()
    assert 10 < rss_of(here) < 10_000
    assert (rss_of([GONE]), files_of([GONE]), threads_of([GONE])) == (0, 0, 0)


class Rounds:
    """A server that has made one round more whenever it is asked, from `WARM` on."""

    name = "toy"

    def __init__(self, until: int) -> None:
        self._done, self._until, self.asked = WARM - 2, until, 0

    def hold(self, *numbers: int) -> None:
        assert not numbers, "nobody is held"

    async def begin(self, rounds: int) -> None:
        self.asked = rounds

    def done(self) -> int:
        self._done = min(self._done + 1, self._until)
        return self._done

    def server(self) -> list[int]:
        return [1, 2]

    def main_server(self) -> list[int]:
        return [1]


@pytest.fixture
def grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process holds 100 MB and, from one look to the next, 1 MB more; nothing is waited for."""
    looks = iter(range(10_000))

    async def at_once(_: float) -> None:
        """Go on."""

    monkeypatch.setattr(reliability_memory.asyncio, "sleep", at_once)
    monkeypatch.setattr(reliability_memory, "rss_of", lambda pids: len(pids) * 100 + next(looks) // 2)
    monkeypatch.setattr(reliability_memory, "resident", lambda pids: 90.0)
    monkeypatch.setattr(reliability_memory, "files_of", lambda pids: 7)
    monkeypatch.setattr(reliability_memory, "threads_of", lambda pids: 3)


@pytest.mark.usefixtures("grows")
def test_growth_is_measured_from_a_warm_server_to_the_last_round() -> None:
    fleet: Any = Rounds(WARM + FEWEST + 1)

    found = asyncio.run(memory(fleet, WARM + FEWEST, 1.0))

    assert fleet.asked == WARM + FEWEST + 1, "the run has not ended when its last round is looked at"
    assert (found["warm"]["round"], found["rounds"]) == (WARM, WARM + FEWEST)
    assert (found["last"]["rss"] - found["warm"]["rss"]) == FEWEST
    assert found["slope"] == pytest.approx(1000.0) == found["slope_half"]
    line = report({"sides": {"toy": {"title": "Toy", "rules": ("", ""), "memory": found}}, "load": [1.0], "cores": 2})
    for cell in (
        "| 28 in 0.0 min |",
        "| 201 (90), 209 (90) |",
        "| 101, 109 |",
        "| +1000.0, +1000.0 |",
        "| 7, 7; 3, 3 |",
    ):
        assert cell in line


@pytest.mark.usefixtures("grows")
def test_too_few_rounds_have_no_slope() -> None:
    fleet: Any = Rounds(WARM)
    with pytest.raises(Failed, match=f"{WARM} rounds in 0"):
        asyncio.run(memory(fleet, WARM + FEWEST, 1e-4))


def test_a_slope_is_that_of_the_line_through_all_rounds() -> None:
    held = [Held(each, 0.0, 100 + 0.002 * each, 0.0, 0.0, 0, 0) for each in (20, 30, 400)]
    assert slope(held) == pytest.approx(2.0)
