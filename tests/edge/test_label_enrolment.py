"""Enrolment keeps whole words, says what was wrong with others, and asks again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.edge.clip_sounds import LENGTH, spoken, store

from auricle.errors import DataError, SettingsError
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle_edge.labels import Enrolment, LabelSettings
from auricle_edge.labels.takes import FRAME, judge_take, levels, loudest_word, room, stretches
from auricle_edge.listening.sound import Block

SETTINGS = LabelSettings()
RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data"))
ROOM = -64.0
"""dB of the room of `spoken`."""


# -- levels


def test_levels_are_in_decibels_of_full_scale() -> None:
    sound = np.concatenate([np.full(FRAME, 32_767), np.full(FRAME, 3277), np.zeros(FRAME + 5)]).astype(np.int16)
    np.testing.assert_allclose(levels(sound), [0.0, -20.0, -96.0], atol=0.01)
    assert room(np.array([-10.0, -60.0, -50.0, -50.0, -50.0, -20.0])) == -50.0
    assert room(levels(sound[:5])) == -96.0


def test_stretches_join_over_short_pauses() -> None:
    loud = np.array([1, 1, 0, 1, 0, 0, 0, 1], bool)
    assert stretches(loud, 1) == [(0, 4), (7, 8)]
    assert stretches(loud, 3) == [(0, 8)]
    assert stretches(np.zeros(4, bool), 3) == []


def test_the_loudest_word_is_found_and_a_click_or_a_hum_is_none() -> None:
    quieter = spoken(5.0, at=1.0, lasting=0.4, level=2000.0)
    both = quieter + spoken(5.0, at=3.0, lasting=0.4, level=5000.0, room=0.0)
    for sound, middle in ((quieter, 1.2), (both, 3.2)):
        start = loudest_word(sound, LENGTH)
        assert start is not None
        assert abs(start + LENGTH / 2 - middle * 16_000) <= 2 * FRAME
    assert loudest_word(spoken(lasting=0.03), LENGTH) is None
    assert loudest_word(spoken(lasting=2.5), LENGTH) is None
    assert loudest_word(spoken(level=0.0), LENGTH) is None
    assert loudest_word(np.zeros(100, np.int16), LENGTH) is None
    assert loudest_word(spoken(4.0, at=3.6, lasting=0.39), LENGTH) == 4 * 16_000 - LENGTH


# -- one take


WRONG = {
    "nothing": spoken(level=0.0),
    "early": spoken(at=0.0),
    "short": spoken(lasting=0.05),
    "long": spoken(lasting=1.4),
    "quiet": spoken(level=150.0),
    "clipping": spoken(level=30_000.0),
    "noise": spoken(level=2000.0, room=800.0),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_with_a_take_is_named(fault: str) -> None:
    take = judge_take(WRONG[fault], -32.0 if fault == "noise" else ROOM, LENGTH, SETTINGS)
    assert take is not None
    assert (take.fault, take.clip) == (fault, None)


def test_a_good_take_is_the_second_around_the_word() -> None:
    sound = spoken(at=1.5, lasting=0.5)
    for seconds in (0.5, 1.0, 1.7, 2.1):  # before the word is over
        assert judge_take(sound[: int(seconds * 16_000)], ROOM, LENGTH, SETTINGS) is None
    take = judge_take(sound, ROOM, LENGTH, SETTINGS)
    assert take is not None and take.clip is not None
    start = next(i for i in range(20_000, 22_000) if np.array_equal(sound[i : i + LENGTH], take.clip))
    assert abs(start - (1.75 * 16_000 - LENGTH // 2)) <= FRAME
    assert -20 < take.peak_dbfs < -10
    assert take.clipping == 0


@pytest.mark.skipif(not (RECORDED / "gsc").is_dir(), reason=f"no recorded speech in {RECORDED}: set AURICLE_SPEECH")
def test_most_recorded_words_are_good_takes_and_are_found_again_as_missed() -> None:
    clips = scan_folder(RECORDED / "gsc").clips[::41]
    faults: Counter[str | None] = Counter()
    found = 0
    for clip in clips:
        word = (read_audio(clip.path) * 32_767).astype(np.int16)
        level = levels(word)
        hush = word[(quietest := int(np.argmin(np.convolve(level, np.ones(10), "valid")))) * FRAME :][: 10 * FRAME]
        around = np.tile(np.concatenate([hush, hush[::-1]]), 15)
        sound = np.concatenate([around[:8000], word, around])
        assert quietest * FRAME + len(hush) <= len(word)
        take = judge_take(sound, room(levels(around)), LENGTH, SETTINGS)
        faults[take.fault if take else "nothing"] += 1
        place = loudest_word(sound, LENGTH)
        found += place is not None and abs(place - 8000) <= 6000
    print(f"{len(clips)} recorded words: {faults[None]} good takes, {found} found as missed; faults {dict(faults)}")
    assert faults[None] > 0.8 * len(clips)
    assert found > 0.8 * len(clips)


# -- an enrolment


def _blocks(*sounds: NDArray[np.int16], size: int = 1600, gap: int | None = None) -> Iterator[Block]:
    sound, start = np.concatenate(sounds), 0
    for number, first in enumerate(range(0, len(sound), size)):
        if number == gap:
            start += 16_000
        block = Block(sound[first : first + size], start, 0.0)
        start = block.end
        yield block


HUSH = spoken(0.5, level=0.0)


def _take(lasting: float = 0.5, level: float = 6000.0) -> NDArray[np.int16]:
    return spoken(1.6, at=0.5, lasting=lasting, level=level)


@pytest.mark.parametrize("size", [160, 1600, 3999])
def test_three_takes_are_asked_for_and_kept(size: int, tmp_path: Path) -> None:
    kept = store(tmp_path)
    steps = list(Enrolment("yes", 3, kept, SETTINGS).run(_blocks(HUSH, *[_take() for _ in range(4)], HUSH, size=size)))
    assert [step.step for step in steps] == ["listen", *["say", "kept"] * 3, "done"]
    assert [(clip.record.word, clip.record.source) for clip in kept.list()] == [("yes", "enrolled")] * 3
    assert {step.clip for step in steps if step.clip} == {clip.id for clip in kept.list()}
    assert '"yes"' in steps[1].said and "1 of 3" in steps[1].said


def test_a_take_that_was_no_good_is_asked_for_again(tmp_path: Path) -> None:
    sounds = [HUSH, spoken(1.6, at=0.5, level=30_000.0), HUSH, HUSH, _take(), HUSH]
    steps = list(Enrolment("no", 1, store(tmp_path), SETTINGS).run(_blocks(*sounds)))
    assert [step.step for step in steps] == ["listen", "say", "again", "say", "kept", "done"]
    assert [step.fault for step in steps] == [None, None, "clipping", None, None, None]
    assert "lower" in steps[2].said


def test_an_enrolment_that_fails_too_often_ends_with_a_sentence_and_keeps_what_was_good(tmp_path: Path) -> None:
    kept = store(tmp_path)
    with pytest.raises(DataError, match="failed 3 times"):
        list(Enrolment("no", 2, kept, SETTINGS).run(_blocks(HUSH, _take(), *[HUSH] * 60)))
    assert len(kept.list()) == 1


def test_sound_that_ends_or_has_a_gap_is_no_take(tmp_path: Path) -> None:
    kept = store(tmp_path)
    with pytest.raises(DataError, match="The sound ended"):
        list(Enrolment("no", 1, kept, SETTINGS).run(_blocks(HUSH)))
    steps = list(Enrolment("no", 1, kept, SETTINGS).run(_blocks(HUSH, _take(), _take(), HUSH, gap=12)))
    assert steps[-1].step == "done"
    sound = kept.read(kept.list()[0].id)
    assert levels(sound).max() > -25


@pytest.mark.parametrize("word", ["yess", "_silence_", "_unknown_", ""])
def test_only_words_of_the_pack_can_be_enrolled(word: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="yes"):
        Enrolment(word, 3, store(tmp_path), SETTINGS)
    with pytest.raises(SettingsError, match="1 to 100"):
        Enrolment("yes", 0, store(tmp_path), SETTINGS)
