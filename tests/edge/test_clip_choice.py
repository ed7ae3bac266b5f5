"""What is held out, what has to go and what is trained on, worked out by hand and as properties."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.edge.clip_sounds import FRONTEND, NO_UNKNOWN, tone

from auricle.errors import DataError
from auricle_edge.clips import Clip, ClipSettings, Source
from auricle_edge.clips.choice import holds_out, past_age, surplus
from auricle_edge.clips.coding import Content
from auricle_edge.clips.record import JUDGING, SOURCES, WORDLESS, Record
from auricle_edge.clips.training_set import NO_LABEL, balance, training_set


def _clip(
    number: int,
    word: str | None = "yes",
    source: Source = "enrolled",
    *,
    size: int = 1000,
    damaged: bool = False,
    **more: Any,
) -> Clip:
    given = {"weight": 1.0, "held_out": False, "created": float(number), **more}
    record = Record(id=f"{number:012x}", word=word, source=source, **given)
    return Clip(record=record, file=f"{number}", bytes=size, sha256="", damaged=damaged)


def _numbers(ids: set[str] | None) -> set[int] | None:
    return None if ids is None else {int(each, 16) for each in ids}


# -- sources


def test_every_source_has_its_line_and_none_that_a_model_guesses_judges_models_or_is_trained_on_as_a_word() -> None:
    assert tuple(SOURCES) == get_args(Source)
    assert {"unlabelled", "near", "repeated"} == WORDLESS
    assert {"enrolled", "confirmed", "denied", "missed", "ambient"} == JUDGING
    assert {source for source, kind in SOURCES.items() if kind.weight == 0} == WORDLESS


# -- held out


def test_the_first_clip_of_a_label_is_trained_on_and_every_fifth_is_held_out_in_the_long_run() -> None:
    rng = np.random.default_rng(0)
    clips: list[Clip] = []
    for number in range(500):
        held = holds_out(clips, "yes", "enrolled", 0.2, rng.random())
        clips.append(_clip(number, held_out=held))
        assert abs(sum(c.record.held_out for c in clips) - 0.2 * len(clips)) <= 1
    assert not clips[0].record.held_out
    assert sum(c.record.held_out for c in clips) in (99, 100, 101)


@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), st.floats(0, 0.999)), max_size=60), st.floats(0, 0.5))
def test_each_label_has_its_own_part_within_one_clip_of_its_share(draws: list[tuple[str, float]], share: float) -> None:
    clips: list[Clip] = []
    for number, (word, drawn) in enumerate(draws):
        clips.append(_clip(number, word, held_out=holds_out(clips, word, "enrolled", share, drawn)))
    for word in ("yes", "no"):
        held = [c.record.held_out for c in clips if c.record.word == word]
        assert abs(sum(held) - share * len(held)) <= 1
        assert not held or not all(held)


@pytest.mark.parametrize(
    ("word", "source"), [("yes", "pseudo"), (None, "unlabelled"), ("_unknown_", "ambient")], ids=str
)
def test_what_a_model_labelled_never_judges_models(word: str | None, source: Source) -> None:
    clips = [_clip(number, word or "yes") for number in range(10)]
    assert not holds_out(clips, word, source, 0.5, 0.0)
    assert holds_out([_clip(0, "_silence_", "ambient")], "_silence_", "ambient", 0.5, 0.0)


# -- quotas


def test_the_least_valuable_and_then_the_oldest_clip_goes() -> None:
    clips = [_clip(1), _clip(2, source="pseudo", created=9), _clip(3, source="pseudo"), _clip(4, source="ambient")]
    settings = ClipSettings(megabytes=0.25)
    big = _clip(9, size=250_000 - 3000)
    assert _numbers(surplus(clips, msgspec.structs.replace(big, bytes=250_000 - 4000), settings)) == set()
    assert _numbers(surplus(clips, big, settings)) == {3}
    assert _numbers(surplus(clips, msgspec.structs.replace(big, bytes=250_000 - 1500), settings)) == {3, 2, 4}
    assert surplus(clips, msgspec.structs.replace(big, bytes=251_000), settings) is None


def test_a_new_clip_takes_the_place_of_none_that_is_worth_more_and_the_clock_does_not_make_it_old() -> None:
    settings = ClipSettings(clips_per_label=10)
    clips = [_clip(number, source="denied") for number in range(100, 110)]
    assert surplus(clips, _clip(1, source="ambient"), settings) is None
    assert _numbers(surplus(clips, _clip(1, source="denied"), settings)) == {100}
    assert _numbers(surplus(clips, _clip(1, "no", source="ambient"), settings)) == set()


def test_held_out_clips_stay_down_to_their_least_number_and_damaged_ones_go_first() -> None:
    settings = ClipSettings(clips_per_label=10, held_out_least=2)
    clips = [_clip(number, held_out=number < 3) for number in range(10)]
    assert _numbers(surplus(clips, _clip(50), settings)) == {0}
    assert _numbers(surplus([*clips[1:], _clip(10)], _clip(50), settings)) == {3}
    broken = msgspec.structs.replace(clips[8], damaged=True)
    assert _numbers(surplus([*clips[:8], broken, clips[9]], _clip(50), settings)) == {8}


def test_age_takes_held_out_clips_too_and_unlabelled_ones_sooner() -> None:
    settings = ClipSettings(days=10, unlabelled_days=1)
    day = 86_400.0
    clips = [
        _clip(1, held_out=True, created=0.0),
        _clip(2, created=5 * day),
        _clip(3, None, "unlabelled", created=9.5 * day),
        _clip(4, None, "unlabelled", created=8 * day),
    ]
    assert [int(clip.id, 16) for clip in past_age(clips, settings, 10.1 * day)] == [1, 4]
    assert past_age(clips[:2], ClipSettings(days=None), 1e9) == []


# -- the training set


def test_labels_weigh_the_same_and_none_is_boosted_beyond_the_limit() -> None:
    weights = np.array([1, 1, 1, 0.5, 0.5], np.float32)
    targets = np.array([0, 0, 0, 1, 1], np.int64)
    # masses 3 and 1, mean 2: boosts 2/3 and 2; sums 2 and 2, mean 4/5
    np.testing.assert_allclose(balance(weights, targets, 4.0), np.array([2 / 3] * 3 + [1.0] * 2) / 0.8, rtol=1e-6)
    # boost of the rare label cut to 1.5: weights 2/3 three times, 0.75 twice; mean 0.7
    np.testing.assert_allclose(balance(weights, targets, 1.5), np.array([2 / 3] * 3 + [0.75] * 2) / 0.7, rtol=1e-6)
    np.testing.assert_array_equal(balance(np.zeros(2, np.float32), targets[:2], 4.0), [1, 1])


def _content(clip: Clip) -> Content:
    return Content(clip.record, tone(int(clip.id, 16)), None)


def test_parts_labels_and_weights_come_out_as_they_went_in() -> None:
    clips = [
        _clip(1, "yes"),
        _clip(2, "no", weight=0.5),
        _clip(3, "yes", held_out=True),
        _clip(4, "gone"),
        _clip(5, None, "unlabelled", weight=0.0),
        _clip(6, "_silence_", "ambient", weight=0.5),
        _clip(7, "yes", damaged=True),
    ]

    data = training_set(clips, _content, FRONTEND, ClipSettings()).data

    by_target = dict(zip(data.train.targets.tolist(), data.train.energies, strict=True))
    assert sorted(by_target) == [0, 1, 3]
    for target, number in ((0, 1), (1, 2), (3, 6)):
        np.testing.assert_array_equal(by_target[target], FRONTEND.energies(tone(number)[np.newaxis])[0])
    np.testing.assert_allclose(data.train.weights, np.ones(3), rtol=1e-6)
    assert data.held_out.targets.tolist() == [0]
    assert data.unlabelled is not None
    assert data.unlabelled.targets.tolist() == [NO_LABEL]
    assert data.noise is not None
    np.testing.assert_array_equal(data.noise, by_target[3])


def test_a_large_store_is_cut_evenly_the_most_valuable_and_newest_first() -> None:
    clips = [_clip(number, "yes", "pseudo" if number < 20 else "enrolled") for number in range(30)]
    clips += [_clip(100 + number, "no", "ambient") for number in range(3)]
    seen: list[int] = []

    def content(clip: Clip) -> Content:
        seen.append(int(clip.id, 16))
        return _content(clip)

    data = training_set(clips, content, FRONTEND, ClipSettings(training_clips=10)).data

    assert sorted(seen) == [*range(23, 30), 100, 101, 102]
    assert np.bincount(data.train.targets).tolist() == [7, 3]


def test_a_clip_that_cannot_be_read_is_left_out_and_named_and_nothing_at_all_is_no_error() -> None:
    def content(clip: Clip) -> Content:
        if clip.id.endswith("1"):
            raise DataError("damaged")
        return _content(clip)

    made = training_set([_clip(1), _clip(2)], content, FRONTEND, ClipSettings())
    assert (len(made.data.train), list(made.unread)) == (1, [_clip(1).id])
    empty = training_set([], content, NO_UNKNOWN, ClipSettings()).data
    assert (len(empty.train), len(empty.held_out), empty.noise, empty.unlabelled) == (0, 0, None, None)
