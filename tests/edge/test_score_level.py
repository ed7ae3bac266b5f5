"""Thresholds move with the model that listens, so that it is as strict as the pack's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle_edge.listening.detect import DetectSettings, DetectTable
from auricle_edge.listening.detect.recognisers import Posteriors
from auricle_edge.listening.detect.score_level import ScoreLevel, describe_shift, level, score_level
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.training.judge.streams import detections
from auricle_edge.training.local_store import LocalStore
from auricle_learning.training.speech_data import Clips
from auricle_learning.training.train import LocalState

LABELS = ("on", "off", "_unknown_")
PLAIN = DetectSettings(smoothing=1, patience=1, threshold=0.8, refractory=0.0)
WAKING = DetectSettings(smoothing=1, patience=1, threshold=0.8, wake=("on",), commands={"off": 0.5})


def stream(seconds: int, seed: int = 0) -> Posteriors:
    """Hops of 0.1 s of something that sounds like a keyword now and then."""
    logits = np.random.default_rng(seed).normal(-2, 2, (10 * seconds, len(LABELS)))
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def lower(rows: Posteriors, by: float) -> Posteriors:
    return (1 / (1 + np.exp(-(np.log(rows / (1 - rows)) - by)))).astype(np.float32)


def test_the_level_is_the_mean_logit_of_the_highest_fifth_of_the_seconds() -> None:
    """By hand: 100 seconds, of which 20 reach 0.5 or 0.9 for one hop."""
    rows = np.full((1000, 3), 0.01, np.float32)
    rows[5:100:10, 0], rows[205:300:10, 1] = 0.5, 0.9
    found = score_level([rows[:300], rows[300:]], LABELS, PLAIN)
    assert found is not None and found.commands == 0
    assert found.waiting == pytest.approx((10 * 0 + 10 * np.log(9)) / 20, abs=1e-6)


def test_too_little_sound_says_nothing() -> None:
    """59 seconds, and none at all."""
    assert score_level([stream(59)], LABELS, PLAIN) is None
    assert score_level([], LABELS, PLAIN) is None


@pytest.mark.parametrize("by", [-0.7, 0.4, 1.3])
def test_a_listener_that_answers_lower_hears_the_same_as_before(by: float) -> None:
    """All logits lower by the same: with thresholds that follow, exactly the same detections on other sound."""
    sound, other = [stream(300)], stream(600, seed=1)
    packs, now = (score_level(rows, LABELS, PLAIN) for rows in (sound, [lower(sound[0], by)]))
    assert packs is not None and now is not None
    followed = level(PLAIN, DetectTable(), LABELS, packs, now)
    before = detections(other, LABELS, PLAIN)
    assert len(before) > 50
    assert abs(len(detections(lower(other, by), LABELS, followed)) - len(before)) <= 1
    assert abs(len(detections(lower(other, by), LABELS, PLAIN)) - len(before)) > 20


def test_what_the_owner_set_stays() -> None:
    """A word's own threshold, one for all, and a command's."""
    low, usual = ScoreLevel(-2.0, -1.0), ScoreLevel(0.0, 0.0)
    by_word = level(PLAIN, DetectTable(thresholds={"on": 0.8}), LABELS, usual, low)
    assert by_word.thresholds == {"on": 0.8, "off": pytest.approx(0.3512, abs=1e-3)}
    for_all = level(PLAIN, DetectTable(threshold=0.8), LABELS, usual, low)
    assert for_all.thresholds == {"on": 0.8, "off": 0.8} and describe_shift(PLAIN, for_all) == ""
    command = level(WAKING, DetectTable(commands={"off": 0.5}), LABELS, usual, low)
    assert command.commands == {"off": 0.5} and command.thresholds["on"] < 0.4


def test_wake_words_and_commands_follow_on_their_own_and_within_limits() -> None:
    """Commands by their level; no threshold goes below 0.3 or above 0.99."""
    followed = level(WAKING, DetectTable(), LABELS, ScoreLevel(0, 0), ScoreLevel(0.5, -0.4))
    assert followed.thresholds["on"] == pytest.approx(0.8683, abs=1e-4)
    assert followed.commands["off"] == pytest.approx(0.4013, abs=1e-4)
    assert level(WAKING, DetectTable(), LABELS, ScoreLevel(0, 0), ScoreLevel(-9, -9)).commands == {"off": 0.3}
    assert level(WAKING, DetectTable(), LABELS, ScoreLevel(0, 0), ScoreLevel(9, 9)).thresholds["on"] <= 0.99
    assert describe_shift(WAKING, followed).startswith(" Thresholds moved by -0.07 to +0.07")


@pytest.fixture(scope="module")
def pack() -> Pack:
    """One with negatives, trained weights and thresholds."""
    return load_pack("gsc12")


@pytest.mark.slow
def test_a_device_that_was_taught_listens_at_thresholds_of_its_own(tmp_path: Path, pack: Pack) -> None:
    """As it came at the pack's; after a round, and after a restart, at those that fit what listens then."""
    runtime = choose_runtime("auto", pack, training=False).runtime
    plugin = start_weights(pack, "crnn-lite")
    own = pack.table("crnn-base").initial(1)
    task = pack.manifest.task
    nothing = Clips(np.zeros((0, task.frames, task.frontend.mels), np.float32), np.zeros(0, np.int64))

    def made(said: DetectTable | None = None) -> HearingModel:
        return HearingModel(tmp_path, runtime, "crnn-base", own, plugin, said)

    hearing = made()
    assert "moved" not in hearing.choose(nothing).reason
    assert hearing.detect.thresholds["yes"] == 0.9047

    taught = (own + np.float32(0.01)).astype(np.float32)
    choice = hearing.learnt(plugin, taught, nothing)
    assert choice.candidate.name == "ensemble" and "Thresholds moved by -" in choice.reason
    moved = hearing.detect.thresholds
    assert all(0.3 <= at < 0.9 for at in moved.values())

    LocalStore(tmp_path, pack.identity, pack.table("crnn-base")).save(LocalState(taught))
    again = made()
    again.choose(nothing)
    assert again.detect.thresholds == moved
    for said in (DetectTable(follow=False), DetectTable(threshold=0.85)):
        fixed = made(said)
        assert "moved" not in fixed.choose(nothing).reason
        assert set(fixed.detect.thresholds.values()) <= {0.9047, 0.85}
