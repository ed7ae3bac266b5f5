"""The judge of what packs take for their words: folders as they are read again, sound for all packs, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from bench.unheard_voices import TEXTS, Row, compose, judge, near_texts, noises, read_takes, table, write_takes

from auricle.errors import DataError
from auricle.hearing.splits import noise_part, part_of
from auricle.packs.pack import load_pack
from auricle.speech.clip_folder import scan_folder
from auricle.speech.confusables import confusables, holds_any
from auricle.speech.other_words import ELSEWHERE, OTHER_WORDS
from auricle_export.voices.kokoro import Kokoro
from auricle_export.voices.speakers import parts_of


class _Voice:
    """Says tones as long as the text, and remembers the seeds and the speakers."""

    name = "tone"

    def __init__(self, speakers: int = 18) -> None:
        self.names = tuple(f"v{number}" for number in range(speakers))
        self.asked: list[tuple[int, tuple[str, ...]]] = []

    def languages(self) -> tuple[str, ...]:
        return ("en", "cmn")

    def speakers(self, language: str) -> tuple[str, ...]:
        return self.names if language == "en" else self.names[::-1]

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> np.ndarray:
        self.asked.append((seed, tuple(speakers)))
        return np.full(1600 * len(text), 0.1, np.float32)


def test_each_take_is_by_who_judges_and_is_spoken_once(tmp_path: Path) -> None:
    voice = _Voice()
    for _ in range(2):
        assert write_takes(voice, "cmn", ["今天", "yes no"], 2, tmp_path) == 4  # type: ignore[arg-type]
    assert voice.asked == [(number, ("v8", "v17")) for number in range(4)]
    clips = scan_folder(tmp_path).clips
    assert sorted((clip.word, clip.speaker) for clip in clips) == [
        ("yes no", "tone2"),
        ("yes no", "tone3"),
        ("今天", "tone0"),
        ("今天", "tone1"),
    ]
    assert [len(sound) for sound in read_takes(tmp_path)] == [9600, 9600, 3200, 3200]


def test_of_a_voice_with_few_speakers_all_of_them_speak(tmp_path: Path) -> None:
    voice = _Voice(4)
    write_takes(voice, "cmn", ["今天"], 1, tmp_path)  # type: ignore[arg-type]
    assert voice.asked == [(0, ())]


def test_no_word_of_another_language_is_said_in_a_training() -> None:
    assert list(TEXTS) == ["cmn", "ja", "pt"]
    for code, words in TEXTS.items():
        assert len(words) == len(set(words)) == 50
        assert not set(words) & {*ELSEWHERE[code], *OTHER_WORDS[code]}, code


def test_who_judges_by_kokoro_trains_no_recipe() -> None:
    source = Kokoro()
    groups = parts_of(source.speakers("en"))
    assert [len(groups[part]) for part in ("train", "validation", "test")] == [42, 6, 6]
    assert all(set(source.speakers(code)) == set(source.speakers("en")) for code in TEXTS)


@pytest.mark.slow
def test_near_misses_are_those_that_nobody_says_in_a_training() -> None:
    pack = load_pack("gsc12-res")
    words = [label for label in pack.labels if not label.startswith("_")]
    texts = near_texts([pack])
    said = {text for texts in confusables(words).values() for text in texts}
    assert len(texts) >= 20 and not set(texts) & said
    assert {part_of(text) for text in texts} == {"test"}
    assert not [text for text in texts if holds_any(text, words)]


def test_noises_are_those_of_the_test_part(tmp_path: Path) -> None:
    for number in range(20):
        soundfile.write(tmp_path / f"n{number}.wav", np.full(1600, (number + 1) / 100), 16_000, subtype="FLOAT")
    expected = sorted((n + 1) / 100 for n in range(20) if noise_part(f"n{n}.wav") == "test")
    assert sorted(round(float(sound[0]), 4) for sound in noises(tmp_path)) == expected
    for path in tmp_path.iterdir():
        if noise_part(path.name) == "test":
            path.unlink()
    with pytest.raises(DataError, match="no noise of the test part"):
        noises(tmp_path)


@pytest.mark.slow
def test_every_pack_is_judged_on_the_same_sound_and_silence_is_no_word() -> None:
    rng = np.random.default_rng(0)
    noise = [0.01 * rng.standard_normal(32_000).astype(np.float32)]
    hums = [(0.1 * np.sin(np.arange(16_000) / (8 + n))).astype(np.float32) for n in range(3)]
    both, alone = compose({"cmn": hums, "near": hums}, noise, 2), compose({"near": hums}, noise, 2)
    assert len(both) == 4 and np.array_equal(both[2].samples, alone[0].samples)
    assert not np.array_equal(both[0].samples, both[2].samples)
    rows = judge("gsc12-res", load_pack("gsc12-res"), both)
    assert [(row.kind, row.what, row.recordings) for row in rows] == [
        ("cmn", "detections", 3),
        ("near", "detections", 3),
    ]
    seconds = sum(len(scene.samples) for scene in both[:2]) / 16_000
    assert rows[0].hours == pytest.approx(seconds / 3600, rel=0.2) and rows[0].count == 0
    assert rows[0].low == 0 and rows[0].high == pytest.approx(2.9957 / rows[0].hours, rel=1e-3)
    awake = judge("home", load_pack("home"), both)
    assert [row.what for row in awake] == ["wakes", "wakes", "commands", "commands"]


def test_a_row_is_a_line() -> None:
    lines = table([Row("mine.tar.zst", "near", "detections", 3, 0.5, 6.0, 1.24, 17.53, 2, 40)]).splitlines()
    assert lines[1].split() == ["mine.tar.zst", "detections", "near", "0.50", "6.0", "1.2-17.5", "2", "of", "40"]
