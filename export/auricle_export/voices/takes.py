"""Takes of any source, several at once, each kept in the user's cache so that it is spoken once."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import StorageError
from auricle.files import cache_folder, read_kept, write_whole
from auricle.hearing.sounds import pcm
from auricle_export.voices.interface import LONGEST_SECONDS, Sound, VoiceSource

FULL_SCALE = np.float32(32_767)


@dataclass(frozen=True)
class TakeOrder:
    """A take: the arguments of `VoiceSource.speak`."""

    text: str
    language: str
    seed: int
    speakers: tuple[str, ...] = ()


def takes_folder() -> Path:
    """Where takes are kept; it may be removed at any time."""
    return cache_folder() / "voices" / "takes"


def speak_all(
    source: VoiceSource,
    orders: Sequence[TakeOrder],
    threads: int,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Sound]:
    """Have a source say everything that is asked of it, in order.

    Parameters
    ----------
    source
        Whose takes are kept under its name and version; where that is empty, they are not.
    orders
        What.
    threads
        How many takes are computed at once, where there are as many cores.
    progress
        Told the takes that are there, and all of them; what it raises ends the speaking, and what was said is kept.

    Raises
    ------
    AuricleError
        The source cannot say something.
    """
    takes: list[Sound] = []
    with ThreadPoolExecutor(max(1, min(threads, os.cpu_count() or 1))) as workers:
        try:
            for sound in workers.map(lambda one: _take(source, one), orders):
                takes.append(sound)
                progress(len(takes), len(orders))
        finally:
            workers.shutdown(cancel_futures=True)
    return takes


def _take(source: VoiceSource, order: TakeOrder) -> Sound:
    """A take from the cache, else spoken; the same samples either way."""
    if not source.version:
        return _sound(pcm(source.speak(**asdict(order))))
    path = _place(source, order)
    samples = _load_take(path)
    if samples is None:
        samples = pcm(source.speak(**asdict(order)))
        content = io.BytesIO()
        np.save(content, samples, allow_pickle=False)
        with suppress(StorageError):  # a take that cannot be kept is spoken again
            write_whole(path, content.getvalue(), durable=False)
    return _sound(samples)


def _sound(samples: NDArray[np.int16]) -> Sound:
    sound: Sound = samples.astype(np.float32) / FULL_SCALE
    return sound


def _place(source: VoiceSource, order: TakeOrder) -> Path:
    key = json.dumps([source.name, source.version, asdict(order)], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return takes_folder() / digest[:2] / f"{digest[2:]}.npy"


def _load_take(path: Path) -> NDArray[np.int16] | None:
    """Samples of a kept take; None if it is missing or damaged."""
    try:
        samples = np.load(io.BytesIO(read_kept(path)), allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError):
        return None
    usable = samples.dtype == np.int16 and samples.ndim == 1 and 0 < len(samples) <= LONGEST_SECONDS * 16_000
    return samples if usable else None
