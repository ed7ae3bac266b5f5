"""The echo of a device's own answer, taken out by the channel on which its card gives it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.edge.capture_listener import Listener

from auricle.errors import SettingsError
from auricle.hearing.sounds import in_room, room
from auricle_edge.listening.capture.conversion import Conversion
from auricle_edge.listening.capture.echo import BLOCK_SAMPLES, FILTER_PARTITIONS, EchoCanceller
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source
from auricle_edge.listening.sound import RATE

Samples = NDArray[np.int16]
MEMORY = (FILTER_PARTITIONS + 1) * BLOCK_SAMPLES
"""Samples after which nothing of a reference is left in the filter."""


def noise(seconds: float, level: float, seed: int, rate: int = RATE) -> Samples:
    """Noise that swells twice a second, as speech does."""
    samples = np.random.default_rng(seed).standard_normal(round(seconds * rate))
    swell = 0.2 + np.abs(np.sin(2 * np.pi * np.arange(len(samples)) / rate))
    return np.rint(level * samples * swell).astype(np.int16)


FAR, NEAR = noise(8, 3000, 0), noise(8, 500, 1)
RESPONSE = np.concatenate((np.zeros(40, np.float32), room(np.random.default_rng(2), (0.15, 0.15)) / 2))
ECHO = in_room(FAR.astype(np.float32), RESPONSE.astype(np.float32))[: len(FAR)]


def cancel(canceller: EchoCanceller, near: Samples, far: Samples) -> Samples:
    return np.concatenate((canceller.take(near, far), canceller.rest()))


def reduction(left: Samples, near: NDArray[np.float64], seconds: slice) -> float:
    """Decibels by which the echo is fainter than it was, in these seconds."""
    part = slice(seconds.start * RATE, seconds.stop * RATE)
    return float(10 * np.log10(np.sum(ECHO[part] ** 2) / np.sum((left[part] - near[part]) ** 2)))


def test_a_fixed_case_converges_alone_and_under_double_talk() -> None:
    """Alone it goes by 64 dB in the last seconds, and by 21.6 while somebody talks, 10 dB fainter than it."""
    alone = cancel(EchoCanceller(), np.rint(ECHO).astype(np.int16), FAR)
    assert reduction(alone, np.zeros(len(FAR)), slice(1, 2)) > 40
    assert reduction(alone, np.zeros(len(FAR)), slice(6, 8)) > 60
    talk = np.where(np.arange(len(NEAR)) < 4 * RATE, 0, NEAR).astype(np.float64)
    both = cancel(EchoCanceller(), np.rint(ECHO + talk).astype(np.int16), FAR)
    assert reduction(both, talk, slice(4, 8)) > 20


def test_a_silent_reference_changes_no_sample_before_and_after_an_answer() -> None:
    canceller, silence = EchoCanceller(), np.zeros_like(NEAR)
    np.testing.assert_array_equal(cancel(canceller, NEAR, silence), NEAR)
    cancel(canceller, np.rint(ECHO).astype(np.int16), FAR)
    np.testing.assert_array_equal(cancel(canceller, NEAR, silence), NEAR)
    ended = np.concatenate((FAR, silence))
    after = cancel(canceller, np.concatenate((np.rint(ECHO).astype(np.int16), NEAR)), ended)
    np.testing.assert_array_equal(after[len(FAR) + MEMORY :], NEAR[MEMORY:])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=20))
def test_the_same_sound_gives_the_same_samples_however_it_is_cut(cuts: list[int]) -> None:
    near, far = np.rint(ECHO[:16_100]).astype(np.int16) + NEAR[:16_100], FAR[:16_100]
    canceller, pieces, at = EchoCanceller(), list[Samples](), 0
    for size in [*cuts, len(near)]:
        pieces.append(canceller.take(near[at : at + size], far[at : at + size]))
        at = min(len(near), at + size)
    np.testing.assert_array_equal(np.concatenate([*pieces, canceller.rest()]), cancel(EchoCanceller(), near, far))


def test_what_was_learned_of_the_room_outlasts_a_gap() -> None:
    canceller, echo = EchoCanceller(), np.rint(ECHO).astype(np.int16)
    first = cancel(canceller, echo, FAR)
    again = cancel(canceller, echo, FAR)
    silent = np.zeros(len(FAR))
    assert reduction(again, silent, slice(0, 1)) > reduction(first, silent, slice(0, 1)) + 10


def test_full_scale_and_digital_silence_stay_finite() -> None:
    loud = np.where(FAR < 0, -32_768, 32_767).astype(np.int16)
    canceller = EchoCanceller()
    for near in (loud, np.zeros_like(loud), -(loud // 2)):
        assert len(cancel(canceller, near, loud)) == len(loud)
    assert np.isfinite(canceller._weights).all() and np.isfinite(canceller._uncertainty).all()


@pytest.mark.parametrize("rate", [RATE, 48_000])
def test_of_a_card_with_a_reference_the_rest_is_as_before(rate: int) -> None:
    """A silent reference gives the bytes of no reference; a playing one is not among what is listened to."""
    near = noise(2, 500, 3, rate)
    array = np.stack([near // 3, near, np.zeros_like(near)], axis=1).astype("<i2").tobytes()

    def converted(reference: tuple[int, EchoCanceller] | None) -> Samples:
        conversion = Conversion(rate, 3, 1, 20.0, reference)
        return np.concatenate((conversion.take(array), conversion.rest()))

    before = converted(None)
    np.testing.assert_array_equal(converted((2, EchoCanceller())), before)
    np.testing.assert_array_equal(converted((5, EchoCanceller())), before)
    assert len(before) == 2 * RATE


def test_a_source_takes_the_echo_out_and_says_where_it_has_no_such_channel(tmp_path: Path) -> None:
    array = np.stack([np.rint(ECHO).astype(np.int16), NEAR, FAR], axis=1)
    soundfile.write(tmp_path / "array.wav", array, RATE)
    for reference, note in ((2, None), (6, "has no channel 6, but 3 from 0 on: the echo of what it plays is not")):
        source = f"file:{tmp_path}/array.wav?pace=fast"
        with Listener(source, reference=reference, channel=0) as listener:
            listener.end()
        assert len(listener.sound) == len(FAR)
        quieter = np.std(listener.sound[6 * RATE :]) < 0.05 * np.std(ECHO[6 * RATE :])
        assert quieter == (note is None)
        said = listener.capture.state.note
        assert said == note if note is None else note in (said or "")


def test_beside_a_reference_the_first_other_channel_is_listened_to() -> None:
    assert CaptureSettings(reference=5).microphone == 0
    assert CaptureSettings(reference=0).microphone == 1
    assert CaptureSettings(reference=0, channel=3).microphone == 3
    assert CaptureSettings().microphone is None
    assert parse_source(CaptureSettings(reference=5)).least == 6
    assert parse_source(CaptureSettings(reference=0)).least == 2
    assert parse_source(CaptureSettings(reference=1, channel=4)).least == 5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"channels": 6, "reference": 6},
            "reference = 6 is not one of the source's: channels = 6 has channels 0 to 5.",
        ),
        ({"source": "fifo:x", "reference": 1}, "reference = 1 is not one of the source's: channels = 1 has channel 0"),
        ({"channel": 5, "reference": 5}, "reference = 5 is the channel that is listened to"),
        ({"source": "fifo:x", "reference": 0}, "reference = 0 leaves no channel to listen to"),
    ],
)
def test_a_reference_that_cannot_be_one_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        parse_source(CaptureSettings(**settings))  # type: ignore[arg-type]
