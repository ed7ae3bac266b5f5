"""What a loudspeaker plays: music made of numbers, and a television's programme, the same by the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.loudspeaker import make_programme, through_loudspeaker
from auricle.hearing.music import PIANO, _sound_note, make_music
from auricle.hearing.sounds import Sound, level, room
from auricle.speech.audio import SAMPLE_RATE


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def power(sound: Sound) -> NDArray[np.float64]:
    """By whole Hz, of the first second."""
    return np.abs(np.fft.rfft(sound[:SAMPLE_RATE].astype(np.float64))) ** 2


def test_music_is_the_same_by_a_seed_and_another_by_another() -> None:
    pieces = [make_music(rng(seed), 8.0) for seed in (1, 1, *range(2, 8))]
    np.testing.assert_array_equal(pieces[0], pieces[1])
    for piece in pieces:
        assert piece.dtype == np.float32 and len(piece) == 8 * SAMPLE_RATE
        assert np.isfinite(piece).all() and 0.5 < np.abs(piece).max() < 1
    spectra = [power(piece) / power(piece).sum() for piece in pieces[1:]]
    assert all(np.abs(one - other).sum() > 0.2 for i, one in enumerate(spectra) for other in spectra[:i])


def test_a_note_has_its_pitch_and_harmonics_and_dies_away() -> None:
    """A piano's A of 440 Hz: 880 Hz has 2^-1.3 of its amplitude, a sixth of its power, or less as it falls faster."""
    note = _sound_note(440.0, 2.0, PIANO, rng())
    spectrum = power(note)
    assert spectrum.argmax() == 440
    assert 0.08 < spectrum[880] / spectrum[440] < 2 ** (-2 * 1.3)
    assert level(note[-SAMPLE_RATE // 10 :]) < 0.1 * level(note[: SAMPLE_RATE // 10])


def test_a_loudspeaker_plays_no_bass_and_no_treble_and_rings() -> None:
    click = np.zeros(SAMPLE_RATE, np.float32)
    click[4000] = 1.0
    played = through_loudspeaker(click, rng(3))
    spectrum = power(played)
    middle = spectrum[800:3000].mean()
    assert spectrum[:40].mean() < 0.05 * middle and spectrum[7900:].mean() < 0.5 * middle
    assert len(played) == len(click) and level(played[4400:7000]) > 1e-4
    assert level(played[:3500]) < 0.1 * level(played[4000:4400])


def test_the_direct_sound_of_a_room_has_the_share_that_is_asked_for() -> None:
    for decibels in (-6.0, 0.0, 6.0):
        response = room(rng(1), direct_db=(decibels, decibels))
        rest = float(np.sum(np.square(response[1:], dtype=np.float64)))
        assert 10 * np.log10(1 / rest) == pytest.approx(decibels, abs=1e-3)


def test_a_programme_has_speech_music_and_noises() -> None:
    """Tones stand for who speaks (1000 Hz), music (300 Hz) and noises (5000 Hz): each is in it, speech is loudest."""
    time = np.arange(20 * SAMPLE_RATE) / SAMPLE_RATE
    speech, music, noise = (np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (1000, 300, 5000))
    made = make_programme([speech[: 3 * SAMPLE_RATE]], [noise[:SAMPLE_RATE]], music, rng(0))
    np.testing.assert_array_equal(
        made, make_programme([speech[: 3 * SAMPLE_RATE]], [noise[:SAMPLE_RATE]], music, rng(0))
    )
    spectrum = np.abs(np.fft.rfft(made)) ** 2
    shares = [spectrum[20 * hertz - 40 : 20 * hertz + 40].sum() / spectrum.sum() for hertz in (1000, 300, 5000)]
    assert shares[0] > 0.5 and min(shares[1:]) > 1e-4
    assert len(made) == len(music) and np.abs(made).max() < 1
    with pytest.raises(DataError, match="needs running speech"):
        make_programme([], [noise], music, rng(0))
