"""The device's own model and optimiser state on disk, as safetensors: it never leaves the device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.files import write_durably
from auricle.tensors import TensorTable
from auricle_edge.train import LocalState


class _Note(msgspec.Struct):
    """What stands in the file's metadata."""

    pack: str
    steps: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Metadata(msgspec.Struct):
    auricle: str


class _Header(msgspec.Struct):
    metadata: _Metadata = msgspec.field(name="__metadata__")


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
    """

    def __init__(self, folder: Path, pack: str, table: TensorTable) -> None:
        self._path, self._pack, self._table = folder / "local.safetensors", pack, table

    def save(self, state: LocalState) -> None:
        """Keep the state durably; StorageError when the disk cannot take it."""
        tensors = {"weights": state.weights, **{f"slot/{k}": v for k, v in state.slots.items()}}
        whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        note = msgspec.json.encode(_Note(self._pack, state.steps)).decode()
        write_durably(self._path, save(whole, metadata={"auricle": note}))

    def read(self) -> LocalState | None:
        """The kept state; None when there is none, or when it is damaged or of another pack."""
        try:
            data = self._path.read_bytes()
            tensors = load(data)
            header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
            note = msgspec.json.decode(header.metadata.auricle, type=_Note)
        except (OSError, SafetensorError, msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
            return None
        weights = tensors.get("weights")
        sound = all(t.dtype == np.float32 and t.ndim == 1 and np.isfinite(t).all() for t in tensors.values())
        if note.pack != self._pack or weights is None or weights.size != self._table.size or not sound:
            return None
        slots = {name.removeprefix("slot/"): t for name, t in tensors.items() if name.startswith("slot/")}
        return LocalState(weights, slots, note.steps)
