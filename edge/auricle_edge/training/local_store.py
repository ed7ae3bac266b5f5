"""The device's own model and optimizer state on disk, as safetensors: it never leaves the device.

The two states before the newest one are kept too, `local.1.safetensors` and `local.2.safetensors`, to go back to, and
the newest one of another pack under that pack's name, so that an update of packs that is taken back finds its model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.errors import StorageError
from auricle.files import describe, read_kept, sync_folder, write_whole
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.training.train import LocalState

KEPT_STATES = 2
"""States kept before the newest one."""


class _Note(msgspec.Struct):
    """What stands in the file's metadata."""

    pack: str
    steps: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Metadata(msgspec.Struct):
    auricle: str


class _Header(msgspec.Struct):
    metadata: _Metadata = msgspec.field(name="__metadata__")


UNSOUND = (OSError, SafetensorError, msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError)
"""What reading a file raises that is not a state of ours."""


def _note(data: bytes) -> _Note:
    """The note in a safetensors file; one of `UNSOUND` without one."""
    header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
    return msgspec.json.decode(header.metadata.auricle, type=_Note)


class LocalStore:
    """Keeps a device's `LocalState` between rounds and restarts.

    Parameters
    ----------
    folder
        The device's folder.
    pack
        Identity of the pack; state of another pack is not used.
    table
        Tensor table of the local model.
    durable
        What it keeps survives a power cut.
    """

    def __init__(self, folder: Path, pack: str, table: TensorTable, *, durable: bool = True) -> None:
        self._path, self._pack, self._table = folder / "local.safetensors", pack, table
        self._durable = durable
        self._parked = self._parking(pack)
        self._earlier = [folder / f"local.{i + 1}.safetensors" for i in range(KEPT_STATES)]

    def save(self, state: LocalState) -> None:
        """Keep the state, and the one before; StorageError when the disk cannot take it.

        After a crash anywhere in between the newest state is the old one or the new one, whole.
        """
        note = msgspec.json.encode(_Note(self._pack, state.steps)).decode()
        data = save(as_tensors(state), metadata={"auricle": note})
        if data != _bytes(self._path):
            self._park_other()
            self._set_aside()
            write_whole(self._path, data, durable=self._durable)

    def read(self) -> LocalState | None:
        """The newest state; None without one, or when it is damaged or of another pack."""
        return self._read(self._path) or self._read(self._parked)

    def previous(self) -> LocalState | None:
        """The state before the newest one; None when none is kept that can be used."""
        return next((state for state in map(self._read, self._others()) if state is not None), None)

    def _others(self) -> list[Path]:
        """The files of earlier states, the newest first; after a crash the first may be the newest state itself."""
        newest = _bytes(self._path)
        return [path for path in self._earlier if _bytes(path) != newest]

    def _set_aside(self) -> None:
        """Keep the newest state as the one before; a crash in between leaves the newest one where it is."""
        first = self._earlier[0]
        if self._read(self._path) is None or _bytes(first) == _bytes(self._path):
            return
        try:
            for older, newer in zip(self._earlier[::-1], self._earlier[-2::-1], strict=False):
                if newer.exists():
                    newer.replace(older)
            first.hardlink_to(self._path)
            self._settle()
        except OSError:  # a file system without links
            write_whole(first, _bytes(self._path), durable=self._durable)

    def _settle(self) -> None:
        if self._durable:
            sync_folder(self._path.parent)

    def _parking(self, pack: str) -> Path:
        return self._path.with_name(f"local-{pack[:12]}.safetensors")

    def _park_other(self) -> None:
        """Keep the newest state under its pack's name when that is another one; of such packs, the last."""
        try:
            note = _note(read_kept(self._path))
        except UNSOUND:
            return
        if note.pack == self._pack or not re.fullmatch("[0-9a-f]{64}", note.pack):
            return
        parked = self._parking(note.pack)
        try:
            self._path.replace(parked)
            for other in self._path.parent.glob("local-*.safetensors"):
                if other != parked:
                    other.unlink()
            self._settle()
        except OSError as error:
            raise StorageError(describe(error, parked)) from error

    def _read(self, path: Path) -> LocalState | None:
        try:
            data = read_kept(path)
            tensors = load(data)
            note = _note(data)
        except UNSOUND:
            return None
        weights = tensors.get("weights")
        sound = all(t.dtype == np.float32 and t.ndim == 1 and np.isfinite(t).all() for t in tensors.values())
        if note.pack != self._pack or weights is None or weights.size != self._table.size or not sound:
            return None
        return of_tensors(tensors, note.steps)


def as_tensors(state: LocalState) -> dict[str, Flat]:
    """A state's vectors by the names under which they are kept."""
    tensors = {"weights": state.weights, **_with_kind("slot", state.slots), **_with_kind("variate", state.variates)}
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def of_tensors(tensors: Mapping[str, Flat], steps: int) -> LocalState:
    """The state that `as_tensors` wrote; KeyError without weights."""
    return LocalState(tensors["weights"], _of("slot", tensors), steps, _of("variate", tensors))


def _with_kind(kind: str, vectors: Mapping[str, Flat]) -> dict[str, Flat]:
    return {f"{kind}/{name}": vector for name, vector in vectors.items()}


def _of(kind: str, tensors: Mapping[str, Flat]) -> dict[str, Flat]:
    return {name.removeprefix(f"{kind}/"): t for name, t in tensors.items() if name.startswith(f"{kind}/")}


def _bytes(path: Path) -> bytes:
    """What a file holds; nothing where it cannot be read."""
    try:
        return read_kept(path)
    except OSError:
        return b""
