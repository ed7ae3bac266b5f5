"""The judge of a round: the best state so far, a drift in small steps, the way back, what a refusal leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, RUNTIME, device, keywords, louder, negatives, stretches, taught

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer

SURE = taught()
LOUD = louder(SURE, -2.0)
MUTUAL, SUPERVISED = Plan(), Plan(mode="supervised")
SHARED = negatives(40)
NO_CLIPS = DeviceData(device().train, Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64)), None)


def _judge(folder: Path, data: DeviceData = NO_CLIPS, learn: LearnSettings | None = None) -> RoundJudge:
    trainer = Trainer(RUNTIME, "crnn-lite", data, 0, settings=learn or LearnSettings())
    return RoundJudge(trainer, Judging(DETECT, SHARED), folder)


@pytest.fixture
def judge(tmp_path: Path) -> RoundJudge:
    return _judge(tmp_path)


def _result(plugin: Flat, local: Flat) -> RoundResult:
    return RoundResult(plugin, LocalState(local), 0.0, 1, 0.0, 24, None, None, 0)


def _accepts(weights: Flat) -> int:
    return int(SHARED.accepts(RUNTIME, "crnn-lite", weights).sum())


def _round(judge: RoundJudge, before: Flat, after: Flat, received: Flat, sent: Flat | None = None) -> Verdict:
    verdict = judge.judge(MUTUAL, 1, received, LocalState(before), _result(received if sent is None else sent, after))
    judge.keep(verdict)
    return verdict


@pytest.fixture(scope="module")
def ladder() -> list[Flat]:
    """One model at biases of which each accepts one to four sounds more than the one before."""
    rungs, counts = [louder(SURE, -8.0)], [0]
    for by in np.arange(-5.96, -5.4, 0.02):
        model = louder(SURE, float(by))
        more = _accepts(model) - counts[-1]
        if 2 <= more <= 4:
            rungs.append(model)
            counts.append(counts[-1] + more)
        if len(rungs) == 5:
            break
    assert _accepts(rungs[0]) == 0
    assert len(rungs) == 5
    return rungs


@pytest.mark.slow
def test_a_drift_without_a_significant_step_is_caught_against_the_best_state(
    tmp_path: Path, ladder: list[Flat]
) -> None:
    judge = _judge(tmp_path)
    reasons = [_round(judge, ladder[i], ladder[i + 1], ladder[0]).reason for i in range(3)]
    fresh = [_round(_judge(tmp_path / str(i)), ladder[i], ladder[i + 1], ladder[0]).reason for i in range(3)]
    assert fresh == [None, None, None], "against the round before"
    assert reasons[0] is None
    refused = next(reason for reason in reasons if reason is not None)
    assert refused.startswith("worse_false_accepts: ")
    assert " 0 in 2 min in the best state" in refused


def test_a_refusal_says_how_many_false_accepts_there_are(tmp_path: Path, ladder: list[Flat]) -> None:
    """Against the best state, which is known after a restart."""
    count = _accepts(LOUD)
    first = _round(_judge(tmp_path), ladder[0], LOUD, ladder[0])
    assert (first.reason or "").startswith(f"worse_false_accepts: {count} in 2 min, 0 in 2 min")
    assert first.back is None
    _round(_judge(tmp_path), ladder[0], ladder[1], ladder[0])
    assert ", 0 in 2 min" in (_round(_judge(tmp_path), ladder[1], LOUD, ladder[0]).reason or "")


def test_a_device_whose_state_is_worse_than_the_best_goes_back_to_it(judge: RoundJudge, ladder: list[Flat]) -> None:
    """As after rounds that were not played to the models: the state before is itself significantly worse."""
    _round(judge, ladder[0], ladder[0], ladder[0])
    verdict = _round(judge, LOUD, LOUD, ladder[0])
    assert verdict.reason is not None and verdict.back is not None
    assert np.array_equal(verdict.back.weights, ladder[0])
    assert not verdict.back.slots


def test_a_better_round_becomes_the_best_state(judge: RoundJudge, ladder: list[Flat]) -> None:
    _round(judge, ladder[4], ladder[2], ladder[0])
    assert _round(judge, ladder[2], ladder[0], ladder[0]).reason is None
    assert judge._store.read()["personal model"].heard.false_accepts == 0
    assert "(personal model)" in (_round(judge, ladder[0], LOUD, ladder[0]).reason or "")


def test_a_plug_in_that_is_worse_than_the_received_one_is_not_sent(tmp_path: Path, ladder: list[Flat]) -> None:
    verdict = _round(_judge(tmp_path), ladder[0], ladder[0], ladder[0], LOUD)
    assert "(plug-in)" in (verdict.reason or "")
    assert np.array_equal(verdict.listen, ladder[0])


def test_a_worse_plug_in_of_the_fleet_is_not_listened_with_but_made_better(tmp_path: Path, ladder: list[Flat]) -> None:
    judge, worse = _judge(tmp_path), louder(SURE, -4.5)
    count = _accepts(LOUD)
    assert _accepts(worse) < count
    _round(judge, ladder[0], ladder[0], ladder[0])
    better, same = (_round(judge, ladder[0], ladder[0], LOUD, sent) for sent in (worse, LOUD))
    assert better.reason is None
    assert "(plug-in)" in (same.reason or "")
    expected = f"worse_received_false_accepts: {count} in 2 min, 0 in 2 min"
    for verdict in (better, same):
        assert (verdict.received or "").startswith(expected)
        assert np.array_equal(verdict.listen, ladder[0])


def test_a_model_that_hears_nothing_yet_is_no_standard_and_what_hears_takes_its_place(tmp_path: Path) -> None:
    judge, deaf, hears = _judge(tmp_path, keywords(60)), louder(SURE, -9.0), louder(SURE, -4.5)
    assert _round(judge, deaf, hears, deaf, hears).reason is None
    assert judge._store.read()["personal model"].heard.false_accepts == _accepts(hears)


@pytest.mark.slow
def test_a_plug_in_that_forgets_words_is_refused_and_one_that_forgot_is_not_listened_with(tmp_path: Path) -> None:
    """On streams: it has no more false accepts, and its right answers, though the largest, lie below the thresholds."""
    judge, hears, forgets = _judge(tmp_path, keywords(60)), louder(SURE, -4.5), louder(SURE, -4.5)
    forgets[PACK.plugin_table.offsets["head.weight"].start :] *= 0.05
    first = _round(judge, hears, hears, hears)
    assert (first.reason, first.received) == (None, None)
    sent = judge.judge(SUPERVISED, 2, hears, LocalState(hears), _result(forgets, hears))
    received = judge.judge(SUPERVISED, 3, forgets, LocalState(hears), _result(hears, hears))
    assert (sent.reason or "").startswith("worse_hits: ") and "(plug-in)" in (sent.reason or "")
    assert received.reason is None
    assert (received.received or "").startswith("worse_received_hits: ")
    assert np.array_equal(received.listen, hears)


def test_other_own_negatives_are_played_to_the_best_state_again(tmp_path: Path, ladder: list[Flat]) -> None:
    _round(_judge(tmp_path), ladder[0], ladder[0], ladder[0])
    hard = np.stack([sound[100:200] for sound in stretches(30, seed=5)])
    data = DeviceData(device().train, Clips(hard, np.full(30, 2, np.int64)), None)
    assert _round(_judge(tmp_path, data), ladder[0], ladder[0], ladder[0]).reason is None
    assert len(_judge(tmp_path, data)._store.read()["personal model"].heard.accepts) == 40 * 3 + 30


def test_a_pack_without_negatives_is_judged_on_clips_and_on_its_own_negatives_as_a_stream(tmp_path: Path) -> None:
    trainer = Trainer(RUNTIME, "crnn-lite", device(60), 0, settings=LearnSettings())
    everything = np.zeros_like(SURE)
    everything[-3:] = (5, 0, 0)
    judge = RoundJudge(trainer, Judging(DETECT), tmp_path)
    verdict = judge.judge(SUPERVISED, 1, SURE, LocalState(SURE), _result(everything, SURE))
    assert (verdict.reason or "").startswith("worse_false_accepts: 20 of 20 held-out negatives, 0 before")
    assert verdict.best is not None
    assert len(verdict.best["plug-in"].heard.accepts) == 20


@pytest.mark.slow
def test_forgotten_words_are_refused_as_before(tmp_path: Path) -> None:
    judge, good = _judge(tmp_path, device(60)), _result(SURE, SURE)
    forgot = PACK.plugin_table.initial(0)

    def reason(plan: Plan, **changes: object) -> str:
        return judge.judge(plan, 1, SURE, LocalState(SURE), replace(good, **changes)).reason or ""

    assert reason(MUTUAL) == ""
    worse = reason(MUTUAL, local=LocalState(forgot))
    assert worse.startswith("worse_accuracy: ") and "(personal model)" in worse
    assert reason(SUPERVISED, local=LocalState(forgot)) == ""
    assert "(plug-in)" in reason(MUTUAL, plugin=forgot)


def test_rounds_that_are_not_drawn_are_judged_on_clips_only(tmp_path: Path, ladder: list[Flat]) -> None:
    judge = _judge(tmp_path, learn=LearnSettings(judged_share=0.3))
    loud = _result(ladder[0], LOUD)
    verdicts = [judge.judge(MUTUAL, number, ladder[0], LocalState(ladder[0]), loud) for number in range(1, 41)]
    assert 4 <= sum(verdict.reason is not None for verdict in verdicts) <= 20
    assert all((verdict.best is None) == (verdict.reason is None) for verdict in verdicts)


def test_a_device_without_any_sound_to_judge_by_keeps_every_round(tmp_path: Path) -> None:
    trainer, loudest = Trainer(RUNTIME, "crnn-lite", NO_CLIPS, 0, settings=LearnSettings()), louder(SURE, 9.0)
    judge = RoundJudge(trainer, Judging(DETECT), tmp_path)
    verdict = judge.judge(MUTUAL, 1, SURE, LocalState(SURE), _result(loudest, loudest))
    assert (verdict.reason, verdict.best, verdict.back) == (None, None, None)
    assert not (tmp_path / "best.safetensors").exists()
