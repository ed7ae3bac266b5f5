"""Folders of words that no pack may take for its own, as they are read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bench.unheard_voices import MANDARIN, write_takes

from auricle.speech.clip_folder import scan_folder
from auricle.speech.other_speech import FOREIGN


class _Voice:
    """Says tones as long as the text, and remembers the seeds."""

    name = "tone"

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def speak(self, text: str, language: str, seed: int) -> np.ndarray:
        self.seeds.append(seed)
        return np.full(1600 * len(text), 0.1, np.float32)


def test_each_take_is_by_a_speaker_of_its_own_and_is_spoken_once(tmp_path: Path) -> None:
    voice = _Voice()
    for _ in range(2):
        assert write_takes(voice, "cmn", ["今天", "yes no"], 2, tmp_path) == 4  # type: ignore[arg-type]
    assert voice.seeds == [0, 1, 2, 3]
    clips = scan_folder(tmp_path).clips
    assert sorted((clip.word, clip.speaker) for clip in clips) == [
        ("yes no", "tone2"),
        ("yes no", "tone3"),
        ("今天", "tone0"),
        ("今天", "tone1"),
    ]


def test_no_word_of_mandarin_is_said_in_training() -> None:
    words = MANDARIN.split()
    assert len(words) == len(set(words)) == 50
    assert not set(words) & set(FOREIGN["mandarin"].texts)
