"""What every source of voices has, ours and those of other packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.speech.audio import SAMPLE_RATE, resample
from auricle.speech.synthesis import PEAK, SPEECH_RMS

Sound = NDArray[np.float32]
"""(samples,) at 16 kHz, full scale at 1."""

LONGEST_SECONDS = 60
"""Seconds of a take."""
_MANY = 20
"""Languages that are not named one by one."""
_SILENT_BELOW = 0.01
"""Of a take's highest sample: what is fainter at both ends is silence."""


class VoiceSource(Protocol):
    """A synthesiser, or a folder of what one said."""

    @property
    def name(self) -> str:
        """What commands call it."""

    @property
    def about(self) -> str:
        """What it is, in a clause."""

    @property
    def licence(self) -> str:
        """Of the voices."""

    @property
    def attribution(self) -> tuple[str, ...]:
        """Whom a pack that learnt from it names."""

    @property
    def version(self) -> str:
        """Of voices and of how they are used: a take of another version is another take."""

    def missing(self) -> str | None:
        """What keeps it from speaking here, as a sentence that says what to do; None when nothing does."""

    def languages(self) -> tuple[str, ...]:
        """The languages that it speaks, as espeak-ng names them; empty where it is not there."""

    def speakers(self, language: str) -> tuple[str, ...]:
        """Who speaks a language; who is alike stands side by side, so that every ninth are of all kinds."""

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text.

        Parameters
        ----------
        text
            In the language's own script.
        language
            One of `languages`.
        seed
            Decides who speaks, and how: the same arguments give the same samples on one machine.
        speakers
            Of `speakers`: one of them, or a mixture of some, speaks; empty: of all.

        Raises
        ------
        AuricleError
            It cannot say that.
        """


def refuse_language(source: VoiceSource, language: str) -> None:
    """Refuse a language that a source does not speak.

    Raises
    ------
    SettingsError
        It names those that it speaks.
    """
    known = source.languages()
    if language not in known:
        several = ", ".join(known) if len(known) < _MANY else f"{len(known)} others"
        raise SettingsError(f'{source.name} does not speak the language "{language}", but {several or "none here"}.')


def as_take(samples: object, rate: int, what: str) -> Sound:
    """A take as it is used: at 16 kHz, without the silence around it, -23 dBFS RMS or less where peaks would be cut.

    Parameters
    ----------
    samples
        (samples,), or of as many dimensions as there are axes of length 1 beside it.
    rate
        Its Hz.
    what
        Whose take of what, which begins the sentence.

    Raises
    ------
    DataError
        It is no sound: empty, silent, longer than `LONGEST_SECONDS` seconds, or not finite.
    """
    found = np.asarray(samples)
    if found.dtype.kind != "f" or found.size != max(found.shape, default=0):
        raise DataError(f"{what} is no sound but {found.dtype.name} {found.shape}: choose another voice.")
    sound = found.ravel().astype(np.float32)
    if len(sound) > LONGEST_SECONDS * rate:
        raise DataError(f"{what} is longer than {LONGEST_SECONDS} seconds: choose another voice.")
    if not np.isfinite(sound).all():
        raise DataError(f"{what} holds samples that are no number: choose another voice.")
    peak = float(np.abs(sound).max()) if len(sound) else 0.0
    if peak < 1e-4:
        raise DataError(f"{what} is silent: choose another voice, or write the text as it is said.")
    loud = np.flatnonzero(np.abs(sound) > _SILENT_BELOW * peak)
    cut = resample(sound[loud[0] : loud[-1] + 1], rate, SAMPLE_RATE)
    level = float(np.sqrt(np.mean(np.square(cut, dtype=np.float64))))
    levelled: Sound = cut * np.float32(min(SPEECH_RMS / level, PEAK / float(np.abs(cut).max())))
    return levelled
