"""The page of reliability is made of the tests' markers, and says which row has none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools import reliability_page
from tools.reliability_page import MarkerError, Shown, main, page, shown

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
    assert "2026-11-24: passed in 3.5 s; p99 ms 12 |" in text  # figures of a run stand beside the test
    with pytest.raises(MarkerError, match="F99"):
        page(TOLD, [Shown("F99", "t.py::test_killed", "", slow=False)], {})


def test_a_run_is_recorded_and_what_did_not_run_keeps_its_figures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(Path(__file__).parents[1].joinpath("conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  reliability: rows\n")
    (tmp_path / "test_a.py").write_text(
        "import pytest\n@pytest.mark.reliability('F1', load='x')\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_killed(n, record_property): record_property('kills', n)\n"
        "@pytest.mark.reliability('F2', load='x')\ndef test_broken(): assert False\ndef test_other(): pass\n"
    )
    (tmp_path / "r.json").write_text('{"t.py::old": {"date": "2026-01-01"}}')

    subprocess.run([sys.executable, "-m", "pytest", "-q", "--record", "r.json"], cwd=tmp_path, capture_output=True)

    kept = json.loads((tmp_path / "r.json").read_text())
    assert set(kept) == {"t.py::old", "test_a.py::test_killed", "test_a.py::test_broken"}
    killed = kept["test_a.py::test_killed"]
    assert (killed["outcome"], killed["figures"]) == ("passed", {"kills": 2})
    assert kept["test_a.py::test_broken"]["outcome"] == "failed"
