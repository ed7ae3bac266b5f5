"""Recorded speech: wav and FLAC files as clips of one length, mono, 16 kHz."""

from __future__ import annotations

from math import ceil, gcd
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, because

SAMPLE_RATE = 16_000
"""Hz, of every clip after reading."""

CLIP_SAMPLES = 16_000
"""Samples in a clip where no pack says otherwise: one second."""

MAX_SECONDS = 900
"""A longer file is refused before memory is taken for it: a damaged header can claim days."""

RATES = (4_000, 192_000)
"""Hz, the lowest and the highest that is read; beyond lies damage, or no speech."""

_RESAMPLE_MARGIN = 0.05


def read_clip(path: Path, clip_samples: int = CLIP_SAMPLES) -> NDArray[np.float32]:
    """Read one file as a clip of exactly `clip_samples` samples: `fit_clip` of `read_audio`."""
    return fit_clip(read_audio(path), clip_samples)


def read_audio(path: Path, most: int = MAX_SECONDS) -> NDArray[np.float32]:
    """Read a wav or FLAC file of at most `most` seconds: channels averaged, 16 kHz, full scale at 1.

    Returns
    -------
    NDArray[np.float32]
        (samples,), every one finite, at least one.

    Raises
    ------
    DataError
        The file is missing, damaged, cut short, empty, too long, or holds numbers that are no samples.
    """
    soundfile = _soundfile()
    try:
        path.stat()
        with soundfile.SoundFile(path) as file:
            rate, frames, channels = int(file.samplerate), int(file.frames), int(file.channels)
            _check_header(path, rate, frames, channels, most)
            samples = np.asarray(file.read(frames, dtype="float32", always_2d=True))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {because(error)}.") from error
    except soundfile.SoundFileError as error:
        raise DataError(f"{path} cannot be read as audio ({_reason(error)}): replace or remove it.") from error
    if not frames:
        raise DataError(f"{path} holds no sound: replace or remove it.")
    if len(samples) < frames or not len(samples):
        raise DataError(f"{path} holds {len(samples)} of its {frames} samples: replace or remove it.")
    if not np.isfinite(samples).all():
        raise DataError(f"{path} holds samples that are not finite numbers: replace or remove it.")
    return resample(samples.mean(axis=1, dtype=np.float32), rate, SAMPLE_RATE)


def _soundfile() -> ModuleType:
    """The library that decodes; a part that reads no audio does without it."""
    try:
        import soundfile
    except ModuleNotFoundError as error:
        raise DataError('Reading audio needs soundfile: pip install "auricle[edge]".') from error
    return soundfile  # type: ignore[no-any-return]


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


def _check_header(path: Path, rate: int, frames: int, channels: int, most: int) -> None:
    if not RATES[0] <= rate <= RATES[1]:
        raise DataError(f"{path} claims {rate} samples a second: convert it to 16000 or repair its header.")
    if frames > most * rate or frames * channels > most * 3 * SAMPLE_RATE:
        raise DataError(f"{path} claims more than {most} seconds of audio: cut it or repair its header.")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(getattr(error, "error_string", error)).rstrip(".")
