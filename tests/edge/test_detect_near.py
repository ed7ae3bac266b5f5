"""Words that were almost heard: which runs of hops are near-misses, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.edge.clip_sounds import FRONTEND, LABELS

from auricle_edge.listening.detect import Detector, DetectSettings
from auricle_edge.listening.detect.decision import NearMiss, NearWatch
from auricle_edge.listening.sound import RATE, Block

HOP = RATE // 10


def watched(rows: list[tuple[float, float]], accepted: tuple[int, ...] = (), rest: int = 2) -> list[NearMiss]:
    """Near-misses of hops with these averages of two words, both with a threshold of 0.8; share 0.5: from 0.4."""
    found: list[NearMiss] = []
    watch = NearWatch(("yes", "no"), 0.5, rest, found.append)
    for number, row in enumerate(rows):
        smoothed = np.array(row)
        watch.hop((number * HOP, number * HOP + RATE), smoothed, smoothed / 0.8, number in accepted)
    return found


def test_a_run_below_the_threshold_is_one_near_miss_at_its_peak() -> None:
    rows = [(0.1, 0.1), (0.4, 0.1), (0.7, 0.5), (0.6, 0.1), (0.39, 0.1), (0.1, 0.5), (0.1, 0.1)]
    assert watched(rows) == [
        NearMiss("yes", 0.7, 2 * HOP, 2 * HOP + RATE),
        NearMiss("no", 0.5, 5 * HOP, 5 * HOP + RATE),
    ]


def test_a_run_that_has_not_ended_is_none_yet() -> None:
    assert watched([(0.5, 0.1), (0.5, 0.1)]) == []


def test_the_rise_and_the_fall_of_an_accepted_word_are_no_near_miss() -> None:
    rows = [(0.5, 0.1), (0.9, 0.1), (0.7, 0.1), (0.5, 0.1), (0.1, 0.1), (0.5, 0.1), (0.1, 0.1)]
    assert watched(rows, accepted=(1,)) == [NearMiss("yes", 0.5, 5 * HOP, 5 * HOP + RATE)]


def test_within_the_refractory_time_nothing_counts() -> None:
    rows = [(0.9, 0.1), (0.1, 0.1), (0.5, 0.1), (0.1, 0.1), (0.1, 0.1), (0.5, 0.1), (0.1, 0.1)]
    assert watched(rows, accepted=(0,), rest=4) == [NearMiss("yes", 0.5, 5 * HOP, 5 * HOP + RATE)]


@pytest.mark.parametrize("size", [HOP, 1000, 7001], ids=str)
def test_a_detector_finds_the_same_near_misses_however_the_sound_is_cut(size: int) -> None:
    """Noise of a second and a half is scored by its level: 0.7 of "yes" while it lasts, which is not 0.8."""

    def recognise(logs: np.ndarray) -> np.ndarray:
        rows = np.tile(np.array([0.1, 0.1, 0.7, 0.1], np.float32), (len(logs), 1))
        loud = np.ptp(logs.mean(axis=2), axis=1) > 1.0
        rows[loud] = (0.7, 0.1, 0.1, 0.1)
        return rows

    rng = np.random.default_rng(1)
    sound = rng.normal(0, 20, 6 * RATE)
    sound[2 * RATE : 3 * RATE + RATE // 2] += rng.normal(0, 6000, RATE + RATE // 2)
    samples = sound.clip(-32_768, 32_767).astype(np.int16)
    found: list[NearMiss] = []
    detector = Detector(FRONTEND, LABELS, recognise, DetectSettings(vad="off"))
    detector.watch_near(0.6, found.append)
    detections = [
        each
        for start in range(0, len(samples), size)
        for each in detector.feed(Block(samples[start : start + size], start, 0.0))
    ]

    assert detections == []
    assert {near.word for near in found} == {"yes"}
    assert found[0].score == pytest.approx(0.7, abs=1e-6)
    assert all(near.end - near.start == RATE for near in found)
    assert 2 * RATE < found[0].end < 3 * RATE


def test_a_command_is_almost_heard_only_in_the_window_after_a_wake_word() -> None:
    """Asleep 0.7 of `no` is nothing; awake 0.3 is three quarters of its 0.4, while `yes` fell off before it."""
    says = [(0.0, 0.7), (0.0, 0.0), (0.9, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.3), (0.0, 0.0)]
    rows = iter(says)

    def recognise(logs: np.ndarray) -> np.ndarray:
        first, second = next(rows, (0.0, 0.0))
        return np.array([[first, second, 1 - first - second, 0]], np.float32)

    chosen = DetectSettings(
        vad="off", smoothing=1, patience=1, refractory=0.0, wake=(LABELS[0],), commands={LABELS[1]: 0.4}
    )
    detector = Detector(FRONTEND, LABELS, recognise, chosen)
    found: list[NearMiss] = []
    detector.watch_near(0.6, found.append)
    heard = [
        each.word
        for hop in range(9 + len(says))
        for each in detector.feed(Block(np.zeros(HOP, np.int16), hop * HOP, 0.0))
    ]
    assert heard == [LABELS[0]]
    assert [(near.word, round(near.score, 6)) for near in found] == [(LABELS[1], 0.3)]


@pytest.mark.parametrize(("quiet", "found"), [(3, 0), (4, 1)])
def test_a_near_miss_counts_again_when_the_refractory_time_is_over(quiet: int, found: int) -> None:
    """Four hops of it: with a quiet hop after three of them they are not over, after four they are."""
    heard: list[NearMiss] = []
    watch = NearWatch(("yes", "no"), 0.5, 4, heard.append)

    def hop(closeness: float, accepted: bool = False) -> None:
        watch.hop((0, 1), np.array([0.25, 0.0]), np.array([closeness, 0.0]), accepted)

    hop(1.0, accepted=True)
    for closeness in (*[0.0] * quiet, 0.75, 0.0):
        hop(closeness)

    assert heard == [NearMiss("yes", 0.25, 0, 1)] * found
