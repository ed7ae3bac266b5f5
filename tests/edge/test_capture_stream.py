"""Frames of the child, their places among all samples, their conversion, and the judgement whether they are sound."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.blocks import Heartbeat, Timeline
from auricle_edge.listening.capture.conversion import Conversion, Meter
from auricle_edge.listening.capture.frames import Failed, FrameReader, Opened, Sound

RNG = np.random.default_rng(3)


def frame(samples: NDArray[np.int16], first: int = 0, lost: bool = False, at: float = 1.0, rate: int = 16_000) -> Sound:
    """A frame of one channel."""
    return Sound(samples.tobytes(), rate, 1, first, lost, at)


def noise(size: int = 800) -> NDArray[np.int16]:
    return RNG.integers(-3000, 3000, size).astype(np.int16)


@given(st.lists(st.integers(1, 5000), max_size=10))
def test_frames_come_out_as_they_went_in_however_the_pipe_cuts_them(cuts: list[int]) -> None:
    sounds = [noise(size) for size in (1, 800, 4000)]
    stream = child_parts.text(child_parts.OPENED, b'{"device":"d","rate":16000,"channels":1}', 1.0)
    stream += b"".join(child_parts.sound(s.tobytes(), 1, 16_000, 7, True, 2.5) for s in sounds)
    stream += child_parts.text(child_parts.FAILED, b'{"reason":"r","sentence":"s"}', 3.0)
    reader, frames, at = FrameReader(), [], 0
    for cut in [*cuts, len(stream)]:
        frames += reader.feed(stream[at : at + cut])
        at += cut
    assert frames[0] == Opened("d", 16_000, 1)
    assert frames[1:-1] == [Sound(s.tobytes(), 16_000, 1, 7, True, 2.5) for s in sounds]
    assert frames[-1] == Failed("r", "s")


@given(st.binary(min_size=child_parts.HEADER.size, max_size=200))
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        FrameReader().feed(data if data[:4] != child_parts.MAGIC else b"x" + data)


@pytest.mark.parametrize(
    "header",
    [
        (b"AUC1", 1, 0, 0, 16_000, 10, 0, 1.0),
        (b"AUC1", 1, 0, 99, 16_000, 10, 0, 1.0),
        (b"AUC1", 1, 0, 1, 16_000, 16_001, 0, 1.0),
        (b"AUC1", 1, 0, 1, 16_000, 0, 0, 1.0),
        (b"AUC1", 1, 0, 1, 400_000, 10, 0, 1.0),
        (b"AUC1", 1, 0, 1, 16_000, 10, 0, float("nan")),
        (b"AUC1", 1, 0, 1, 16_000, 10, 0, 1e12),
        (b"AUC1", 9, 0, 1, 16_000, 10, 0, 1.0),
        (b"AUC1", 2, 0, 0, 0, 1 << 17, 0, 1.0),
    ],
    ids=["no channel", "channels", "over a second", "empty", "rate", "no time", "future", "kind", "long text"],
)
def test_a_header_out_of_bounds_is_refused_before_its_bytes_are_kept(header: tuple[object, ...]) -> None:
    with pytest.raises(WireError):
        FrameReader().feed(child_parts.HEADER.pack(*header))


def test_a_message_that_is_not_what_its_kind_says_is_refused() -> None:
    with pytest.raises(WireError):
        FrameReader().feed(child_parts.text(child_parts.OPENED, b'{"device":1}', time.monotonic()))


def test_sound_that_was_lost_moves_the_places_on_by_its_time() -> None:
    timeline = Timeline()
    first = frame(noise(1600), 0, at=10.1)
    assert timeline.gap(first) == 0
    timeline.heard(first)
    assert timeline.gap(frame(noise(1600), 1600, at=10.3)) == 0  # late, but nothing is missing
    assert timeline.gap(frame(noise(1600), 3200, at=10.3)) == pytest.approx(0.1)  # one dropped
    assert timeline.gap(frame(noise(1600), 1600, True, at=10.7)) == pytest.approx(0.5)  # overrun: by the clock
    timeline.renew()
    assert timeline.gap(frame(noise(1600), 0, at=13.2)) == pytest.approx(3.0)  # a new child
    timeline.skip(3.0)
    assert timeline.next == 48_000


@pytest.mark.parametrize("period", [1, 37, 480, 800, 1000, 12_000])
def test_sound_that_repeats_with_any_period_up_to_a_second_is_frozen(period: int) -> None:
    heartbeat = Heartbeat(3.0)
    ring = np.resize(noise(period), 16_000 * 8)
    found = [heartbeat.fault(frame(ring[at : at + 800])) for at in range(0, len(ring), 800)]
    assert found.index("frozen") * 0.05 == pytest.approx(2.95 + period / 16_000, abs=0.1)


def test_zeros_for_three_seconds_are_a_fault_and_a_restart_that_does_not_help_makes_patient() -> None:
    heartbeat, zeros = Heartbeat(3.0), frame(np.zeros(1600, np.int16))

    def patience() -> int:
        heartbeat.renew()
        return next(i for i in range(1, 2000) if heartbeat.fault(zeros) == "zeros")

    assert [patience() for _ in range(6)] == [30, 60, 120, 240, 480, 600]
    assert heartbeat.fault(frame(noise())) is None
    heartbeat.renew()
    for _ in range(3):
        heartbeat.fault(frame(noise()))
    assert patience() == 30


def test_an_overrun_now_and_then_does_not_hide_a_frozen_device() -> None:
    heartbeat, ring = Heartbeat(3.0), noise(800)
    found = [heartbeat.fault(frame(np.roll(ring, i // 30 * 11), lost=i % 30 == 0)) for i in range(150)]
    assert "frozen" in found


def test_noise_and_short_silence_are_no_fault() -> None:
    heartbeat = Heartbeat(3.0)
    for _ in range(5):
        assert not any(heartbeat.fault(frame(np.zeros(800, np.int16))) for _ in range(40))
        assert not any(heartbeat.fault(frame(noise())) for _ in range(20))
    assert all(Heartbeat(0).fault(frame(np.zeros(800, np.int16))) is None for _ in range(200))


def test_the_mean_of_the_channels_or_one_of_them_is_heard() -> None:
    stereo = np.array([[100, 300], [-5, -6], [32767, 32767]], "<i2")
    assert Conversion(16_000, 2, None).take(stereo.tobytes()).tolist() == [200, -6, 32767]
    assert Conversion(16_000, 2, 1).take(stereo.tobytes()).tolist() == [300, -6, 32767]
    assert Conversion(16_000, 2, 9).take(stereo.tobytes()).tolist() == [300, -6, 32767]


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000, 96_000])
def test_a_tone_keeps_its_pitch_length_and_place_at_every_rate(rate: int) -> None:
    pytest.importorskip("soxr")
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype("<i2")
    conversion = Conversion(rate, 1, None)
    parts = [conversion.take(part.tobytes()) for part in np.array_split(tone, 20)]
    heard = np.concatenate([*parts, conversion.rest()])
    expected = 8000 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert abs(len(heard) - 16_000) <= 1
    assert np.abs(heard[800:15_000] - expected[800:15_000]).max() < 40


def test_level_and_clipping_are_those_of_a_full_scale_square_wave() -> None:
    meter = Meter()
    for _ in range(1000):
        meter.take(frame(np.tile(np.array([32767, -32768], np.int16), 400)))
    assert meter.level_dbfs == pytest.approx(0.0, abs=0.1)
    assert meter.clipping == pytest.approx(1.0, abs=0.01)
    quiet = Meter()
    quiet.take(frame(np.zeros(800, np.int16)))
    assert (quiet.level_dbfs, quiet.clipping) == (-120.0, 0.0)
