"""The page of reliability is made of the tests' markers, and says which row has none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.recorder import merged
from tools import reliability_page
from tools.reliability_page import MarkerError, Shown, main, page, shown
from tools.reliability_verdict import HELD, MISSED, SMALLER, UNRECORDED, UNTESTED, LimitError, judge

TOLD = {
    "before": "# Reliability\n",
    "after": "The end.\n",
    "rows": {
        "L1": {"test": "load", "load": "1,000 devices", "pass": "all counted"},
        "F1": {"test": "kill", "pass": "0 lost"},
        "F12": {"test": "workers", "pass": "0 lost", "without": "There are none."},
    },
}
MARKED = """\
import pytest
pytestmark = [pytest.mark.slow]

@pytest.mark.reliability("F1", "L1", load="20 kills")
def test_killed() -> None: ...

def test_other() -> None: ...
"""


@pytest.mark.slow
def test_the_page_is_as_the_markers_say_which_have_rows_and_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--check"]) == 0
    monkeypatch.setattr(reliability_page, "ROOT", tmp_path)
    (tmp_path / "test_a.py").write_text(MARKED)
    found = [Shown(row, "test_a.py::test_killed", "20 kills", slow=True) for row in ("F1", "L1")]
    assert list(shown(tmp_path / "test_a.py")) == found


def test_a_row_without_a_test_and_a_marker_without_a_row_are_said() -> None:
    text = page(TOLD, [Shown("F1", "t.py::test_killed", "20 kills", slow=True)], {})
    assert "1 of 3 rows have a test; without one: L1, F12." in text
    assert "**L1** load. Aim: 1,000 devices: all counted\n\n**No test shows this yet.**" in text
    assert "**F12** workers. Aim: 0 lost\n\nThere are none.\n" in text
    assert "| `t.py::test_killed` | 20 kills (slow) |  |" in text

    record = {"date": "2026-11-24", "outcome": "passed", "seconds": 3.5, "figures": {"p99 ms": 12}}
    text = page(TOLD, [Shown("F1", "t.py::test_killed", "", slow=False)], {"t.py::test_killed": record})
    assert "2026-11-24, `-`: passed in 3.5 s: p99 ms 12 |" in text  # figures of a run stand beside the test
    with pytest.raises(MarkerError, match="F99"):
        page(TOLD, [Shown("F99", "t.py::test_killed", "", slow=False)], {})


# -- what is recorded


CONFTEST = """\
from tests.recorder import Recorder
def pytest_addoption(parser): parser.addoption("--record")
def pytest_configure(config):
    from pathlib import Path
    file = config.getoption("--record")
    config.pluginmanager.register(Recorder(Path(file) if file else None, config.rootpath))
"""
TESTS = """\
import pytest
@pytest.mark.reliability('F1', load='x')
@pytest.mark.parametrize('n', [1, 2, 3])
def test_killed(n, record_property):
    if n == 3: pytest.skip('no database')
    record_property('kills', n)
@pytest.mark.reliability('F2', load='x')
def test_broken(record_property): record_property('seconds', 2.5); assert False
@pytest.mark.reliability('F2', load='x')
@pytest.mark.skipif(True, reason='only root')
def test_not_here(): pass
def test_other(): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"], ids=["one process", "xdist"])
def test_a_run_is_recorded_and_what_did_not_run_keeps_its_figures(tmp_path: Path, processes: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  reliability: rows\n")
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "r.json").write_text('{"t.py::old": {"date": "2026-01-01"}}')
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    here.pop("AURICLE_FULL_SIZE", None)

    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "--record", "r.json"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, env=here)
    subprocess.run([*command, "-k", "killed"], cwd=tmp_path, capture_output=True, env={**here, "AURICLE_FULL_SIZE": ""})

    kept = json.loads((tmp_path / "r.json").read_text())
    names = ("test_broken", "test_killed", "test_not_here")
    assert set(kept) == {"t.py::old", *(f"test_a.py::{name}" for name in names)}
    broken, killed, not_here = (kept[f"test_a.py::{name}"] for name in names)
    full = killed.pop("full")
    assert killed == {**full, **{name: killed[name] for name in ("seconds", "load")}}
    assert (killed["outcome"], killed["cases"], killed["skipped"]) == ("passed", 2, {"no database": 1})
    assert killed["figures"] == {"kills": {"least": 1, "most": 2, "sum": 3}}
    assert (broken["outcome"], broken["figures"]) == ("failed", {"seconds": 2.5})
    assert (not_here["outcome"], not_here["cases"]) == ("skipped: only root", 0)
    assert (broken["cores"], broken["tree"]) == (os.cpu_count(), "-")
    assert broken["load"] >= 0


def test_sizes_lie_beside_each_other_and_a_skip_takes_no_runs_place() -> None:
    small, large, skip = {"outcome": "passed"}, {"outcome": "failed"}, {"outcome": "skipped: no root"}
    both = {**small, "full": large}
    assert merged({}, large, full=True) == {"full": large}
    assert merged(small, large, full=True) == merged({"full": large}, small, full=False) == both
    assert merged(both, skip, full=False) == merged(both, skip, full=True) == both
    assert merged({"full": large}, skip, full=False) == {**skip, "full": large}
    assert merged({**skip, "full": large}, small, full=False) == both


# -- what a row comes to

AIM = {"limits": {"p99 s": {"below": 2.0}, "lost": {"at_most": 0}}, "sizes": [{"devices": 1000, "kills": 4}]}


