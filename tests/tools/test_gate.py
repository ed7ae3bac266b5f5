"""The gate's stages on small folders of tests: what failed, what was chance, what took too long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import gate

SOMETIMES = """
from pathlib import Path
import pytest

def test_sometimes():
    mark = Path(__file__).with_name("mark")
    if not mark.exists():
        mark.touch()
        raise AssertionError("lost a race\\nand more")

def test_always():
    assert 1 + 1 == 3, "wrong sum"

def test_never():
    pass
"""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stage `small` of the tests in a folder, whose results go beside it."""
    monkeypatch.setattr(gate, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gate, "FLAKY", tmp_path / "flaky.txt")
    monkeypatch.setattr(gate, "ALLOWED", tmp_path / "allowed.toml")
    (tmp_path / "allowed.toml").write_text("[small]\n")
    folder = tmp_path / "tests"
    folder.mkdir()
    tests = ("-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(folder))
    monkeypatch.setitem(gate.STAGES, "small", gate.Stage(tests, limit=-1.0))
    return folder


@pytest.mark.slow
def test_chance_is_named_and_stays_green_and_a_failure_is_red(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (stage / "test_some.py").write_text(SOMETIMES)
    monkeypatch.setattr(gate, "ROOT", stage.parent)
    monkeypatch.setenv("PYTHONPATH", str(Path(gate.__file__).parents[1]))

    outcome = gate.run_stage("small")

    assert {name.partition("::")[2]: reason for name, reason in outcome.failed.items()} == {
        "test_always": "AssertionError: wrong sum"
    }
    assert [name.partition("::")[2] for name in outcome.flaky] == ["test_sometimes"]
    assert len(outcome.over) == outcome.tests == 3
    lines, green = gate.lines_of("small")
    assert not green
    assert [line.split()[0] for line in lines if "over" not in line] == ["small:", "FLAKY", "FAILED"]
    (listed,) = (gate.RESULTS / "flaky.txt").read_text().splitlines()
    gate.FLAKY.write_text(listed + "\n")
    assert any("FLAKY AGAIN" in line for line in gate.lines_of("small")[0])


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_and_no_tests_are_red(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ROOT", stage.parent)
    monkeypatch.setenv("PYTHONPATH", str(Path(gate.__file__).parents[1]))

    assert dict(gate.run_stage("small").failed) == {"pytest": "no test ran"}
    (stage / "test_broken.py").write_text("import not_there\n")
    (reason,) = gate.run_stage("small").failed.values()
    assert "not_there" in reason


def test_many_failures_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "run", lambda *_: pytest.fail("it was tried again"))
    assert gate.again({f"t.py::test_{i}": "" for i in range(gate.MOST_TRIED_AGAIN + 1)}) == {}


def test_a_slow_test_with_a_reason_is_not_named(stage: Path) -> None:
    gate.ALLOWED.write_text('[small]\n"t.py::test_a" = "starts a fleet"\n')
    seconds = {"t.py::test_a[1]": 3.0, "t.py::test_b": 2.5, "t.py::test_c": 1.9}
    assert gate.over_limit(seconds, "small", 2.0) == {"t.py::test_b": 2.5}
    assert gate.over_limit(seconds, "small", None) == {}


def test_a_stage_that_did_not_run_is_red_and_an_unknown_one_refused(stage: Path) -> None:
    assert gate.lines_of("small")[1] is False
    command = [sys.executable, "tools/gate.py", "fats"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(gate.__file__).parents[1])
    assert result.returncode == 2 and "fast" in result.stderr


def test_each_part_of_the_nightly_tests_is_run_by_the_workflow() -> None:
    workflow = (gate.ROOT / ".github/workflows/nightly.yml").read_text()
    assert f"part: [{', '.join(gate.NIGHTLY)}]" in workflow
