"""Speech in memory."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.errors import DataError
from auricle.speech.speech_set import build_speech_set, silence_clips, to_float, to_int16


def test_sixteen_bits_survive_the_way_to_float_and_back() -> None:
    every = np.arange(-32_768, 32_768).astype(np.int16)

    assert (to_int16(to_float(every)) == every).all()
    assert to_int16(np.array([-2, 1, 2], dtype=np.float32)).tolist() == [-32_768, 32_767, 32_767]


def test_labels_and_speakers_are_numbered() -> None:
    audio = np.zeros((3, 16_000), dtype=np.int16)

    speech = build_speech_set(("yes", "no"), audio, ["no", "yes", "no"], ["b", "b", "a"])

    assert len(speech) == 3
    assert speech.targets.tolist() == [1, 0, 1]
    assert speech.speaker_names == ("a", "b")
    assert speech.speakers.tolist() == [1, 1, 0]
    assert speech.clips_per_speaker().tolist() == [1, 2]
    assert speech.clips_per_label() == {"yes": 1, "no": 2}
    with pytest.raises(ValueError, match="read-only"):
        speech.audio[0] = 1


def test_a_label_without_a_clip_is_named() -> None:
    audio = np.zeros((1, 16_000), dtype=np.int16)

    with pytest.raises(DataError, match=r'No clip of "no" could be used \(the first file skipped: x\.wav is bad\.\)'):
        build_speech_set(("yes", "no"), audio, ["yes"], ["a"], skipped=["x.wav is bad."])


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="audio must be"):
        build_speech_set(("yes",), np.zeros((1, 8_000), dtype=np.int16), ["yes"], ["a"])
    with pytest.raises(ValueError, match="as many targets"):
        build_speech_set(("yes",), np.zeros((2, 16_000), dtype=np.int16), ["yes"], ["a"])


@pytest.mark.parametrize("noise", [(), (np.full(20_000, 0.5, dtype=np.float32),), (np.ones(10, dtype=np.float32),)])
def test_silence_is_quiet_and_never_nothing(noise: tuple[np.ndarray, ...]) -> None:
    clips = silence_clips(noise, 5, np.random.default_rng(0))

    assert clips.shape == (5, 16_000)
    assert clips.any(axis=1).all()
    assert np.abs(to_float(clips)).max() <= 0.51
