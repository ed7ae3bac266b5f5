"""A value that nobody means is answered by a sentence and an exit code that is not 0, at every option."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from auricle.process.cli import main
from tests.mistakes.before import Need
from tests.mistakes.run import Outcome, run
from tests.mistakes.wrong_values import FLAT, wrong_values

LEAST = 200
MOST_LINES = 3
INTERRUPTED = 130
"""The exit code of a command that went on, and had to be ended."""


def _fault(code: int, out: str, err: str) -> str | None:
    """What is wrong with an answer; None where nothing is."""
    lines = err.splitlines()
    answered = 1 <= len(lines) <= MOST_LINES or (code == 1 and out)  # 1: what a check found stands in its answer
    if code in (0, INTERRUPTED) or not answered or "Traceback" in out + err:
        return f"{code}: {err[-500:]}"
    return None


@pytest.mark.slow
@pytest.mark.several
def test_a_sample_of_wrong_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FLAT).write_text("flat\n")
    lines = [each.command for each in wrong_values() if " export " not in each.command]  # which imports much at once
    faults = {}
    for line in lines[:: len(lines) // 10]:
        code = main(shlex.split(line)[1:])
        faults[line] = _fault(code, *capsys.readouterr())
    assert {line: fault for line, fault in faults.items() if fault} == {}


@pytest.mark.slow
@pytest.mark.several
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_wrong_value_at_any_option_is_refused(tmp_path: Path) -> None:
    mistakes, need = wrong_values(), Need(tmp_path)
    assert len(mistakes) >= LEAST
    faults = {}
    for number, mistake in enumerate(mistakes):
        folder = tmp_path / str(number)
        folder.mkdir()
        faults[mistake.command] = _of(run(mistake, folder, need))
    need.close()
    assert {line: fault for line, fault in faults.items() if fault} == {}


def _of(outcome: Outcome) -> str | None:
    return _fault(outcome.code, outcome.out, outcome.err)
