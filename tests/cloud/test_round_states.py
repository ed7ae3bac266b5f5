"""The states of a round as they are drawn and tabled, against the arrows that the code knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import auricle_cloud.rounds
from auricle_cloud.operations.round_answers import RoundRow
from auricle_cloud.states.figures import FIGURES, figures_in
from auricle_cloud.states.outcome import OUTCOMES, Outcome, sentence_of
from auricle_cloud.states.round import AGAINST, FINISHED, GAVE_UP, MISSING, STATES, TRANSITIONS

PAGE = (Path(__file__).parents[2] / "docs" / "coordinator.md").read_text()
FOLDER = auricle_cloud.rounds.__doc__ or ""


def drawn(text: str) -> set[tuple[str, str]]:
    """The arrows of a drawing."""
    lines = [line for line in text.splitlines() if line.startswith("    ") and re.search(r"\w -+> \w", line)]
    return {(old, new) for line in lines for old, new in re.findall(r"(\w+) -+> (?=(\w+))", line)}


def in_table(text: str) -> dict[str, set[str]]:
    """States by name, with those that the table has for the next."""
    rows = re.findall(r"^\| (\w+) \|[^|]*\|([^|]*)\|$", text.partition("## Rounds")[2], re.MULTILINE)
    return {state: set(following.replace(",", " ").split()) for state, following in rows if state in STATES}


@pytest.mark.parametrize("text", [FOLDER, PAGE.partition("## Rounds")[2].partition("\n## ")[0]])
def test_every_arrow_is_drawn_and_no_other(text: str) -> None:
    assert drawn(text) == {(old, new) for old, new in TRANSITIONS if new != "aborted"}


def test_the_pages_table_has_every_arrow_and_no_other() -> None:
    table = in_table(PAGE)
    assert tuple(sorted(table)) == tuple(sorted(STATES))
    assert {(old, new) for old, following in table.items() for new in following} == set(TRANSITIONS)


def test_the_folders_table_has_every_state_once() -> None:
    told = re.findall(r"^(\w+) +\S", FOLDER.split("=\nstate", 1)[1].split("=\n", 2)[1], re.MULTILINE)
    assert sorted(told) == sorted(STATES)


def test_a_round_becomes_aborted_from_every_state_before_its_model_is_entered() -> None:
    """From closing where the model could be no update."""
    late = {"aggregated", *FINISHED}
    assert {old for old, new in TRANSITIONS if new == "aborted"} == set(STATES) - late


def test_every_outcome_stands_in_the_table_and_says_its_sentence() -> None:
    assert {*OUTCOMES} == {*get_args(Outcome)}
    assert (MISSING, GAVE_UP, {*AGAINST}) == (("invited", "late"), ("failed", "declined"), {"failed", "refused"})
    assert [name for name, of in OUTCOMES.items() if of.counts] == ["counted", "elsewhere"]
    assert sentence_of("declined", "kitchen", 7, "It is busy.") == "kitchen declined round 7: It is busy."
    assert sentence_of("late", "{why}", 7) == "{why} sent its update after round 7 had closed."


def test_a_number_of_a_round_is_a_field_of_its_answer() -> None:
    assert {figure.name for figure in FIGURES} < {*RoundRow.__struct_fields__}
    assert [figure.name for figure in figures_in("terminal")] == ["loss", "plugin_accuracy"]
