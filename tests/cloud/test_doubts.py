"""What devices say of a round's model, and from how many on it is heeded."""

from __future__ import annotations

from auricle_cloud.rounds.cohort_progress import Doubts
from auricle_cloud.storage.rows import InvitationRow

SAID = "worse_received_hits: 3 of 40 words heard, 20 of 40 words heard in the best plug-in"


def test_more_than_half_of_the_cohort_is_enough_and_half_is_not() -> None:
    doubts = Doubts()
    assert not doubts.prevail([])
    doubts.hear("a", SAID)
    doubts.hear("b", SAID)
    doubts.hear("b", SAID)
    assert doubts.prevail(["a", "b", "c"])
    assert not doubts.prevail(["a", "b", "c", "d"])


def test_only_what_a_judge_says_of_the_received_model_is_a_doubt() -> None:
    doubts = Doubts()
    assert not doubts.hear("a", "worse_accuracy: 0 of 40 held-out clips right, 40 before (plug-in)")
    assert not doubts.hear("a", "")
    assert doubts.hear("a", SAID)
    assert doubts.as_report() == {"a": SAID.removeprefix("worse_received_")}


def test_after_a_restart_they_are_those_of_the_invitations() -> None:
    doubts = Doubts()
    said = {"a": None, "b": SAID, "c": "It is muted."}
    doubts.restore({name: InvitationRow("t", 1, name, reason, "invited", 1.0) for name, reason in said.items()})
    assert list(doubts.said) == ["b"]
    said_of_it = doubts.sentence(["a", "b", "c"], 7, 6)
    assert "1 of 3" in said_of_it and "version 7" in said_of_it and "version 6" in said_of_it and "b says" in said_of_it
