"""A clip as a file: FLAC or mel energies, what is known of it inside: the index can be made again from the files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.speech.features import LogMel
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.clips.record import Record
from auricle_edge.listening.sound import RATE

AUDIO, FEATURES = ".flac", ".safetensors"
LARGEST_BYTES = 4 << 20
"""No clip's file is larger; one that is, is damaged."""


@dataclass(frozen=True, eq=False)
class Content:
    """What a file holds: sound or mel energies."""

    record: Record
    samples: NDArray[np.int16] | None
    """(n,)"""
    energies: NDArray[np.float32] | None
    """(T, mels)"""


class _Metadata(msgspec.Struct):
    record: str


class _Header(msgspec.Struct):
    metadata: _Metadata = msgspec.field(name="__metadata__")


def encode_audio(samples: NDArray[np.int16], record: Record) -> bytes:
    """Lossless FLAC of (n,) samples at 16 kHz, the record as its comment."""
    import soundfile

    with _memory() as out:
        with soundfile.SoundFile(out, "w", RATE, 1, "PCM_16", format="FLAC", closefd=False) as file:
            file.comment = msgspec.json.encode(record).decode()
            file.write(samples)
        return out.getvalue() if isinstance(out, io.BytesIO) else os.pread(out, os.fstat(out).st_size, 0)


def encode_features(energies: NDArray[np.float32], record: Record) -> bytes:
    """Mel energies (T, mels) as safetensors, the record as its metadata."""
    from safetensors.numpy import save

    note = msgspec.json.encode(record).decode()
    return save({"energies": np.ascontiguousarray(energies)}, metadata={"record": note})


def decode(data: bytes, suffix: str) -> Content:
    """Read a clip's file again; DataError, a reason without a full stop, where it is not one."""
    content = _decode_audio(data) if suffix == AUDIO else _decode_features(data)
    numbers = content.samples if content.samples is not None else content.energies
    if numbers is None or not numbers.size or not np.isfinite(numbers).all():
        raise DataError("it holds no finite numbers")
    return content


def encode_again(content: Content, record: Record) -> bytes:
    """The same sound or energies with another record."""
    if content.samples is not None:
        return encode_audio(content.samples, record)
    assert content.energies is not None
    return encode_features(content.energies, record)


def energies_of(content: Content, frontend: LogMel) -> NDArray[np.float32]:
    """Mel energies (T, mels) of a clip, whichever way it is kept; DataError: kept for another front-end."""
    task = frontend.task
    if content.energies is not None:
        if content.energies.shape != (task.frames, task.frontend.mels):
            raise DataError("its features are those of another front-end")
        return content.energies
    assert content.samples is not None
    energies: NDArray[np.float32] = frontend.energies(fit_length(content.samples, task.clip_samples)[np.newaxis])[0]
    return energies


def fit_length(samples: NDArray[np.int16], length: int) -> NDArray[np.int16]:
    """Bring a clip to exactly `length` samples: the middle of it, or it in the middle of zeros."""
    spare = length - len(samples)
    if spare >= 0:
        return np.pad(samples, (spare // 2, spare - spare // 2))
    return samples[-spare // 2 : -spare // 2 + length]


@contextmanager
def _memory(data: bytes = b"") -> Iterator[int | io.BytesIO]:
    """The descriptor of a file in memory, at its beginning.

    An `io.BytesIO` would do, and does where there is no Linux, but for one soundfile needs callbacks, and these, on
    arm64, memory that can be both written and run, which the service is denied (MemoryDenyWriteExecute).
    """
    if not sys.platform.startswith("linux"):
        yield io.BytesIO(data)
        return
    descriptor = os.memfd_create("clip")
    try:
        os.pwrite(descriptor, data, 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _decode_audio(data: bytes) -> Content:
    import soundfile

    try:
        with _memory(data) as content, soundfile.SoundFile(content, closefd=False) as file:
            if (file.format, file.samplerate, file.channels) != ("FLAC", RATE, 1) or file.frames > LARGEST_BYTES:
                raise DataError("it is not mono FLAC at 16 kHz")
            comment, samples = file.comment, file.read(dtype="int16")
            if len(samples) != file.frames:
                raise DataError("it is cut short")
    except (soundfile.SoundFileError, OSError, ValueError, TypeError) as error:
        raise DataError("it is not FLAC") from error
    return Content(_record(comment), np.asarray(samples, np.int16), None)


def _decode_features(data: bytes) -> Content:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        energies = load(data)["energies"]
        header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
    except (SafetensorError, msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("it does not hold mel energies") from error
    if energies.dtype != np.float32 or energies.ndim != 2:
        raise DataError("it does not hold mel energies")
    return Content(_record(header.metadata.record), None, energies)


def _record(text: str) -> Record:
    try:
        return msgspec.json.decode(text, type=Record)
    except (*UNDECODABLE, UnicodeEncodeError) as error:
        raise DataError("it does not say what it is") from error
