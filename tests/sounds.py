"""Files of sound as people have them: formats, encodings, channels, rates, damaged headers, each with what is right."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from auricle.speech.sound_faults import SoundFault

ENCODINGS: dict[str, tuple[str, dict[str, float]]] = {
    "WAV": (
        ".wav",
        dict.fromkeys(("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"), 1e-4)
        | {"PCM_U8": 0.01, "ULAW": 0.02, "ALAW": 0.02, "IMA_ADPCM": 0.05, "MS_ADPCM": 0.05, "GSM610": 0.15},
    ),
    "WAVEX": (".wav", {"PCM_16": 1e-4, "FLOAT": 1e-4}),
    "RF64": (".wav", {"PCM_16": 1e-4, "DOUBLE": 1e-4}),
    "W64": (".w64", {"PCM_16": 1e-4}),
    "AIFF": (".aiff", {"PCM_16": 1e-4, "PCM_S8": 0.01, "ULAW": 0.02, "FLOAT": 1e-4}),
    "CAF": (".caf", {"PCM_16": 1e-4, "ALAC_16": 1e-4, "FLOAT": 1e-4}),
    "AU": (".au", {"PCM_16": 1e-4, "ULAW": 0.02}),
    "FLAC": (".flac", {"PCM_16": 1e-4, "PCM_24": 1e-4}),
    "OGG": (".ogg", {"VORBIS": 0.1, "OPUS": 0.1}),
    "MP3": (".mp3", {"MPEG_LAYER_III": 0.1}),
}
"""By format: its suffix, and by encoding the error (RMS, of a tone of 0.35 RMS) that it may make."""


@dataclass(frozen=True)
class Made:
    """A file and what reading it gives."""

    name: str
    path: Path
    fault: SoundFault | None = None
    """Why it is refused, or what is found in it although it is used."""
    within: float = 1e-4
    """RMS of the difference from the tone."""
    seconds: float = 0.7


def tone(rate: int = 16_000, seconds: float = 0.7) -> NDArray[np.float32]:
    """440 Hz at half of full scale."""
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def formats(folder: Path) -> Iterator[Made]:
    """Every format and encoding, with one channel and two, at three rates."""
    for (form, (suffix, encodings)), rate, channels in itertools.product(
        ENCODINGS.items(), (8_000, 16_000, 48_000), (1, 2)
    ):
        for encoding, within in encodings.items():
            if encoding.startswith(("GSM", "ALAC")) and channels == 2:
                continue
            path = folder / f"{form}-{encoding}-{rate}-{channels}{suffix}"
            soundfile.write(path, np.stack([tone(rate)] * channels, 1), rate, format=form, subtype=encoding)
            yield Made(path.name, path, None, max(within, 0.003 if rate != 16_000 else 0))


def cut(folder: Path) -> Iterator[Made]:
    """The first half of a file of every format."""
    for form, (suffix, encodings) in ENCODINGS.items():
        for encoding in encodings:
            path = folder / f"cut-{form}-{encoding}{suffix}"
            soundfile.write(path, tone(), 16_000, format=form, subtype=encoding)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            yield Made(path.name, path, SoundFault.CUT)


def open_headers(folder: Path) -> Iterator[Made]:
    """Headers that do not say how much sound there is: 0, and what SoX, arecord and ffmpeg write into a pipe."""
    sizes = {"0": 0, "sox": 0x7FFF_F000, "arecord": 0x8000_0000, "ffmpeg": 0xFFFF_FFFF}
    for (name, size), riff in itertools.product(sizes.items(), (0, 8, 36, 0xFFFF_FFFF)):
        path = _written(folder / f"open-{name}-{riff}.wav", ".wav")
        yield _patched(path, {4: riff.to_bytes(4, "little"), 40: size.to_bytes(4, "little")})
    path = _written(folder / "open.aiff", ".aiff")
    yield _patched(path, {path.read_bytes().index(b"SSND") + 4: bytes(4)})
    path = _written(folder / "open.caf", ".caf")
    yield _patched(path, {path.read_bytes().index(b"data") + 4: b"\xff" * 8})
    path = _written(folder / "open.au", ".au")
    yield _patched(path, {8: b"\xff" * 4})


def samples(folder: Path) -> Iterator[Made]:
    """Samples, channels and rates that a recording of speech does not have."""
    sound, write = tone(), _write
    yield write(folder / "int16-scale.wav", np.rint(sound * 32_768), SoundFault.INT16_SCALE)
    yield write(folder / "other-scale.wav", sound * 30_000.3, SoundFault.SCALE)
    yield write(folder / "int24-scale.wav", np.rint(sound * 2**23), SoundFault.SCALE)
    yield write(folder / "nan.wav", np.where(np.arange(len(sound)) == 9, np.nan, sound), SoundFault.NOT_FINITE)
    yield write(folder / "silent.wav", sound * 2e-5, SoundFault.SILENT)
    yield write(folder / "opposite.wav", np.stack([sound, -0.8 * sound], 1), SoundFault.OPPOSITE)
    yield write(folder / "array.wav", np.stack([sound] * 4, 1), SoundFault.CHANNELS)
    yield write(folder / "slow.wav", sound, SoundFault.RATE, 3_999)
    yield write(folder / "fast.wav", sound, SoundFault.RATE, 192_001)
    yield write(folder / "nothing.wav", sound[:0], SoundFault.EMPTY)


def others(folder: Path) -> Iterator[Made]:
    """What has the name of a recording and is no file of sound that is read."""
    mpeg4 = b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(range(1, 200))
    for name, data, fault in (
        ("empty.wav", b"", SoundFault.EMPTY),
        ("zeros.wav", bytes(4_000), SoundFault.FORMAT),
        ("text.wav", b"What I said on Tuesday.\n", SoundFault.FORMAT),
        ("lfs.flac", b"version https://git-lfs.github.com/spec/v1\noid", SoundFault.FORMAT),
        ("mac.wav", b"\0\x05\x16\x07\0\x02\0\0Mac OS X" + bytes(99), SoundFault.FORMAT),
        ("phone.m4a", mpeg4, SoundFault.FORMAT),
        ("phone.wav", mpeg4, SoundFault.FORMAT),
        ("browser.webm", b"\x1aE\xdf\xa3" + bytes(range(99)), SoundFault.FORMAT),
        ("noise.wav", np.random.default_rng(0).bytes(5_000), SoundFault.FORMAT),
        ("head.wav", b"RIFF" + bytes(40), SoundFault.DAMAGED),
        ("head.flac", b"fLaC" + bytes(200), SoundFault.DAMAGED),
        ("head.mp3", b"ID3\x04\x00\x00" + bytes(range(100, 140)) * 40, SoundFault.DAMAGED),
    ):
        (folder / name).write_bytes(data)
        yield Made(name, folder / name, fault)
    os.mkfifo(folder / "fifo.wav")
    (folder / "folder.wav").mkdir()
    (folder / "null.wav").symlink_to("/dev/null")
    (folder / "circle.wav").symlink_to("circle.wav")
    (folder / "gone.wav").symlink_to("nowhere.wav")
    for name, fault in (
        ("fifo.wav", SoundFault.NOT_REGULAR),
        ("folder.wav", SoundFault.NOT_REGULAR),
        ("null.wav", SoundFault.NOT_REGULAR),
        ("circle.wav", SoundFault.CLOSED),
        ("gone.wav", SoundFault.ABSENT),
    ):
        yield Made(name, folder / name, fault)


KINDS: dict[str, Callable[[Path], Iterator[Made]]] = {
    each.__name__: each for each in (formats, cut, open_headers, samples, others)
}


def _write(path: Path, sound: NDArray[np.floating], fault: SoundFault, rate: int = 16_000) -> Made:
    soundfile.write(path, sound, rate, subtype="FLOAT")
    return Made(path.name, path, fault)


def _written(path: Path, suffix: str) -> Path:
    form = next(form for form, (of_form, _) in ENCODINGS.items() if of_form == suffix)
    soundfile.write(path, tone(), 16_000, format=form, subtype="PCM_16")
    return path


def _patched(path: Path, patches: dict[int, bytes]) -> Made:
    data = bytearray(path.read_bytes())
    for place, patch in patches.items():
        data[place : place + len(patch)] = patch
    path.write_bytes(data)
    return Made(path.name, path, SoundFault.NO_SIZE)
