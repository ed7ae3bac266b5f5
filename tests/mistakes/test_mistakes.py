"""Every mistake is answered by one clear sentence and the right exit code, and the page says what was printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mistakes.before import Need, UnavailableError
from tests.mistakes.judge import faults, shown
from tests.mistakes.page import PAGE, row
from tests.mistakes.record import PARTS, Mistake, read_mistakes
from tests.mistakes.run import Outcome, run
from tests.mistakes.suggested import refused_again

ALL = {part: read_mistakes(part) for part in PARTS}
EACH = [pytest.param(part, mistake, id=f"{part}: {mistake.what}") for part in PARTS for mistake in ALL[part]]
LEAST = 150


@pytest.fixture(scope="module")
def need(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Need]:
    """What is made once for many mistakes."""
    made = Need(tmp_path_factory.mktemp("once"))
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.several
@pytest.mark.parametrize("part", PARTS)
def test_a_command_line_that_is_wrong_in_itself_is_refused_in_one_sentence_which_is_on_the_page(
    part: str, need: Need, tmp_path: Path
) -> None:
    wrong = {}
    for number, mistake in enumerate(each for each in ALL[part] if each.quick):
        folder = tmp_path / str(number)
        folder.mkdir()
        wrong[mistake.command] = list(_wrong(mistake, run(mistake, folder, need), folder))
    assert {command: found for command, found in wrong.items() if found} == {}


def _wrong(mistake: Mistake, outcome: Outcome, folder: Path) -> Iterator[str]:
    """What is wrong with an answer, and what the page says else."""
    yield from faults(mistake, outcome)
    if outcome.code > 1 and (line := row(mistake, shown(mistake, outcome, str(folder)))) not in PAGE.read_text():
        yield f"docs/mistakes.md does not have the row {line}: run python -m tools.mistakes --only {mistake.what!r}"


@pytest.mark.slow
@pytest.mark.parametrize(("part", "mistake"), EACH)
@pytest.mark.nightly
def test_every_mistake_is_answered_and_the_page_says_how(
    part: str, mistake: Mistake, need: Need, tmp_path: Path
) -> None:
    try:
        outcome = run(mistake, tmp_path, need)
    except UnavailableError as why:
        pytest.skip(str(why))
    assert list(_wrong(mistake, outcome, tmp_path)) == []
    assert refused_again(mistake, outcome, tmp_path, need) == ""


def test_there_are_mistakes_of_every_habit_and_each_is_on_the_page() -> None:
    mistakes = [mistake for part in PARTS for mistake in ALL[part]]
    page = PAGE.read_text()
    assert len(mistakes) >= LEAST
    assert {"wrong", "missing", "twice", "half", "Ctrl-C", "no root", "full disk", "80 columns", "no network"} <= {
        mistake.habit for mistake in mistakes
    }
    assert len({(mistake.what, mistake.command) for mistake in mistakes}) == len(mistakes)
    rows = {(part, mistake.what): row(mistake, "").rpartition(" | ")[0] for part in PARTS for mistake in ALL[part]}
    assert {name: line for name, line in rows.items() if line not in page} == {}, "run python -m tools.mistakes"
