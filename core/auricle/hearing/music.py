"""Music made of nothing but numbers: chords, a bass, a tune and drums, by several instruments' timbres.

It stands in where there are no recordings, and is no more than that: nobody sings words, no room was recorded, and no
player is late. Tempo, key, mode, chords, rhythm and instruments are drawn from the generator that is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from auricle.hearing.sounds import Sound
from auricle.speech.audio import SAMPLE_RATE

_MODES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10))
"""Semitones of a major and of a minor scale."""
_CHORDS = ((0, 4, 5, 3), (0, 5, 3, 4), (5, 3, 0, 4), (0, 3, 4, 3), (1, 4, 0, 5), (0, 6, 5, 4))
"""Degrees of the scale on which a bar's chord stands, from bar to bar."""
_VOWELS = ((700.0, 1200.0, 2600.0), (300.0, 2300.0, 3000.0), (400.0, 800.0, 2600.0), (500.0, 1800.0, 2500.0))
"""Hz at which a singer's tract is loudest."""
_TEMPO_BPM = (66.0, 160.0)
_RELEASE_SECONDS = 0.12
_HIGHEST_HZ = 7600.0
_MOST_HARMONICS = 30


@dataclass(frozen=True)
class Timbre:
    """How an instrument sounds."""

    slope: float
    """Harmonic n has n^-slope of the first one's amplitude."""
    attack: float
    """Seconds until a note is there."""
    decay: float = 0.0
    """Seconds in which the first harmonic falls to a third, higher ones faster; 0: it lasts."""
    even: float = 1.0
    """By what even harmonics are multiplied: a clarinet has next to none."""
    vibrato: float = 0.0
    """Largest relative change of the pitch, 5.5 times a second."""
    breath: float = 0.0
    """Of noise beside the tone."""
    sings: bool = False
    """Each note is a vowel."""


PIANO, GUITAR, ORGAN = Timbre(1.3, 0.005, 0.7), Timbre(1.0, 0.003, 0.35), Timbre(1.1, 0.02)
STRINGS, BRASS = Timbre(1.0, 0.12, vibrato=0.004), Timbre(0.7, 0.04, vibrato=0.002)
FLUTE, CLARINET = Timbre(2.2, 0.05, vibrato=0.005, breath=0.03), Timbre(1.1, 0.03, even=0.1)
VOICE, BASS = Timbre(0.8, 0.06, vibrato=0.01, breath=0.01, sings=True), Timbre(1.6, 0.008, 0.5)
_ACCOMPANIES = (PIANO, GUITAR, ORGAN, STRINGS)
_LEADS = (PIANO, GUITAR, STRINGS, BRASS, FLUTE, CLARINET, VOICE, VOICE)


def make_music(rng: np.random.Generator, seconds: float) -> Sound:
    """A piece of so many seconds, (samples,) at 16 kHz, with peaks below 1."""
    band = _Band(rng, round(seconds * SAMPLE_RATE))
    tempo, scale = rng.uniform(*_TEMPO_BPM), _MODES[int(rng.integers(len(_MODES)))]
    beat, key = 60 / tempo, int(rng.integers(12)) + 48
    degrees = _CHORDS[int(rng.integers(len(_CHORDS)))]
    style, has_drums, has_bass, has_tune = int(rng.integers(3)), *(rng.random(3) < (0.7, 0.8, 0.85))
    accompanies, leads = (of[int(rng.integers(len(of)))] for of in (_ACCOMPANIES, _LEADS))
    place, pulse = 0.0, int(rng.integers(1, 3))
    step = 7
    while place < seconds:
        for degree in degrees:
            chord = [key + _pitch(scale, degree + third) for third in (0, 2, 4)]
            _accompany(band, chord, accompanies, place, beat, style)
            if has_bass:
                for number in range(4 * pulse):
                    band.play(chord[0] - 12, 0.9 / pulse * beat, BASS, place + number * beat / pulse, 0.9)
            if has_tune:
                step = _tune(band, rng, [key + _pitch(scale, n) for n in range(15)], leads, place, beat, step)
            if has_drums:
                _drum(band, place, beat)
            place += 4 * beat
    return band.mix()


def _pitch(scale: tuple[int, ...], degree: int) -> int:
    octave, within = divmod(degree, len(scale))
    return 12 * octave + scale[within]


def _accompany(band: _Band, chord: list[int], timbre: Timbre, place: float, beat: float, style: int) -> None:
    """A bar of a chord: held, struck on every second beat, or broken into eighths."""
    if style == 2:
        for number in range(8):
            band.play(chord[(0, 1, 2, 1)[number % 4]] + 12, 0.6 * beat, timbre, place + number * beat / 2, 0.6)
        return
    times, length = ((0.0,), 4 * beat) if style == 0 else ((0.0, 2 * beat), 1.8 * beat)
    for start in times:
        for note in chord:
            band.play(note, length, timbre, place + start, 0.4)


