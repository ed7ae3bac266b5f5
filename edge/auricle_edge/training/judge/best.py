"""The best state so far, on disk: weights of the plug-in and of the own model, and what they heard.

`best.safetensors` in the device's folder is whole or absent, whenever the power goes. What is read is checked: a file
that is damaged, or of another pack, counts as none, and the state that a device then has is its best.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.files import read_kept, write_whole
from auricle.wire.kinds import Sha256
from auricle.wire.tensors import Flat, TensorTable
from auricle_edge.training.judge.comparison import Heard

Length = Annotated[int, Meta(ge=0, le=1 << 24)]
Places = Annotated[tuple[Annotated[int, Meta(ge=0, lt=1 << 24)], ...], Meta(max_length=1 << 18)]
UNSOUND = (OSError, SafetensorError, msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError)
"""What reading a file raises that is no best state of ours."""


@dataclass(frozen=True, eq=False)
class Best:
    """A model's best state."""

    weights: Flat
    sound: str
    """Digest of the sound that it was judged on."""
    heard: Heard


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model heard: places of the false accepts among the seconds, and of the words among the clips."""

    sound: Sha256
    hours: Annotated[float, Meta(ge=0, le=1e4)]
    seconds: Length
    accepts: Places
    clips: Length
    hits: Places

    def heard(self) -> Heard:
        """As arrays; ValueError where a place lies outside."""
        if max((-1, *self.accepts)) >= self.seconds or max((-1, *self.hits)) >= self.clips:
            raise ValueError("A place lies outside.")
        if max((0, *Counter(self.accepts).values(), *Counter(self.hits).values())) > np.iinfo(np.uint8).max:
            raise ValueError("A second has too many false accepts.")
        accepts = np.bincount(np.array(self.accepts, np.int64), minlength=self.seconds).astype(np.uint8)
        hits = np.bincount(np.array(self.hits, np.int64), minlength=self.clips).astype(np.uint8)
        return Heard(accepts, np.minimum(hits, 1).astype(np.uint8), self.hours)


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pack: Sha256
    kept: dict[str, _Kept]


class _Metadata(msgspec.Struct):
    auricle: str


class _Header(msgspec.Struct):
    metadata: _Metadata = msgspec.field(name="__metadata__")


def _to_record(best: Best) -> _Kept:
    heard = best.heard
    accepts = np.repeat(np.arange(len(heard.accepts)), heard.accepts)
    hits = np.flatnonzero(heard.hits)
    places = (tuple(accepts.tolist()), len(heard.hits), tuple(hits.tolist()))
    return _Kept(best.sound, heard.hours, len(heard.accepts), *places)


class BestStore:
    """Keeps the best states of a device's models between rounds and restarts.

    Parameters
    ----------
    folder
        The device's.
    pack
        Identity of the pack; states of another pack are not used.
    tables
        Tensor table of each model, by its role.
    durable
        What it keeps survives a power cut.
    """

    def __init__(self, folder: Path, pack: str, tables: dict[str, TensorTable], *, durable: bool = True) -> None:
        self._path, self._pack, self._tables = folder / "best.safetensors", pack, tables
        self._durable = durable

    def save(self, best: dict[str, Best]) -> None:
        """Keep them, by role; StorageError when the disk cannot take them."""
        note = _Note(self._pack, {role: _to_record(state) for role, state in best.items()})
        weights = {role: np.ascontiguousarray(state.weights) for role, state in best.items()}
        data = save(weights, metadata={"auricle": msgspec.json.encode(note).decode()})
        write_whole(self._path, data, durable=self._durable)

    def read(self) -> dict[str, Best]:
        """The best states by role; none that is not whole, finite and of this pack's size."""
        try:
            data = read_kept(self._path)
            weights = load(data)
            header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
            note = msgspec.json.decode(header.metadata.auricle, type=_Note)
            if note.pack != self._pack:
                return {}
            return {
                role: Best(weights[role], kept.sound, kept.heard())
                for role, kept in note.kept.items()
                if self._sound(role, weights[role])
            }
        except UNSOUND:
            return {}

    def _sound(self, role: str, weights: Flat) -> bool:
        table = self._tables.get(role)
        fits = table is not None and weights.dtype == np.float32 and weights.shape == (table.size,)
        return fits and bool(np.isfinite(weights).all())
