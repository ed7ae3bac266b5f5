"""The clips of all devices of a run: rows of one array, from which a device's are taken when somebody asks for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, overload

import numpy as np
from numpy.typing import NDArray

from auricle.speech.augment import mel_warps
from auricle.speech.features import Energies
from auricle_learning.training.speech_data import Clips, DeviceData

Places = NDArray[np.int64]


@dataclass(frozen=True)
class RowsFile:
    """Energies in an open file of a process of this machine, for its other processes."""

    path: str
    shape: tuple[int, ...]

    def rows(self) -> Energies:
        """Map them, (N, T, mels), read only."""
        return np.memmap(self.path, np.float32, "r", shape=self.shape)


@dataclass(frozen=True, eq=False)
class FleetClips(Sequence[tuple[str, DeviceData]]):
    """Speaker and clips of each device.

    Parameters
    ----------
    rows
        (N, T, mels) energies of clips, or where they lie.
    targets
        (N,) their labels.
    speakers
        (D,) whose voice each device hears.
    bounds
        (D, 3) of each device: its first place, the first that is held out, and the end.
    noise
        Mel energies (F, mels) of background noise; None where none was recorded.
    order
        (M,) rows by place; None: places are rows, and a device's clips are views of them.
    warps
        (D,) by how much the mel axis of each device's clips is stretched; None: not at all.
    """

    rows: Energies | RowsFile
    targets: Places
    speakers: tuple[str, ...]
    bounds: Places
    noise: NDArray[np.float32] | None = None
    order: Places | None = None
    warps: NDArray[np.float64] | None = None
    file: IO[bytes] | None = None
    """Where the rows lie, where they are not in memory."""

    def __len__(self) -> int:
        """Count the devices."""
        return len(self.speakers)

    @overload
    def __getitem__(self, place: int) -> tuple[str, DeviceData]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[str, DeviceData], ...]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, DeviceData] | tuple[tuple[str, DeviceData], ...]:
        """Speaker and clips of a device."""
        if isinstance(place, slice):
            return tuple(self[i] for i in range(*place.indices(len(self))))
        first, middle, end = self.bounds[place].tolist()  # IndexError ends an iteration
        return self.speakers[place], DeviceData(
            self._clips(place, first, middle), self._clips(place, middle, end), self.noise
        )

    @property
    def counts(self) -> Places:
        """(D, 2) clips of each device that it trains on, and that it holds out."""
        return np.diff(self.bounds, axis=1)

    @property
    def trained(self) -> Places:
        """(T,) labels of the clips that the devices train on."""
        begins = np.zeros(int(self.bounds[:, 2].max(initial=0)) + 1, np.int64)
        np.add.at(begins, self.bounds[:, 0], 1)
        np.add.at(begins, self.bounds[:, 1], -1)
        places = np.flatnonzero(np.cumsum(begins))
        return self.targets[places if self.order is None else self.order[places]]

    def _clips(self, place: int, first: int, end: int) -> Clips:
        assert not isinstance(self.rows, RowsFile)
        if self.order is None:
            energies: Energies = np.asarray(self.rows)[first:end]  # of a mapped file every view is dear
            targets = self.targets[first:end]
        else:
            chosen = self.order[first:end]
            energies, targets = np.asarray(self.rows[chosen]), self.targets[chosen]
        if self.warps is not None and self.warps[place] != 1:
            energies = np.matmul(energies, mel_warps(self.warps[place : place + 1, None], energies.shape[-1]))
        return Clips(energies, targets)

    def lent(self) -> FleetClips:
        """These clips for other processes of this machine, as long as this one keeps what is returned, and lives.

        On systems other than Linux they travel in whole.
        """
        if not sys.platform.startswith("linux") or isinstance(self.rows, RowsFile):
            return self
        file = self.file
        if file is None:
            file = os.fdopen(os.memfd_create("clips"), "w+b")
            file.write(np.ascontiguousarray(self.rows).data)
            file.flush()
        path = Path("/proc") / str(os.getpid()) / "fd" / str(file.fileno())
        return replace(self, rows=RowsFile(str(path), self.rows.shape), file=file)

    def opened(self) -> FleetClips:
        """The clips that another process lent, to read here."""
        return replace(self, rows=self.rows.rows()) if isinstance(self.rows, RowsFile) else self

    def __getstate__(self) -> dict[str, object]:
        """Without the open file, which no other process can have."""
        return {**self.__dict__, "file": None}
