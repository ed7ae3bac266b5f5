"""What an interrupted training goes on from: weights, optimizer and epoch in one safetensors file, written durably."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from auricle.errors import SettingsError, StorageError
from auricle.files import read_kept, write_durably

Facts = dict[str, str | int | float]
"""What must be the same for a training to go on, by the name that a message calls it."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a training's state that is not a tensor."""

    facts: Facts
    epoch: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Epochs done; with the seed it decides every later draw, so no other random state is needed."""
    best_epoch: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The epoch whose weights had the lowest loss on the validation speakers; 0 before the first."""
    best_accuracy: float = 0.0
    """On the validation speakers in that epoch."""
    best_loss: float = 1e300
    hits: float = 0.0
    """Share of keywords heard on the validation streams when they were last judged."""
    best_hits: float = 0.0
    seconds: float = 0.0


class _Metadata(msgspec.Struct):
    auricle: str


class _Header(msgspec.Struct):
    metadata: _Metadata = msgspec.field(name="__metadata__")


@dataclass(frozen=True, eq=False)
class State:
    """A training after some epoch."""

    note: Note
    tensors: dict[str, Tensor]
    """`model/NAME`, `best/NAME` and `optimizer/NAME/SLOT`."""

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix/`, without it."""
        return {name[len(prefix) + 1 :]: t for name, t in self.tensors.items() if name.startswith(f"{prefix}/")}


def state_file(model: str) -> str:
    """Name of the file that keeps a model's training, or its weights in a pack."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in model.lower()) + ".safetensors"


def save_state(path: Path, state: State) -> None:
    """Write the state so that a crash leaves this one or the one before; StorageError when it cannot be written."""
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()}
    write_durably(path, save(whole, metadata={"auricle": msgspec.json.encode(state.note).decode()}))


def load_state(path: Path, facts: Facts) -> State | None:
    """Read the state of an interrupted training; None without one.

    Raises
    ------
    SettingsError
        It is that of other speech, another pack or other settings.
    StorageError
        The file cannot be read or is damaged.
    """
    try:
        data = read_kept(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): check its permissions.") from error
    try:
        tensors = load(data)
        header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")], type=_Header)
        note = msgspec.json.decode(header.metadata.auricle, type=Note)
    except (SafetensorError, msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damage(path) from error
    other = sorted(name for name in {*facts, *note.facts} if facts.get(name) != note.facts.get(name))
    if other:
        raise SettingsError(
            f"{path} is the state of another training (the {other[0]} differs): give the options it began with, "
            "or another --state."
        )
    if not all(torch.isfinite(t).all() for t in tensors.values()):
        raise damage(path)
    return State(note, tensors)


def damage(path: Path) -> StorageError:
    """The error for a state that cannot be gone on from."""
    return StorageError(f"{path} is damaged: remove it to begin this model again.")
