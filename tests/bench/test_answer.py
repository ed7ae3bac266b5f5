"""How a benchmark ends."""

from __future__ import annotations

import pytest
from bench.answer import answer
from bench.step_environments import NoEnvironment
from bench.step_process import Failed

from auricle.errors import AuricleError, DataError


def test_what_was_measured_is_printed_with_its_command_or_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench/step.py", "--rounds", "3"])
    assert answer(lambda: {"rounds": 3}, lambda found: f"{found['rounds']} rounds", as_json=False) == 0
    assert capsys.readouterr().out == "3 rounds\n\ncommand: python bench/step.py --rounds 3\n"
    assert answer(lambda: {"rounds": 3}, str, as_json=True) == 0
    assert capsys.readouterr().out == '{"rounds":3}\n'


@pytest.mark.parametrize("reason", [DataError("no clips"), NoEnvironment("no clips"), Failed("no clips")])
def test_what_cannot_be_measured_is_one_sentence_and_an_interrupted_one_says_so(
    reason: AuricleError | NoEnvironment | Failed, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(by: BaseException) -> None:
        raise by

    assert answer(lambda: end(reason), str, as_json=True) == 1
    assert capsys.readouterr() == ("", "bench: no clips\n")
    assert answer(lambda: end(KeyboardInterrupt()), str, as_json=True) == 130
    assert "interrupted" in capsys.readouterr().err