def ran(outcome: str = "passed", **figures: Any) -> dict[str, Any]:
    return {"date": "2026-12-01", "outcome": outcome, "seconds": 1.0, "figures": figures}


GOOD = {"p99 s": 0.6, "lost": 0, "devices": 1000, "kills": 4}
SMALL = GOOD | {"devices": 40}
LOST = "lost 1, where it has to be at most 0 (`a`)"


@pytest.mark.parametrize(
    ("recorded", "word", "why"),
    [
        ({"a": ran(**GOOD)}, HELD, ""),
        ({"a": {**ran(**SMALL), "full": ran(**GOOD)}}, HELD, ""),
        ({"a": {"full": ran(**GOOD)}}, HELD, ""),
        ({"a": {**ran("skipped: too large"), "full": ran(**GOOD)}}, HELD, ""),
        ({"a": ran(**GOOD | {"kills": {"least": 1, "most": 3, "sum": 4}})}, HELD, ""),
        ({"a": ran(**SMALL)}, SMALLER, "devices 40 of 1000, kills 4 of 4"),
        ({"a": ran(**GOOD | {"kills": {"least": 0, "most": 2, "sum": 3}})}, SMALLER,
          "devices 1000 of 1000, kills 3 of 4"),
        ({"a": ran(**{"p99 s": 0.6, "lost": 0, "kills": 4})}, SMALLER, "devices not told of 1000, kills 4 of 4"),
        ({}, UNRECORDED, "`a` did not run"),
        ({"a": ran("skipped: only root")}, UNRECORDED, "`a` skipped: only root"),
        ({"a": {**ran(**GOOD), "skipped": {"no database": 2}}}, UNRECORDED, "`a` skipped 2 cases: no database"),
        ({"a": {"full": ran(devices=1000, kills=4, lost=0)}}, UNRECORDED, "no figure p99 s"),
        ({"a": ran(**GOOD | {"p99 s": 2.0})}, MISSED, "p99 s 2.0, where it has to be below 2 (`a`)"),
        ({"a": ran(**GOOD | {"lost": 1})}, MISSED, LOST),
        ({"a": ran(**GOOD | {"p99 s": float("nan")})}, MISSED, "p99 s nan, where it has to be below 2 (`a`)"),
        ({"a": ran(**GOOD | {"p99 s": "0.6"})}, MISSED, "p99 s 0.6, where it has to be below 2 (`a`)"),
        ({"a": {**ran(**SMALL | {"lost": 1}), "full": ran(**GOOD)}}, MISSED, LOST),
        ({"a": {**ran(**SMALL), "full": ran(**GOOD | {"lost": 1})}}, MISSED, LOST),
        ({"a": ran("failed", **GOOD)}, MISSED, "`a` failed"),
    ],
)  # fmt: skip
def test_a_row_is_held_where_all_is_inside_at_the_size_of_the_aim(recorded: Any, word: str, why: str) -> None:
    verdict = judge(AIM, ["a"], recorded)
    assert (verdict.word, verdict.why) == (word, why)


def test_one_test_of_a_row_that_misses_or_did_not_run_is_said() -> None:
    good = {"a": ran(**GOOD)}
    assert judge(AIM, ["a", "b"], good).word == UNRECORDED
    assert judge(AIM, ["a", "b"], {**good, "b": ran("failed")}).word == MISSED
    assert judge(AIM, ["a", "b"], {**good, "b": ran()}).word == HELD  # b has none of these figures
    wide = {**good, "b": ran(**{"p99 s": {"least": 0.1, "most": 2.4, "sum": 9.0}})}
    assert judge(AIM, ["a", "b"], wide).why == "p99 s 2.4, where it has to be below 2 (`b`)"
    assert judge({}, ["a"], {"a": ran()}) == judge({}, ["a"], {"a": ran()})
    assert judge({}, ["a"], {"a": ran()}).why == "no figure"
    assert judge({}, [], {}).word == UNTESTED
    for wrong in ({"limits": {"lost": {"under": 1}}}, {"limits": {"lost": {}}}, {"sizes": [{}]}):
        with pytest.raises(LimitError):
            judge(wrong, ["a"], good)


def test_the_page_says_what_is_held_and_never_so_of_a_figure_that_is_outside() -> None:
    told = {**TOLD, "rows": {**TOLD["rows"], "L1": {**TOLD["rows"]["L1"], **AIM}}}  # type: ignore[dict-item,index]
    found = [Shown("L1", "t.py::a", "x", slow=False), Shown("F1", "t.py::b", "x", slow=True)]
    text = page(told, found, {"t.py::a": {**ran(**SMALL), "tree": "abc", "load": 0.4, "full": ran(**GOOD)}})
    assert "Of 3 rows 1 have each test recorded and 1 a figure; 1 held; 1 not recorded: F1; " in text
    assert "; 1 without a test: F12. Trees: `-`, `abc`.\n" in text
    assert "\nL1: **held**.\n" in text and "\nF1: **not recorded**: `b` did not run.\n" in text
    small = "2026-12-01, `abc`: passed in 1.0 s, load 0.4: p99 s 0.6; lost 0; devices 40; kills 4"
    assert f"| `t.py::a` | x | {small}<br>at full size, 2026-12-01, `-`: passed in 1.0 s: p99 s 0.6;" in text
    for name, value in (("p99 s", 2.5), ("lost", 1)):
        text = page(told, found, {"t.py::a": {**ran(**SMALL), "full": ran(**GOOD | {name: value})}})
        assert f"\nL1: **MISSED**: {name} {value}, where" in text and "0 held; 1 MISSED: L1;" in text
