"""What is taken out of the sound, and what is told of the microphone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.listening.capture.conversion import CHUNK_SAMPLES, Conversion, HighPass
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.capture.levels import LevelMeter, Levels
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.microphone_check import examine_levels, examine_state
from auricle_learning.runtimes import recogniser

NOISE = np.random.default_rng(2).integers(-3000, 3000, 4000).astype(np.int16)


def tone(hz: float, level: float = 8000.0, seconds: float = 1.0, rate: int = 16_000) -> NDArray[np.int16]:
    return np.rint(level * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(np.int16)


# -- the filter


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=30))
def test_the_same_sound_gives_the_same_samples_however_it_is_cut(cuts: list[int]) -> None:
    whole, cut, pieces, at = HighPass(20.0), HighPass(20.0), [], 0
    for size in [*cuts, len(NOISE)]:
        pieces.append(cut.take(NOISE[at : at + size]))
        at = min(len(NOISE), at + size)
    np.testing.assert_array_equal(np.concatenate(pieces), whole.take(NOISE))


def test_it_is_the_recursion_that_it_says() -> None:
    tangent = np.tan(np.pi * 40 / 16_000)
    pole = (1 - tangent) / (1 + tangent)
    carried, before, expected = 0.0, float(NOISE[0]), []
    for sample in NOISE[: 2 * CHUNK_SAMPLES + 5].astype(float):
        carried, before = pole * carried + (1 + pole) / 2 * (sample - before), sample
        expected.append(round(carried))
    assert HighPass(40.0).take(NOISE[: 2 * CHUNK_SAMPLES + 5]).tolist() == expected


def test_an_offset_is_gone_from_the_first_sample_and_a_tone_at_the_cutoff_loses_three_decibels() -> None:
    assert not HighPass(20.0).take(np.full(4000, 9000, np.int16)).any()
    for hz, factor in ((80.0, 0.5**0.5), (8.0, 0.0995), (1000.0, 0.9968)):
        passed = HighPass(80.0).take(tone(hz, seconds=3.0))[16_000:].astype(float)
        assert passed.std() / tone(hz, seconds=3.0)[16_000:].std() == pytest.approx(factor, abs=0.003)
    loud = HighPass(20.0).take(np.concatenate([np.full(100, -32_768), np.full(100, 32_767)]).astype(np.int16))
    assert loud.max() == 32_767


def test_sound_is_filtered_after_its_conversion_and_by_default() -> None:
    assert CaptureSettings().high_pass == 20.0
    stereo = np.stack([tone(440) + 4000, tone(440) + 2000], axis=1).astype("<i2")
    plain, filtered = Conversion(16_000, 2, None), Conversion(16_000, 2, None, 20.0)
    assert plain.take(stereo.tobytes()).mean() == pytest.approx(3000, abs=1)
    assert abs(filtered.take(stereo.tobytes())[4000:].mean()) < 20


def test_posteriors_of_clean_speech_hardly_change() -> None:
    """Ten words of a synthetic voice by the shipped plug-in: what is heard stays, posteriors move by less than 0.02."""
    pytest.importorskip("espeakng_loader")
    pack = load_pack("gsc12")
    weights = choose_weights(None, pack, pack.manifest.plugin, 0)
    assert weights is not None
    recognise = recogniser(choose_runtime("auto", pack).runtime, pack.manifest.plugin, weights)
    speech = synthesise(SynthesisSettings(words="yes,no,up,down,left,right,on,off,stop,go", speakers=1, takes=2))
    frontend = LogMel(pack.manifest.task)
    plain = recognise(frontend(speech.audio))
    filtered = recognise(frontend(np.stack([HighPass(20.0).take(clip) for clip in speech.audio])))
    change = np.abs(plain - filtered).max(axis=1)
    print(f"{len(change)} clips: mean change {change.mean():.4f}, largest {change.max():.3f}")
    assert change.mean() < 0.02
    assert np.mean(plain.argmax(axis=1) == filtered.argmax(axis=1)) > 0.95


# -- what is told


def heard(samples: NDArray[np.int16], rate: int = 16_000, channels: int = 1, channel: int | None = None) -> Levels:
    """Levels of sound in frames of 50 ms."""
    meter, size = LevelMeter(channel), rate // 20 * channels
    for at in range(0, len(samples), size):
        meter.take(Sound(samples[at : at + size].astype("<i2").tobytes(), rate, channels, at // channels, False, 1.0))
    return meter.levels


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("mains", [50, 60])
def test_hum_is_told_apart_at_every_rate(rate: int, mains: int) -> None:
    """Mains of 1000 and two harmonics of 500 in noise of 612 (a square from -1060 to 1060): power 500000 + 250000 of
    1124544, so two thirds."""
    size = 2 * rate
    noise = np.random.default_rng(0).uniform(-1060, 1060, size)
    waves = (tone(mains * n, 1000 if n == 1 else 500, 2.0, rate) for n in (1, 2, 3))
    levels = heard((noise + sum(waves)).astype(np.int16), rate)
    assert levels.hum_hz == mains
    assert levels.hum_share == pytest.approx(0.667, abs=0.03)


def test_the_floor_is_the_quietest_tenth_and_the_offset_counts_for_nothing_in_it() -> None:
    """A square wave of 33 is at 20 log10(33 / 32768) = -59.9 dBFS; 3277 is a tenth of full scale."""
    sound = np.full(32_000, 3277.0) + np.tile([3000.0, -3000.0], 16_000)
    sound[20_800:24_000] = 3277 + np.tile([33.0, -33.0], 1600)
    levels = heard(sound.astype(np.int16))
    assert levels.noise_floor_dbfs == -59.9
    assert levels.dc_offset == pytest.approx(0.1, abs=0.001)


def test_the_channel_that_is_listened_to_is_measured() -> None:
    stereo = np.stack([np.full(16_000, 8192), np.zeros(16_000)], axis=1).astype(np.int16).ravel()
    assert [heard(stereo, channels=2, channel=channel).dc_offset for channel in (0, 1, None)] == [0.25, 0.0, 0.125]


def test_before_a_second_and_across_a_gap_nothing_is_said() -> None:
    assert heard(NOISE) == Levels()
    assert examine_levels(Levels()) == []


@pytest.mark.parametrize(
    ("levels", "check"),
    [
        (Levels(-50.0, 0.0, 0.7, 50), ["hum"]),
        (Levels(-50.0, -0.05, 0.1, 50), ["offset"]),
        (Levels(-30.0, 0.0, 0.1, 60), ["noise"]),
        (Levels(-50.0, 0.01, 0.4, 60), []),
        (Levels(-75.0, 0.0, 0.9, 50), []),
    ],
    ids=["hums", "offset", "noisy", "in order", "hum that nobody hears"],
)
def test_what_is_wrong_is_said_with_what_to_do(levels: Levels, check: list[str]) -> None:
    assert [each.check for each in examine_levels(levels) if each.verdict != "good"] == check


def test_a_running_service_is_judged_by_its_state() -> None:
    state = CaptureState(
        running=True, level_dbfs=-70.0, clipping=0.01, noise_floor_dbfs=-45.0, dc_offset=0.3, hum_share=0.8, hum_hz=60
    )
    doubtful = dict.fromkeys(("level", "clipping", "offset", "hum"), "doubtful")
    assert {found.check: found.verdict for found in examine_state(state)} == {**doubtful, "noise": "good"}
