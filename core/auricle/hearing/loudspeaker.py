"""What a loudspeaker in the room plays: a television's programme, or music, as it arrives at the microphone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from auricle.errors import DataError
from auricle.hearing.sounds import Sound, as_loud, fade, in_room, room
from auricle.speech.audio import SAMPLE_RATE

_LOWEST_HZ, _HIGHEST_HZ = (80.0, 300.0), (5000.0, 7600.0)
"""Where a loudspeaker of a television or radio begins and ends to play, each with 12 dB an octave."""
_DIRECT_DB = (-6.0, 6.0)
"""Energy of the direct sound over that of the room: the loudspeaker is farther away than a person who speaks."""
_SPEECH_DBFS, _SPREAD_DB = -20.0, 3.0
_MUSIC_UNDER_DB, _EFFECT_UNDER_DB = (8.0, 25.0), (0.0, 15.0)
_GAP_SECONDS = (-0.3, 1.0)
"""From the end of one who speaks to the beginning of the next."""
_EFFECT_SECONDS, _EFFECT_PAUSE_SECONDS = (0.5, 4.0), (2.0, 15.0)


def through_loudspeaker(sound: Sound, rng: np.random.Generator) -> Sound:
    """A recording (samples,) as a microphone in the room hears it: band-limited, and with the room's answer."""
    spectrum, size = np.fft.rfft(sound), len(sound)
    hertz = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 1.0)
    low, high = rng.uniform(*_LOWEST_HZ), rng.uniform(*_HIGHEST_HZ)
    passed = 1 / np.sqrt((1 + (low / hertz) ** 4) * (1 + (hertz / high) ** 4))
    played = np.fft.irfft(spectrum * passed, size).astype(np.float32)
    return in_room(played, room(rng, direct_db=_DIRECT_DB))[:size]


def make_programme(speech: Sequence[Sound], effects: Sequence[Sound], music: Sound, rng: np.random.Generator) -> Sound:
    """A television's programme as long as the music in it, before it is played.

    People speak one after the other, some before the last one has ended; under them goes music, 8 to 25 dB fainter,
    which in one of four programmes is alone for a third of the time; and every 2 to 15 seconds there is a noise.

    Raises
    ------
    DataError
        There is nobody who speaks.
    """
    if not speech:
        raise DataError("A television's programme needs running speech: name a folder with --speech.")
    count = len(music)
    talk = np.zeros(count, np.float32)
    place = round(rng.uniform(0.25, 0.35) * count) if rng.random() < 0.25 else 0
    begin = place
    while place < count:
        said = as_loud(speech[int(rng.integers(len(speech)))], _SPEECH_DBFS + rng.uniform(-_SPREAD_DB, _SPREAD_DB))
        _add(talk, fade(said), place)
        place = max(0, place + len(said) + round(rng.uniform(*_GAP_SECONDS) * SAMPLE_RATE))
    under = as_loud(music, _SPEECH_DBFS - rng.uniform(*_MUSIC_UNDER_DB))
    under[:begin] = as_loud(music, _SPEECH_DBFS)[:begin]
    place = round(rng.uniform(*_EFFECT_PAUSE_SECONDS) * SAMPLE_RATE)
    while effects and place < count:
        chosen = effects[int(rng.integers(len(effects)))]
        size = min(len(chosen), round(rng.uniform(*_EFFECT_SECONDS) * SAMPLE_RATE))
        start = int(rng.integers(len(chosen) - size + 1))
        _add(talk, as_loud(fade(chosen[start : start + size]), _SPEECH_DBFS - rng.uniform(*_EFFECT_UNDER_DB)), place)
        place += size + round(rng.uniform(*_EFFECT_PAUSE_SECONDS) * SAMPLE_RATE)
    mixed: Sound = np.tanh(talk + under)
    return mixed


def _add(mixed: Sound, sound: Sound, place: int) -> None:
    """Add a sound where it begins; what is beyond the end is cut."""
    part = sound[: max(0, len(mixed) - place)]
    mixed[place : place + len(part)] += part
