"""Processes of a fleet are found by a mark; ratio and spread on numbers whose answer is known."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.flower import spread, times_as_much
from bench.flower_processes import Processes, free_ports, output, resident, wait_for
from bench.step_process import Failed

PARENT = "import os, signal; os.fork() or os.setsid(); signal.pause()"
"""Starts a child that leaves its session."""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.end()


def test_what_a_program_starts_counts_as_the_program_and_ends_with_it(processes: Processes) -> None:
    def both() -> list[int] | None:
        found = processes.family("device-1")
        return found if len(found) == 2 else None

    processes.start("device-1", [sys.executable, "-c", PARENT], os.environ)
    found = asyncio.run(wait_for(both, "two processes", 30))

    assert processes.family("device-10") == processes.family("device") == []
    assert sorted(processes.family()) == sorted(found)
    assert resident(found) > resident(found[:1]) > 0

    processes.end()

    assert processes.family() == []
    assert resident(found) == 0


def test_a_program_that_ends_by_itself_is_told_with_its_last_words(processes: Processes) -> None:
    processes.start("device-1", [sys.executable, "-c", "raise SystemExit('no such thing')"], os.environ)
    with pytest.raises(Failed, match=r"device-1 .* no such thing"):
        asyncio.run(wait_for(processes.check, "its end", 30))
    with pytest.raises(Failed, match="no such thing"):
        asyncio.run(output([sys.executable, "-c", "raise SystemExit('no such thing')"], os.environ))
    assert len(set(free_ports(5))) == 5


def test_a_ratio_is_as_wide_as_both_sides_allow() -> None:
    assert times_as_much([1.0, 2.0, 4.0], [10.0, 20.0, 40.0]) == "10.0 (2.5-40.0)"
    assert times_as_much([], [1.0]) == times_as_much([1.0], []) == "-"
    assert (spread([3.0, 1.0, 2.0]), spread([])) == ("2.00 (1.00-3.00)", "-")
