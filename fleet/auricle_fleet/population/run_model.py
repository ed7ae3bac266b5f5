"""The file of a run's plug-in, by tensor: written in the same bytes for the same weights, and read with its words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from auricle.errors import PackError, StorageError
from auricle.files import describe, write_durably
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat


def write_plugin(path: Path, pack: Pack, weights: Flat, notes: dict[str, str]) -> None:
    """Write a plug-in (P,) with the pack's identity, its labels and some notes; StorageError where it cannot be."""
    table = pack.plugin_table
    tensors = {s.name: np.ascontiguousarray(table.tensor(weights, s.name)) for s in table.specs}
    known = {"pack": pack.identity, "labels": ",".join(pack.labels), **notes}
    write_durably(path, _in_order(save(tensors, metadata=known)))


def _in_order(data: bytes) -> bytes:
    """A safetensors file whose metadata stand by the alphabet: the library writes them in another order each time.

    The file begins with the length of its header, 8 bytes, the least significant first; spaces fill the header up.
    """
    length = int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, object]] = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def read_plugin(path: Path, pack: Pack) -> Flat:
    """Read the plug-in (P,) that `write_plugin` wrote for a pack of the same plug-in and the same words.

    Raises
    ------
    StorageError
        It cannot be read, or is damaged.
    PackError
        Its tensors or its labels are others than the pack's.
    """
    try:
        with safe_open(path, "numpy") as file:
            names, notes = file.keys(), file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in names}
    except OSError as error:
        raise StorageError(describe(error, path)) from error
    except (SafetensorError, TypeError, ValueError, KeyError) as error:  # also numbers of a kind that NumPy has not
        raise StorageError(f"{path} is damaged: it is no whole file of tensors.") from error
    table, manifest = pack.plugin_table, pack.manifest
    wanted = {spec.name: tuple(spec.shape) for spec in table.specs}
    labels, own = notes.get("labels", "no names"), ",".join(pack.labels)
    if labels != own:
        raise PackError(f"{path} is a model of the words {labels}, not of {own}: start from a run of the same words.")
    if {name: tensor.shape for name, tensor in tensors.items()} != wanted:
        raise PackError(
            f"{path} is a model of other tensors than {manifest.plugin} of the pack {manifest.name}: start from a run "
            "of this plug-in."
        )
    flat = np.concatenate([tensors[spec.name].ravel() for spec in table.specs]).astype(np.float32, copy=False)
    if not np.isfinite(flat).all():
        raise StorageError(f"{path} is damaged: it has weights that are no numbers.")
    return flat