def _tune(
    band: _Band, rng: np.random.Generator, notes: list[int], timbre: Timbre, place: float, beat: float, step: int
) -> int:
    """A bar of a tune that goes up and down the scale from a step of it; the step where it ends."""
    at = 0.0
    while at < 4:
        length = min(float(rng.choice((0.5, 0.5, 1.0, 1.0, 2.0))), 4 - at)
        if rng.random() > 0.15:
            step = int(np.clip(step + rng.integers(-2, 3), 0, len(notes) - 1))
            band.play(notes[step] + 12, 0.95 * length * beat, timbre, place + at * beat, 0.8)
        at += length
    return step


def _drum(band: _Band, place: float, beat: float) -> None:
    for number in range(8):
        at = place + number * beat / 2
        band.add(band.hat, at, 0.25)
        if number % 4 == 0:
            band.add(band.kick, at, 1.0)
        if number % 4 == 2:
            band.add(band.snare, at, 0.6)


@dataclass
class _Band:
    """Mixes notes and drums into so many samples; a note that comes again is not computed again."""

    rng: np.random.Generator
    samples: int
    _notes: dict[tuple[int, int, Timbre], Sound] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._mixed = np.zeros(self.samples, np.float32)
        time = np.arange(round(0.25 * SAMPLE_RATE)) / SAMPLE_RATE
        hiss = self.rng.standard_normal(len(time))
        bright = np.diff(hiss, prepend=0.0)
        kick = np.sin(2 * np.pi * (50 * time - 70 * 0.03 * np.exp(-time / 0.03))) * np.exp(-time / 0.09)
        self.kick: Sound = kick.astype(np.float32)
        snare = (0.5 * hiss + np.sin(2 * np.pi * 180 * time)) * np.exp(-time / 0.06)
        self.snare: Sound = snare.astype(np.float32)
        self.hat: Sound = (bright * np.exp(-time / 0.03)).astype(np.float32)

    def play(self, note: int, seconds: float, timbre: Timbre, place: float, loud: float) -> None:
        """Add a note (60 is the middle C) at so many seconds."""
        key = (note, round(seconds * SAMPLE_RATE), timbre)
        if timbre.sings or key not in self._notes:
            self._notes[key] = _sound_note(440 * 2 ** ((note - 69) / 12), seconds, timbre, self.rng)
        self.add(self._notes[key], place, loud)

    def add(self, sound: Sound, place: float, loud: float) -> None:
        """Add a sound at so many seconds; what is beyond the end is cut."""
        start = round(place * SAMPLE_RATE)
        part = sound[: max(0, self.samples - start)]
        self._mixed[start : start + len(part)] += np.float32(loud) * part

    def mix(self) -> Sound:
        """All of it, its peaks rounded off as a mixing desk's limiter does."""
        loudest = float(np.abs(self._mixed).max(initial=0.0))
        mixed: Sound = np.tanh(self._mixed * np.float32(2 / max(loudest, 1e-6)))
        return mixed


def _sound_note(hertz: float, seconds: float, timbre: Timbre, rng: np.random.Generator) -> Sound:
    """A note by sums of harmonics, as long as it is held and until it has died away."""
    time = np.arange(round((seconds + _RELEASE_SECONDS) * SAMPLE_RATE), dtype=np.float32) / np.float32(SAMPLE_RATE)
    phase = 2 * np.pi * hertz * time - hertz * timbre.vibrato / 5.5 * np.cos(2 * np.pi * 5.5 * time)
    harmonics = np.arange(1, 1 + max(1, min(_MOST_HARMONICS, int(_HIGHEST_HZ / hertz))))
    loud = harmonics**-timbre.slope * np.where(harmonics % 2, 1.0, timbre.even)
    if timbre.sings:
        vowel = np.array(_VOWELS[int(rng.integers(len(_VOWELS)))])[:, None]
        loud = loud * (0.05 + (1 / (1 + ((hertz * harmonics - vowel) / 120) ** 2)).sum(axis=0))
    tone = np.zeros_like(time)
    for number, amplitude in zip(harmonics, loud / loud.sum(), strict=True):
        falls = np.exp(-time * (0.7 + 0.3 * number) / timbre.decay) if timbre.decay else np.float32(1.0)
        tone += np.float32(amplitude) * np.sin(number * phase) * falls
    tone += np.float32(timbre.breath) * rng.standard_normal(len(time)).astype(np.float32)
    envelope = np.minimum(1, time / timbre.attack) * np.clip((time[-1] - time) / _RELEASE_SECONDS, 0, 1)
    note: Sound = (tone * envelope).astype(np.float32)
    return note
