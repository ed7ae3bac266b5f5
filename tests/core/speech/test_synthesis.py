"""Synthetic speech: the same for a seed, different between speakers, and speech at all."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import DataError, SettingsError
from auricle.speech import espeak, synthesis
from auricle.speech.speech_set import SpeechSet, to_float
from auricle.speech.synthesis import SynthesisSettings, background_noise, synthesise
from auricle.speech.voices import choose_voices
from auricle.speech.words import ALL_WORDS

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")

_CLEAN = SynthesisSettings("yes,six,forward", speakers=6, takes=2, snr_low=60, snr_high=60)


@pytest.fixture(scope="module")
def clean() -> SpeechSet:
    return synthesise(_CLEAN)


def test_every_speaker_says_every_word_and_no_clip_is_silent_or_clipped(clean: SpeechSet) -> None:
    assert clean.audio.shape == (36, 16_000)
    assert clean.clips_per_label() == {"yes": 12, "six": 12, "forward": 12}
    assert clean.clips_per_speaker().tolist() == [6] * 6
    assert len(clean.noise) == 8
    audio = to_float(clean.audio)
    assert np.sqrt(np.mean(audio**2, axis=1)).min() > 0.01
    assert np.abs(audio).max() < 0.99


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(clean: SpeechSet) -> None:
    again = synthesise(_CLEAN)
    other = synthesise(SynthesisSettings("yes,six,forward", 6, 2, 60, 60, seed=1))
    assert (again.audio == clean.audio).all()
    assert again.speaker_names == clean.speaker_names
    assert other.audio.shape == clean.audio.shape
    assert (other.audio != clean.audio).any()


def test_a_phrase_of_two_words_is_said_whole_in_a_window_of_1600_ms() -> None:
    phrase = SynthesisSettings("hey jarvis,stop,_silence_", 3, 2, 60, 60, clip_samples=25_600)
    speech = synthesise(phrase)
    assert speech.audio.shape == (18, 25_600)
    assert speech.cut == {}
    seconds = {}
    for place, label in enumerate(speech.labels[:2]):
        loud = np.abs(to_float(speech.audio[speech.targets == place])) > 0.02
        seconds[label] = np.mean([np.ptp(np.flatnonzero(row)) / 16_000 for row in loud])
    assert 1.6 > seconds["hey jarvis"] > 1.2 * seconds["stop"]
    short = synthesise(replace(phrase, clip_samples=8_000))
    assert 0 < short.cut["hey jarvis"] <= 6
    assert "stop" not in short.cut


def test_the_words_of_a_phrase_alone_are_other_words() -> None:
    assert {"hey", "jarvis"} <= set(synthesis.other_words(("hey jarvis", "stop", "_unknown_")))
    assert not {"jarvis", "stop"} & set(synthesis.other_words(("hey jarvis", "jarvis", "stop")))
    assert synthesis.other_words(("yes",)) == sorted(set(ALL_WORDS) - {"yes"})


def test_fewer_speakers_are_the_first_of_more(clean: SpeechSet) -> None:
    fewer = synthesise(SynthesisSettings("yes,six,forward", 2, 2, 60, 60))
    for place, name in enumerate(fewer.speaker_names):
        more = clean.audio[clean.speakers == clean.speaker_names.index(name)]
        assert (fewer.audio[fewer.speakers == place] == more).all()


def test_takes_and_speakers_sound_different(clean: SpeechSet) -> None:
    spectra = np.abs(np.fft.rfft(to_float(clean.audio), axis=1))[:, :4_000]
    spectra = spectra.reshape(len(spectra), 100, 40).mean(axis=2)
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    alike = spectra @ spectra.T
    assert np.triu(alike, 1).max() < 0.9999
    words = clean.targets[:, None] == clean.targets[None]
    speakers = clean.speakers[:, None] == clean.speakers[None]
    assert alike[words & speakers].mean() > alike[words & ~speakers].mean() > alike[~words & ~speakers].mean()


def test_a_long_word_takes_longer_than_a_short_one(clean: SpeechSet) -> None:
    seconds = (np.abs(to_float(clean.audio)) > 0.02).mean(axis=1)
    assert np.median(seconds[clean.targets == 2]) > np.median(seconds[clean.targets == 0])


def test_special_labels_are_as_frequent_as_a_word() -> None:
    calls: list[tuple[int, int]] = []
    speech = synthesise(SynthesisSettings("gsc12", speakers=2, takes=2), progress=lambda *step: calls.append(step))
    assert set(speech.clips_per_label().values()) == {4}
    assert speech.labels[-2:] == ("_unknown_", "_silence_")
    assert calls == [(1, 2), (2, 2)]
    assert speech.audio.any(axis=1).all()


def test_unknown_may_be_spoken_more_often_than_a_word_and_words_of_ones_own_are_spoken() -> None:
    speech = synthesise(SynthesisSettings("yes,auricle,_unknown_", speakers=2, takes=1, other_takes=7))
    assert speech.clips_per_label() == {"yes": 2, "auricle": 2, "_unknown_": 14}


def test_there_are_at_least_64_speakers_and_each_is_named_once() -> None:
    voices = choose_voices(600, seed=0)
    assert len({(voice.accent, voice.variant) for voice in voices}) == 600
    assert len({voice.name for voice in voices}) == 600
    assert len({voice.variant for voice in voices[:64]}) == 64
    assert not {voice.variant for voice in voices} & {"f2", "f3", "f5", "Alicia", "sandro", "victor"}
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in (voice.name for voice in voices))


def test_noise_has_its_colour() -> None:
    white, pink, brown, babble, *_ = (
        np.abs(np.fft.rfft(sound)) for sound in background_noise(np.random.default_rng(0))
    )

    def tilt(spectrum: np.ndarray) -> float:
        """Give the loss in dB from 500 to 2000 Hz: two octaves."""
        return float(20 * np.log10(spectrum[2_250:2_750].mean() / spectrum[9_000:11_000].mean()))

    assert [tilt(white), tilt(pink), tilt(brown)] == pytest.approx([0, 6, 12], abs=0.7)
    assert tilt(babble) > 6


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        *(({name: 0}, f"{name} is 0") for name in ("speakers", "takes", "other_takes")),
        ({"seed": -1}, "seed is -1"),
        *(({"snr_low": low}, "low to high") for low in (30.0, float("nan"))),
        ({"words": "gsc36"}, 'did you mean "gsc35"'),
        ({"words": "yes,N0"}, '"N0"'),
        ({"words": ",".join([*synthesis.ALL_WORDS, "_unknown_"])}, "no word left"),
        ({"speakers": 100_000}, "100000"),
    ],
)
def test_what_cannot_be_synthesised_is_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        synthesise(SynthesisSettings(**settings))  # type: ignore[arg-type]


def test_without_the_wheel_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    monkeypatch.setattr(espeak, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install"):
        synthesise(SynthesisSettings())


def _loader(folder: Path, library: str, data: str) -> None:
    """Put a module in the way of the real loader that names another library or data."""
    (folder / "espeakng_loader.py").write_text(
        f"def get_library_path(): return {library!r}\ndef get_data_path(): return {data!r}\n"
    )


def test_a_library_that_does_not_load_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import espeakng_loader

    library = tmp_path / "libespeak-ng.so"
    library.write_bytes(b"for another processor")
    _loader(tmp_path, str(library), espeakng_loader.get_data_path())
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:" + ":".join(sys.path))
    with pytest.raises(DataError, match="library cannot be loaded"):
        synthesise(SynthesisSettings("yes,no", speakers=1, takes=1))


def test_a_path_too_long_for_espeak_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean: SpeechSet
) -> None:
    import espeakng_loader

    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    (deep / "espeak-ng-data").symlink_to(espeakng_loader.get_data_path())
    _loader(tmp_path, espeakng_loader.get_library_path(), str(deep / "espeak-ng-data"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:" + ":".join(sys.path))
    assert (synthesise(_CLEAN).audio == clean.audio).all()


def test_a_voice_that_does_not_exist_is_refused() -> None:
    worker = [sys.executable, "-m", "auricle.speech.espeak_worker"]
    asked = b'{"voice": "xx-nowhere", "utterances": []}'
    answer = subprocess.run(worker, input=asked, capture_output=True, check=False)
    assert answer.returncode == 1
    assert b"xx-nowhere" in answer.stderr
