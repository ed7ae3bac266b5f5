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

    An update is decoded where it will be needed; its row counts once the update was counted. All of it is a copy: what
    is not here is read from the blobs, after a restart everything. Threads may put rows in while others ask.

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
        self._closed = False

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
        self._round, self._matrix, self._places, self._held, self._closed = None, None, {}, {}, False

    def row(self, update: Update) -> Flat | None:
        """The row (P,) for the weights of an update that comes, where there is room for it.

        What is written there counts for nothing until it was `put`: of a device there is one update in hand at a time.
        """
        with self._lock:
            return self._row(update)

    def _row(self, update: Update) -> Flat | None:
        place = self._places.get(update.device)
        full = update.device in self._held or len(self._held) >= self._room
        if place is None or full or self._closed or (update.task, update.round) != self._round:
            return None
        if self._matrix is None:
            self._matrix = np.empty((len(self._places), self._size), np.float32)
        row: Flat = self._matrix[place]
        return row

    def put(self, update: Update, weights: Flat) -> None:
        """Keep the weights (P,) of an update that was counted, if they are in its row."""
        with self._lock:
            row = self._row(update)
            if row is not None and np.may_share_memory(row, weights):
                self._held[update.device] = update.body

    def matrix_of(self, counted: Sequence[UpdateRow]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """An array (K, P) for the updates that count, in their order, and (K,) which rows are filled in.

        The others are to be written by who asks. Where somebody is missing rows are copied, for what comes too late may
        still be written to its own; nothing more is taken in for this round then.
        """
        with self._lock:
            known = np.array([self._holds(row) for row in counted], np.bool_)
            names = [row.device for row in counted]
            if self._matrix is not None and known.all() and names == [*self._places]:
                return self._matrix, known
            matrix = np.empty((len(counted), self._size), np.float32)
            if self._matrix is None or not known.any():
                return matrix, np.zeros(len(counted), np.bool_)
            for place in np.flatnonzero(known):
                matrix[place] = self._matrix[self._places[names[place]]]
            self._matrix, self._closed = matrix, True
            self._places = {name: place for place, name in enumerate(names)}
            self._held = {name: self._held[name] for name, found in zip(names, known, strict=True) if found}
            return matrix, known

    def _holds(self, row: UpdateRow) -> bool:
        return self._round == (row.task, row.round) and self._held.get(row.device) == row.body
