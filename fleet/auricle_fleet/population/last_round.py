"""The updates of a run's newest round, kept for its pictures: weights, groups and maps of activations by device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.errors import StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.wire.kinds import UNDECODABLE

FILE = "last-round.safetensors"
"""In the folder of a run's state."""
DAMAGED = "{} is damaged: remove it, and the run leaves no pictures."


@dataclass(frozen=True, eq=False)
class LastRound:
    """Of a round, the devices that counted."""

    number: int
    devices: tuple[str, ...]
    weights: NDArray[np.float32]
    """(K, P) what each sent."""
    groups: Mapping[str, int]
    """By device; empty where the method makes none."""
    maps: NDArray[np.float32] | None = None
    """(K, M) of the layers that drop activations, one after the other in the order of their names; None: none came."""


def write_last_round(folder: Path, found: LastRound) -> None:
    """Keep a round in place of the one before; StorageError where the disk cannot take it."""
    names = [[name, found.groups.get(name)] for name in found.devices]
    head = np.frombuffer(msgspec.json.encode({"round": found.number, "devices": names}), np.uint8)
    tensors: dict[str, NDArray[Any]] = {"head": head, "weights": found.weights}
    write_durably(folder / FILE, save(tensors if found.maps is None else {**tensors, "maps": found.maps}))


class _Head(msgspec.Struct):
    round: int
    devices: list[tuple[str, int | None]]


def read_last_round(folder: Path) -> LastRound | None:
    """The round that is kept; None where none is. StorageError where it is damaged."""
    place = folder / FILE
    try:
        tensors = load(read_kept(place))
        head = msgspec.json.decode(tensors["head"].tobytes(), type=_Head)
        weights = tensors["weights"]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(describe(error, place)) from error
    except (SafetensorError, KeyError, ValueError, TypeError, *UNDECODABLE) as error:
        raise StorageError(DAMAGED.format(place)) from error
    groups = {name: group for name, group in head.devices if group is not None}
    devices = tuple(name for name, _ in head.devices)
    maps = tensors.get("maps")
    if any(each is not None and (each.ndim != 2 or len(each) != len(devices)) for each in (weights, maps)):
        raise StorageError(DAMAGED.format(place))
    return LastRound(head.round, devices, weights, groups, maps)
