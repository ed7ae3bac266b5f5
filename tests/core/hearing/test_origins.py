"""Which recordings false accepts came from, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.hearing.curve import curve_of
from auricle.hearing.origins import Origins, Recordings, origins_of
from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Piece, Scene, Stretch

RATE = 16_000


def piece(source: str, start: float, end: float) -> Piece:
    """In seconds."""
    return Piece(source, round(start * RATE), round(end * RATE))


def test_a_decision_comes_from_what_filled_most_of_the_second_before_it() -> None:
    """At 2.3 s: 0.7 s of the first, 0.2 of the second. At 2.7: 0.3 and 0.6. At 6 s nothing for 2 s: the last, from 2.1
    to 4 s. At 0.5 s only a third has begun; before that nothing."""
    pieces = [piece("a", 1, 2), piece("b", 2.1, 4), piece("c", 0.3, 0.6)]
    decided = np.array([round(second * RATE) for second in (2.3, 2.7, 6.0, 0.5, 0.2)])
    assert origins_of(pieces, decided).tolist() == [0, 1, 1, 2, -1]
    assert origins_of([], decided).tolist() == [-1] * 5


def _scene(*pieces: Piece, kind: str = "words", seconds: float = 10) -> Scene:
    return Scene(np.zeros(0, np.int16), (), (Stretch(kind, 0, round(seconds * RATE)),), pieces)


def test_one_bad_recording_that_is_heard_again_and_again_counts_once() -> None:
    """`zero` is played in three scenes and wrong in each, at 0.9; another word once, at 0.6, in the first.

    Thirty seconds are ten if each word is heard once.
    """
    scenes = [_scene(piece("zero", 1, 2), piece("one", 5, 6), piece("two", 8, 9)) for _ in range(3)]
    rows = [np.zeros((100, 2), np.float32) for _ in scenes]
    for number, row in enumerate(rows):
        row[20, 0] = 0.9
        row[58, 0] = 0.6 if number == 0 else 0.0
    counts = curve_of(rows, scenes, ("yes", "_unknown_"), Rule(0.1, 1, 1), np.array([0.5, 0.8]))
    assert counts.total().tolist() == [4, 3]
    low, high = counts.origins.at(0), counts.origins.at(1)
    assert dict(low.false_accepts) == {"zero": 3, "one": 1} and list(low.false_accepts) == ["zero", "one"]
    assert (low.bad, low.heard, high.bad, high.heard) == (2, 3, 1, 3)
    assert low.hours == pytest.approx(10 / 3600) and high.rate == pytest.approx(360)
    assert high.share.low == pytest.approx(0.0084, abs=1e-4) and high.share.high == pytest.approx(0.9057, abs=1e-4)


def test_a_recording_that_occurs_in_two_kinds_of_sound_is_one_and_as_long_as_it_was_heard_longest() -> None:
    """`zero` for 1 s among words and for half a second run together, then noise: of 12.5 s played 12 are different."""
    origins, at = Origins(), np.array([2 * RATE])
    for scene in (
        _scene(piece("zero", 1, 2)),
        _scene(piece("zero", 1, 1.5), piece("one", 3, 4), kind="run together"),
        _scene(piece("rain", 0, 10), kind="noise"),
    ):
        made = at if scene.stretches[0].kind != "noise" else at[:0]
        origins.hear(scene)
        origins.add(scene, scene.stretches[0], made, np.zeros(len(made), np.int64), 1)
    everything = origins.at()
    assert (dict(everything.false_accepts), everything.heard) == ({"zero": 2}, 3)
    assert everything.hours == pytest.approx(30 * 12 / 12.5 / 3600)
    assert {kind: (each.bad, each.heard) for kind, each in origins.by_kind().items()} == {
        "words": (1, 1),
        "run together": (1, 2),
        "noise": (0, 1),
    }


def test_scenes_that_know_no_recordings_say_nothing() -> None:
    origins = Origins()
    scene = _scene()
    origins.hear(scene)
    origins.add(scene, scene.stretches[0], np.array([RATE]), np.array([0]), 1)
    assert origins.by_kind() == {} and origins.at() == Recordings({}, 0, 0)


def test_a_recording_with_labels_in_it_is_one_that_is_heard_once() -> None:
    """A minute with a keyword from 20 to 30 s, wrong once before and once after it."""
    whole = Scene(
        np.zeros(0, np.int16),
        (),
        (Stretch("recording", 0, 20 * RATE), Stretch("recording", 30 * RATE, 60 * RATE)),
        (piece("kitchen.wav", 0, 60),),
    )
    rows = np.zeros((600, 2), np.float32)
    rows[[50, 450], 0] = 0.9
    found = curve_of([rows], [whole], ("yes", "_unknown_"), Rule(0.1, 1, 1), np.array([0.5])).origins.at()
    assert dict(found.false_accepts) == {"kitchen.wav": 2} and found.heard == 1
    assert found.hours == pytest.approx(50 / 3600)


def test_names_stand_for_fingerprints() -> None:
    found = Recordings({"f00": 2, "kitchen.wav": 1}, 5, 0.1).named({"f00": "zero/anna_nohash_0.wav"})
    assert found.false_accepts == {"zero/anna_nohash_0.wav": 2, "kitchen.wav": 1}
