"""The judge: counts worked out by hand, and a sign test that few clips cannot fool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle_edge.training.judge.clips import Answers, answers, find_worse
from auricle_learning.training.learn_settings import LearnSettings

LABELS = ("yes", "no", "_unknown_", "_silence_")
DEFAULT = LearnSettings()


def _heard(negatives: int, accepted: int, keywords: int = 20, right: int = 20, lost: int = 0) -> Answers:
    """So many negatives of which the first are accepted, and keywords of which the first after `lost` are detected."""
    negative = np.arange(negatives + keywords) < negatives
    place = np.arange(negatives + keywords) - negatives
    hit = (place >= lost) & (place < lost + right)
    false = negative & (np.arange(len(negative)) < accepted)
    return Answers(negative, false | hit, np.where(negative, ~false, hit))


def test_the_answers_are_the_posteriors() -> None:
    """Rows: yes at 0.7; no at 0.4 beside unknown 0.4; silence; yes at 0.6 where nobody spoke; no exactly at 0.5."""
    p = np.array([[7, 1, 1, 1], [1, 4, 4, 1], [1, 1, 1, 7], [6, 1, 2, 1], [1, 4, 2, 1]])
    targets = np.array([0, 1, 3, 3, 1])
    heard = answers(np.log(p).astype(np.float32), targets, LABELS, 0.5)
    assert heard.negative.tolist() == [False, False, True, True, False]
    assert heard.accepted.tolist() == [True, False, False, True, True]
    assert heard.right.tolist() == [True, True, True, False, True]
    assert heard.false_accepts.tolist() == [False, False, False, True, False]
    assert heard.detects(2 / 3)
    assert not heard.detects(0.7)


def test_more_false_accepts_than_chance_allows_are_a_reason() -> None:
    """Five more and none fewer: 1/32 by chance; four more: 1/16."""
    assert (find_worse(_heard(60, 2), _heard(60, 7), DEFAULT) or "").startswith("worse_false_accepts: 7 of 60")
    assert find_worse(_heard(60, 2), _heard(60, 6), DEFAULT) is None
    assert find_worse(_heard(60, 2), _heard(60, 6), LearnSettings(chance=0.07)) is not None


def test_without_held_out_clips_nothing_is_worse() -> None:
    none = answers(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), LABELS, 0.5)
    assert find_worse(none, none, DEFAULT) is None


def test_a_pack_without_negatives_is_judged_by_its_accuracy() -> None:
    targets = np.arange(40) % 2
    logits = np.eye(2, dtype=np.float32)[targets] * 5
    before, after = (answers(z, targets, ("yes", "no"), 0.6) for z in (logits, logits[::-1]))
    assert not before.negative.any()
    assert (find_worse(before, after, DEFAULT) or "").startswith("worse_accuracy: 0 of 40")


MASKS = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.booleans(), min_size=n, max_size=n).map(np.array) for _ in range(5)])
)


@settings(max_examples=50)
@given(MASKS)
def test_a_model_is_never_worse_than_itself_and_no_two_are_worse_than_one_another(
    masks: tuple[np.ndarray, ...],
) -> None:
    negative, *rest = masks
    a, b = Answers(negative, rest[0], rest[1]), Answers(negative, rest[2], rest[3])
    assert find_worse(a, a, DEFAULT) is None
    reasons = [find_worse(a, b, DEFAULT), find_worse(b, a, DEFAULT)]
    assert len({(r or str(i)).split(":")[0] for i, r in enumerate(reasons)}) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_four_clips_or_fewer_never_speak_against_a_round(count: int) -> None:
    assert find_worse(_heard(count, 0), _heard(count, count), DEFAULT) is None
