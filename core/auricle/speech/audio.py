"""Recorded speech: files of sound as clips of one length, mono, 16 kHz."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.speech.mixdown import Mixdown
from auricle.speech.sound_faults import Finding, SoundFault
from auricle.speech.sound_reader import OpenSound, fault

SAMPLE_RATE = 16_000
"""Hz, of every clip after reading."""

CLIP_SAMPLES = 16_000
"""Samples in a clip where no pack says otherwise: one second."""

MAX_SECONDS = 900
"""A longer file is refused: decoding ends where it is reached, whatever the header claims."""

_PIECE = 1 << 16
"""Frames that are decoded at once."""
_SEEN_SECONDS = 60
_RESAMPLE_MARGIN = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What a file holds."""

    samples: NDArray[np.float32]
    """(samples,) at 16 kHz, every one finite, at least one that is not silent."""

    findings: tuple[Finding, ...] = ()
    """What was wrong with the file although it is used."""


def read_clip(path: Path, clip_samples: int = CLIP_SAMPLES) -> NDArray[np.float32]:
    """Read one file as a clip of exactly `clip_samples` samples: `fit_clip` of `read_audio`."""
    return fit_clip(read_audio(path), clip_samples)


def read_audio(path: Path, most: int = MAX_SECONDS) -> NDArray[np.float32]:
    """The samples of `read_recording`."""
    return read_recording(path, most).samples


def read_recording(path: Path, most: int = MAX_SECONDS) -> Recording:
    """Read a file of at most `most` seconds: two channels averaged, 16 kHz, full scale at 1.

    Of opposite channels the louder one is taken, floats in the scale of int16 are divided by 32,768, and a header
    without size is read to the end; the findings say so.

    Raises
    ------
    SoundError
        The file is refused, for one of the reasons of `SoundFault`.
    DataError
        soundfile is not installed.
    """
    mix = _decode(path, most, None)
    findings = list(mix.findings)
    if mix.is_opposite:
        findings.append(
            SoundFault.OPPOSITE.finding(
                f"{path} has opposite channels, which are silent together: channel {mix.louder}, the louder one, is "
                "used."
            )
        )
        mix = _decode(path, most, mix.louder)
    samples, scale = mix.scaled(path)
    findings += scale
    samples = resample(samples, mix.rate, SAMPLE_RATE)
    if np.abs(samples).max() * 32_768 <= 0.5:
        raise fault(path, SoundFault.SILENT, "is silent: replace or remove it.")
    return Recording(samples, tuple(findings))


def open_stream(path: Path) -> tuple[OpenSound, float, list[Finding]]:
    """Open a file to be heard in pieces, of any number of channels.

    The scale of floats is seen from their first minute. The caller closes the file.

    Returns
    -------
    tuple
        The open file, what its samples are multiplied by, and what was found though it is used.

    Raises
    ------
    SoundError, DataError
        As `read_recording`, but for what only shows at the end, and for silence.
    """
    scale = 1.0
    findings: list[Finding] = []
    with OpenSound(path) as sound:
        sound.check_rate()
        first = sound.read(_SEEN_SECONDS * sound.rate if sound.is_float else 1)
        if not len(first):
            raise fault(path, SoundFault.EMPTY, "holds no sound: replace or remove it.")
        if sound.is_float:
            mix = Mixdown(sound.rate, 1, None, is_float=True)
            mix.add(path, np.nan_to_num(first, posinf=0.0, neginf=0.0).reshape(-1, 1))
            scale, findings = mix.scale(path)
    opened = OpenSound(path)
    return opened, scale, [*opened.findings, *findings]


def _decode(path: Path, most: int, channel: int | None) -> Mixdown:
    """Decode a file, in pieces, up to the limit."""
    with OpenSound(path) as sound:
        sound.check()
        mix = Mixdown(sound.rate, sound.channels, channel, sound.is_float, sound.findings)
        limit = min(most * sound.rate, most * 3 * SAMPLE_RATE)
        while len(piece := sound.read(_PIECE)):
            mix.add(path, piece)
            if mix.frames > limit:
                raise fault(
                    path,
                    SoundFault.LONG,
                    f"is longer than the {limit / sound.rate:,.0f} seconds that are read: cut it into shorter files.",
                )
    return mix


def resample(audio: NDArray[np.float32], from_rate: int, to_rate: int) -> NDArray[np.float32]:
    """Change the sample rate by cutting or extending the spectrum of the whole recording.

    Exact for what lies below both Nyquist frequencies. The recording is reflected over 50 ms at both ends, so that the
    transform's wrap-around makes no click, and padded to a length that is whole at both rates.

    Parameters
    ----------
    audio
        (samples,) at `from_rate` Hz.

    Returns
    -------
    NDArray[np.float32]
        (ceil(samples * to_rate / from_rate),) at `to_rate` Hz.
    """
    if from_rate == to_rate or not len(audio):
        return audio.astype(np.float32)
    step_in, step_out = from_rate // gcd(from_rate, to_rate), to_rate // gcd(from_rate, to_rate)
    lead = step_in * ceil(_RESAMPLE_MARGIN * from_rate / step_in)
    tail = lead + -len(audio) % step_in
    padded = np.pad(audio.astype(np.float64), (lead, tail), mode="reflect" if len(audio) > 1 else "edge")
    length_out = len(padded) // step_in * step_out
    bins = min(len(padded), length_out) // 2 + 1
    spectrum = np.fft.rfft(padded)[:bins]
    resampled = np.fft.irfft(spectrum, length_out) * (length_out / len(padded))
    start = lead // step_in * step_out
    return resampled[start : start + ceil(len(audio) * to_rate / from_rate)].astype(np.float32)


def fit_clip(audio: NDArray[np.float32], clip_samples: int = CLIP_SAMPLES) -> NDArray[np.float32]:
    """Bring a recording to exactly `clip_samples` samples.

    A shorter one stands in the middle of zeros; of a longer one the window with the most energy is kept, the earliest
    of several.
    """
    spare = clip_samples - len(audio)
    if spare >= 0:
        return np.pad(audio, (spare // 2, spare - spare // 2)).astype(np.float32)
    energy = np.concatenate(([0.0], np.cumsum(np.square(audio, dtype=np.float64))))
    start = int(np.argmax(energy[clip_samples:] - energy[:-clip_samples]))
    return audio[start : start + clip_samples].astype(np.float32)


def share_kept(audio: NDArray[np.float32], clip: NDArray[np.float32]) -> float:
    """Share of a recording's energy that is in the clip that `fit_clip` made of it; 1 of silence."""
    whole = float(np.square(audio, dtype=np.float64).sum())
    return float(np.square(clip, dtype=np.float64).sum()) / whole if whole else 1.0
