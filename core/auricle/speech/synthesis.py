"""The default speech: synthesised by espeak-ng when a fleet starts, one process a speaker."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN
from auricle.speech.audio import CLIP_SAMPLES, SAMPLE_RATE, fit_clip, share_kept
from auricle.speech.espeak import speak
from auricle.speech.speech_set import (
    CUT_SHARE,
    Progress,
    SpeechSet,
    build_speech_set,
    set_without_sound,
    silence_clips,
    to_int16,
)
from auricle.speech.voices import Voice, choose_voices, utterance
from auricle.speech.words import ALL_WORDS, WORD_SETS, select_words

SOURCE = "the synthetic speech"
"""What messages call this data."""

SPEECH_RMS = 10 ** (-23 / 20)
"""The level of a take over its length, of full scale: -23 dBFS."""

PEAK = 0.98
"""The highest sample that is written, of full scale."""

_SPOKEN_WORDS = re.compile(r"[a-z]+(?:['-][a-z]+)*(?: [a-z]+(?:['-][a-z]+)*)*")
_NOISE_KINDS = 4
_NOISE_RECORDINGS = 8
_NOISE_SECONDS = 5
_SHIFT_SAMPLES = int(0.15 * SAMPLE_RATE)
_GAIN_DB = 6.0


MOST_SPEAKERS = 1_000_000
"""Speakers, takes and whatever else is counted: more is a slip of the hand."""


@dataclass(frozen=True, slots=True)
class SynthesisSettings:
    """What to synthesise; the same settings give the same bytes on one machine."""

    words: str = "gsc35"
    """As `select_words` takes it; words and phrases of one's own may be named, in small English letters."""

    speakers: int = 64
    """How many different speakers; the first n are the same whatever the number."""

    takes: int = 3
    """How often each speaker says each word, every time a little differently."""

    snr_low: float = 0.0
    """The loudest noise, in dB of speech over noise."""

    snr_high: float = 20.0
    """The softest noise, in dB of speech over noise."""

    seed: int = 0
    """Decides who speaks, how, and over which noise."""

    other_takes: int | None = None
    """How many other words each speaker says for `_unknown_`; None for as many as takes of one word."""

    clip_samples: int = CLIP_SAMPLES
    """Samples of a clip at 16 kHz: as many as the pack takes."""

    def __post_init__(self) -> None:
        for name, value in (
            ("speakers", self.speakers),
            ("takes", self.takes),
            ("other_takes", 1 if self.other_takes is None else self.other_takes),
        ):
            if not 1 <= value <= MOST_SPEAKERS:
                raise SettingsError(f"{name} is {value}: it has to be 1 to {MOST_SPEAKERS:,}.")
        if self.seed < 0:
            raise SettingsError(f"seed is {self.seed} and must not be negative.")
        if not (np.isfinite([self.snr_low, self.snr_high]).all() and self.snr_low <= self.snr_high):
            raise SettingsError(f"The noise range {self.snr_low} to {self.snr_high} dB must go from low to high.")


def synthesise(settings: SynthesisSettings, progress: Progress | None = None) -> SpeechSet:
    """Let every speaker say every word, and put each take into a clip with noise, shift and gain.

    The speech of a take has -23 dBFS RMS before a gain of up to 6 dB either way; the noise, white, pink, brown or
    babble, lies `snr_low` to `snr_high` dB below it. `_unknown_` is spoken with the words not chosen and `_silence_`
    is noise alone, both as often as a word unless `other_takes` says otherwise for `_unknown_`.

    Parameters
    ----------
    settings
        What to synthesise.
    progress
        Called after every speaker with the speakers done and the speakers in all.

    Raises
    ------
    SettingsError
        A word cannot be spoken or there are fewer voices than speakers.
    DataError
        espeak-ng is not there or fails on this machine.
    """
    labels = _labels(settings)
    voices = choose_voices(settings.speakers, settings.seed)
    pool = background_noise(np.random.default_rng([settings.seed, 0]))
    audio: list[NDArray[np.int16]] = []
    clip_labels: list[str] = []
    clip_speakers: list[str] = []

    cut: Counter[str] = Counter()

    def speak(place: int) -> tuple[NDArray[np.int16], list[str], list[str]]:
        return _speak_all(voices[place], labels, settings, pool, np.random.default_rng([settings.seed, 1, place]))

    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        try:
            for place, (clips, names, too_long) in enumerate(workers.map(speak, range(len(voices)))):
                audio.append(clips)
                clip_labels += names
                cut.update(too_long)
                clip_speakers += [voices[place].name] * len(names)
                if progress:
                    progress(place + 1, len(voices))
        finally:
            workers.shutdown(cancel_futures=True)
    noise = background_noise(np.random.default_rng([settings.seed, 2]))
    return build_speech_set(labels, np.concatenate(audio), clip_labels, clip_speakers, noise=noise, cut=cut)


def list_synthesis(settings: SynthesisSettings) -> SpeechSet:
    """Whose clips of what `synthesise` would make, without making a sound; errors as of that."""
    labels = _labels(settings)
    names = [voice.name for voice in choose_voices(settings.speakers, settings.seed)]
    said = [
        label
        for label in labels
        for _ in range(settings.takes if label != UNKNOWN else settings.other_takes or settings.takes)
    ]
    return set_without_sound(labels, said * len(names), [name for name in names for _ in said], settings.clip_samples)


