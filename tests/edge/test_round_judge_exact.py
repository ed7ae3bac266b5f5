"""The judge's decisions, count by count: what each model hears is given by hand, and nothing is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, RUNTIME, device, negatives

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.training.judge import round_judge
from auricle_edge.training.judge.comparison import Heard
from auricle_edge.training.judge.round_judge import PERSONAL, PLUGIN, RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging, Negatives
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer

WORDS, SECONDS = 40, 400
SETTINGS = LearnSettings()
NO_CLIPS = DeviceData(device().train, Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64)), None)
GOOD = (0, 30)
"""False accepts, and words heard of 40."""


def _model(number: int) -> Flat:
    return np.full(PACK.plugin_table.size, number, np.float32)


@dataclass(frozen=True)
class _Sound:
    """What each model, named by its first weight, hears of one sound: its false accepts and words are the first."""

    digest: str
    counts: Mapping[int, tuple[int, int]]
    hours: float = SECONDS / 3600

    def heard(self, _: str, weights: Flat) -> Heard:
        accepts, hits = self.counts[int(weights[0])]
        heard = (np.arange(count) < first for count, first in ((SECONDS, accepts), (WORDS, hits)))
        return Heard(*(each.astype(np.uint8) for each in heard), self.hours)


class _Device:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, counts: Mapping[int, tuple[int, int]]) -> None:
        self.sound = _Sound("a" * 64, counts)
        patch.setattr(round_judge, "JudgedSound", lambda *_: self.sound)
        trainer = Trainer(RUNTIME, "crnn-lite", NO_CLIPS, 0, settings=SETTINGS)
        self.judge = RoundJudge(trainer, Judging(DETECT, negatives(1)), folder)

    def personal(self, before: int, after: int) -> Verdict:
        """A round in which the received plug-in, model 0, stays as it was."""
        return self._round(Plan(), 0, 0, before, after)

    def plugin(self, received: int, sent: int) -> Verdict:
        """A round without an own model."""
        return self._round(Plan(mode="supervised"), received, sent, 0, 0)

    def _round(self, plan: Plan, received: int, sent: int, before: int, after: int) -> Verdict:
        result = RoundResult(_model(sent), LocalState(_model(after)), 0.0, 1, 0.0, 24, None, None, 0)
        verdict = self.judge.judge(plan, 1, _model(received), LocalState(_model(before)), result)
        self.judge.keep(verdict)
        return verdict

    def best(self, role: str) -> int:
        return int(self.judge._store.read()[role].weights[0])


Made = Callable[[Mapping[int, tuple[int, int]]], _Device]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    return lambda counts: _Device(tmp_path, monkeypatch, counts)


# -- the best state


def test_a_state_that_is_neither_better_nor_worse_is_not_the_best_one(made: Made) -> None:
    """A false accept more and a word more: both by chance."""
    owner = made({0: GOOD, 1: (0, 30), 2: (1, 31)})
    assert owner.personal(1, 2).reason is None
    assert owner.best(PERSONAL) == 1
    owner.plugin(2, 2)
    assert owner.best(PLUGIN) == 0


def test_who_hears_clearly_more_than_a_best_state_that_hears_a_quarter_takes_its_place(made: Made) -> None:
    owner = made({0: GOOD, 1: (0, 10), 2: (30, 30), 3: (30, 30)})
    owner.personal(1, 1)
    assert owner.personal(2, 3).reason is None
    assert owner.best(PERSONAL) == 3


def test_who_hears_clearly_more_than_the_best_state_may_not_be_worse_than_the_state_before(made: Made) -> None:
    """Thirty false accepts, where the state before had five."""
    owner = made({0: GOOD, 1: (0, 10), 2: (5, 30), 3: (30, 30)})
    owner.personal(1, 1)
    assert (owner.personal(2, 3).reason or "").startswith("worse_false_accepts: ")
    assert owner.best(PERSONAL) == 1


def test_other_sound_is_played_to_the_best_state_again(made: Made) -> None:
    owner = made({0: GOOD, 1: (2, 30)})
    owner.personal(1, 1)
    owner.sound = _Sound("b" * 64, {0: (3, 30), 1: (7, 29), 2: (40, 30)})
    verdict = owner.personal(1, 2)
    assert verdict.reason is not None
    assert verdict.best is not None
    kept = verdict.best[PERSONAL]
    assert (int(kept.weights[0]), kept.sound) == (1, "b" * 64)
    assert (kept.heard.false_accepts, int(kept.heard.hits.sum())) == (7, 29)


def test_best_states_are_written_only_where_they_changed(tmp_path: Path, made: Made) -> None:
    owner = made({0: GOOD, 1: GOOD})
    owner.judge.keep(Verdict(None, _model(0)))
    assert not (tmp_path / "best.safetensors").exists()
    verdict = owner.personal(1, 1)
    (tmp_path / "best.safetensors").unlink()
    owner.judge.keep(verdict)
    assert not (tmp_path / "best.safetensors").exists()


def test_the_best_states_take_four_bytes_a_weight(made: Made) -> None:
    owner = made({})
    assert owner.judge.nbytes == 4 * 2 * PACK.plugin_table.size


# -- the way back of a plug-in


@pytest.mark.parametrize(
    ("received", "sent", "sends"),
    [
        ((30, 30), (20, 30), True),
        ((30, 30), (30, 30), False),
        ((30, 30), (20, 10), False),
        ((0, 10), (0, 14), True),
        ((0, 10), (0, 10), False),
        ((0, 10), (30, 14), False),
    ],
    ids=("fewer accepts", "as many", "fewer words too", "more words", "as few", "more accepts too"),
)
def test_a_plug_in_of_the_fleet_that_is_worse_than_the_best_may_be_made_better_in_that_and_worse_in_nothing(
    made: Made, received: tuple[int, int], sent: tuple[int, int], sends: bool
) -> None:
    owner = made({0: GOOD, 1: received, 2: sent})
    owner.plugin(0, 0)
    verdict = owner.plugin(1, 2)
    assert (verdict.reason is None) is sends
    assert int(verdict.listen[0]) == 0


# -- clips


@pytest.mark.parametrize(
    ("shared", "accepts"), [(negatives(1), False), (None, True), (negatives(0), True)], ids=("one", "none", "empty")
)
def test_false_accepts_on_clips_count_where_no_stretch_of_negatives_shows_them_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Negatives | None, accepts: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(round_judge, "find_worse", lambda *_, **how: asked.append(how.get("accepts")))
    trainer = Trainer(RUNTIME, "crnn-lite", device(6), 0, settings=LearnSettings(judged_share=0.0))
    model = PACK.plugin_table.initial(0)
    state = LocalState(model)
    result = RoundResult(model, state, 0.0, 1, 0.0, 24, None, None, 0)
    RoundJudge(trainer, Judging(DETECT, shared), tmp_path).judge(Plan(mode="supervised"), 1, model, state, result)
    assert asked == [accepts]
