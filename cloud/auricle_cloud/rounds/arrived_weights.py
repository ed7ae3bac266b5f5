"""The weights of the round's updates, laid out as they arrive: the cohort's matrix is there when the last has come."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.wire.messages import Update
from auricle.wire.tensors import Flat
from auricle_cloud.storage.rows import UpdateRow

MOST = 1 << 28
"""Bytes of rows that are kept; what comes after them is read from its blob when the round closes."""


class ArrivedWeights:
    """One round's matrix, a row for each device that was invited, in the order of their names.

    What is in it has passed every check and was counted. It is a copy: what is not here is read from the blobs, after a
    restart everything. Threads may put rows in while others ask.

    Parameters
    ----------
    size
        P, the weights of the plug-in.
    most
        See `MOST`.
    """

    def __init__(self, size: int, most: int = MOST) -> None:
        self._size, self._room = size, most // (4 * size)
        self._lock = threading.Lock()
        self._round: tuple[str, int] | None = None
        self._matrix: NDArray[np.float32] | None = None
        self._places: dict[str, int] = {}
        self._held: dict[str, str] = {}
        """By device, the hash of the body whose weights are in its row."""

    def begin(self, task: str, number: int, devices: Iterable[str]) -> None:
        """Make room for a round that takes updates from these devices; a round that is here already stays."""
        with self._lock:
            if self._round == (task, number):
                return
            self._forget()
            self._round = (task, number)
            self._places = {device: place for place, device in enumerate(sorted(devices))}

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._round, self._matrix, self._places, self._held = None, None, {}, {}

    def put(self, update: Update, weights: Flat) -> None:
        """Keep the weights (P,) of an update that was counted, where there is room for it."""
        with self._lock:
            place = self._places.get(update.device)
            if place is None or (update.task, update.round) != self._round or len(self._held) >= self._room:
                return
            if self._matrix is None:
                self._matrix = np.empty((len(self._places), self._size), np.float32)
            self._matrix[place] = weights
            self._held[update.device] = update.body

    def matrix_of(self, counted: Sequence[UpdateRow]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """An array (K, P) for the updates that count, in their order, and (K,) which rows are filled in.

        The others are to be written by who asks. Rows move together where devices are missing: from then on nothing
        more is taken in for this round.
        """
        with self._lock:
            known = np.array([self._holds(row) for row in counted], np.bool_)
            if self._matrix is None or not known.any():
                return np.empty((len(counted), self._size), np.float32), np.zeros(len(counted), np.bool_)
            places = [self._places.get(row.device, -1) for row in counted]
            if any(there < here for here, there in enumerate(places)) or sorted(set(places)) != places:
                matrix = np.empty((len(counted), self._size), np.float32)
                matrix[known] = self._matrix[[place for place, found in zip(places, known, strict=True) if found]]
                return matrix, known
            for here, there in enumerate(places):
                if there != here and known[here]:
                    self._matrix[here] = self._matrix[there]
            names = [row.device for row in counted]
            self._places = {name: place for place, name in enumerate(names)}
            self._held = {name: self._held[name] for name, found in zip(names, known, strict=True) if found}
            return self._matrix[: len(counted)], known

    def _holds(self, row: UpdateRow) -> bool:
        return self._round == (row.task, row.round) and self._held.get(row.device) == row.body
