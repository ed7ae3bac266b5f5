"""Features of a validation set on disk, as safetensors, so that a coordinator that restarts need not compute them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.files import read_kept, write_durably
from auricle.packs.pack import Task
from auricle.wire.kinds import UNDECODABLE

Clip = tuple[int, Path | None]
"""A target and the file of a clip; None for a clip of silence made of noise."""
Features = tuple[NDArray[np.float32], NDArray[np.int64], tuple[str, ...]]
"""Log-mels (N, frames, mels), targets (N,), and a sentence for every file that could not be used."""

_VERSION = b"1"
"""To be changed when features are computed in another way."""


class FeatureCache:
    """One validation set's place in the cache, named by everything that decides on its features.

    Parameters
    ----------
    folder
        The cache.
    task
        Labels, clip length and front-end.
    seed
        Of the silence that is made.
    clips, noise
        What is read; the name depends on the bytes of these files.
    """

    def __init__(self, folder: Path, task: Task, seed: int, clips: Sequence[Clip], noise: Sequence[Path]) -> None:
        self._task = task
        whole = hashlib.sha256(_VERSION + msgspec.json.encode((task, seed)))
        for target, path in [*clips, *((-1, path) for path in noise)]:
            whole.update(f"\n{target} {path} ".encode(errors="surrogateescape"))
            whole.update(b"" if path is None else _digest(path))
        self._path = folder / f"{whole.hexdigest()[:32]}.safetensors"

    def write(self, known: Features) -> None:
        """Keep features; StorageError when the disk cannot take them."""
        features, targets, unread = known
        said = np.frombuffer(msgspec.json.encode(unread), np.uint8)
        tensors = {"features": features, "targets": targets, "unread": said}
        write_durably(self._path, save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}))

    def read(self) -> Features | None:
        """The kept features; None when there are none, or when they are damaged."""
        try:
            tensors = load(read_kept(self._path))
            features, targets = tensors["features"], tensors["targets"]
            unread = msgspec.json.decode(tensors["unread"].tobytes(), type=tuple[str, ...])
        except (OSError, SafetensorError, *UNDECODABLE, ValueError, KeyError, TypeError):
            return None
        task = self._task
        due = (len(targets), *task.input_shape)
        sound = features.shape == due and features.dtype == np.float32 and bool(np.isfinite(features).all())
        sound = sound and targets.ndim == 1 and len(targets) > 0 and targets.dtype == np.int64
        if not sound or targets.min() < 0 or targets.max() >= len(task.labels):
            return None
        return features, targets, unread


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_kept(path)).digest()
    except OSError:
        return b"unreadable"