def background_noise(rng: np.random.Generator) -> tuple[NDArray[np.float32], ...]:
    """Make recordings of white, pink, brown and babble noise, two of each, 5 seconds long, RMS 0.1.

    The first three are noise with a power of 1, 1/f and 1/f^2 over 50 Hz; babble is six voices' worth of noise with the
    long-term spectrum of speech, each swelling and fading at 2 to 6 syllables a second.
    """
    return tuple(_noise(number % _NOISE_KINDS, rng) for number in range(_NOISE_RECORDINGS))


def _labels(settings: SynthesisSettings) -> tuple[str, ...]:
    spec = settings.words
    named = [] if spec in WORD_SETS or ":" in spec else [word.strip() for word in spec.split(",")]
    own = [word for word in named if len(named) > 1 and _SPOKEN_WORDS.fullmatch(word)]
    clips = settings.speakers * settings.takes
    labels = select_words(spec, dict.fromkeys([*ALL_WORDS, *own], clips), where=SOURCE, min_clips=1)
    if UNKNOWN in labels and not other_words(labels):
        raise SettingsError(f"{SOURCE.capitalize()} has no word left for {UNKNOWN}: take it out of --words.")
    return labels


def other_words(labels: Sequence[str]) -> list[str]:
    """What `_unknown_` is spoken with: the words not chosen, and those that a phrase among the labels is made of."""
    parts = {word for label in labels if " " in label for word in label.split()}
    return sorted({*ALL_WORDS, *parts} - set(labels))


def _speak_all(
    voice: Voice,
    labels: tuple[str, ...],
    settings: SynthesisSettings,
    pool: tuple[NDArray[np.float32], ...],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int16], list[str], list[str]]:
    """Make one speaker's clips (clips, clip_samples), the label of each, and the labels of those that are cut."""
    said = [(label, label) for label in labels if label not in SPECIAL_LABELS for _ in range(settings.takes)]
    if UNKNOWN in labels:
        others = other_words(labels)
        count = settings.takes if settings.other_takes is None else settings.other_takes
        said += [(UNKNOWN, others[place]) for place in rng.integers(len(others), size=count)]
    words = [word for _, word in said]
    takes = list(speak(voice.espeak_name, [utterance(voice, word, rng) for word in words]))
    clips = [_mix(take, settings, pool, rng) for take in takes]
    clip_labels = [label for label, _ in said]
    of_words = ((label, take) for label, take in zip(clip_labels, takes, strict=True) if label != UNKNOWN)
    cut = [label for label, take in of_words if _is_cut(take, settings.clip_samples)]
    if SILENCE in labels:
        clips += list(silence_clips(pool, settings.takes, rng, settings.clip_samples))
        clip_labels += [SILENCE] * settings.takes
    return np.stack(clips), clip_labels, cut


def _is_cut(take: NDArray[np.float32], length: int) -> bool:
    return len(take) > length and share_kept(take, fit_clip(take, length)) < 1 - CUT_SHARE


def _mix(
    speech: NDArray[np.float32],
    settings: SynthesisSettings,
    pool: tuple[NDArray[np.float32], ...],
    rng: np.random.Generator,
) -> NDArray[np.int16]:
    """Put a word into a clip of noise: (clip_samples,)."""
    length = settings.clip_samples
    speech = fit_clip(speech * np.float32(SPEECH_RMS / _rms(speech)), min(len(speech), length))
    spare = length - len(speech)
    start = int(np.clip(spare // 2 + rng.integers(-_SHIFT_SAMPLES, _SHIFT_SAMPLES + 1), 0, spare))
    recording = pool[int(rng.integers(len(pool)))]
    cut = int(rng.integers(len(recording) - length + 1))
    noise = recording[cut : cut + length]
    noise_rms = SPEECH_RMS * 10 ** (-rng.uniform(settings.snr_low, settings.snr_high) / 20)
    clip = noise * np.float32(noise_rms / _rms(noise))
    clip[start : start + len(speech)] += speech
    clip *= np.float32(10 ** (rng.uniform(-_GAIN_DB, _GAIN_DB) / 20))
    peak = float(np.abs(clip).max())
    return to_int16(clip * np.float32(min(1.0, PEAK / peak)))


def _noise(kind: int, rng: np.random.Generator) -> NDArray[np.float32]:
    length = _NOISE_SECONDS * SAMPLE_RATE
    frequency = np.maximum(np.fft.rfftfreq(length, 1 / SAMPLE_RATE), 50.0)
    if kind < 3:
        sound = _shape_noise(frequency ** (-kind / 2), length, rng)
    else:
        speech_like = 1 / (1 + (frequency / 500) ** 1.5)
        sound = np.sum([_shape_noise(speech_like, length, rng) * _syllables(length, rng) for _ in range(6)], axis=0)
    return (sound * (0.1 / _rms(sound))).astype(np.float32)


def _shape_noise(amplitude: NDArray[np.float64], length: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.fft.irfft(np.fft.rfft(rng.standard_normal(length)) * amplitude, length)


def _syllables(length: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Give an envelope between 0 and 1 that swells 2 to 6 times a second."""
    seconds = np.arange(length) / SAMPLE_RATE
    return np.asarray(0.5 + 0.5 * np.sin(2 * np.pi * (rng.uniform(2, 6) * seconds + rng.uniform())))


def _rms(sound: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.mean(np.square(sound, dtype=np.float64))))
