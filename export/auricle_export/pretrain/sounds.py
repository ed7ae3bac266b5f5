"""Recordings as mel energies laid end to end, and where in each the word is: what windows are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.sounds import SPEECH_DBFS, as_loud
from auricle.speech.features import Energies, LogMel, stream_energies, word_span


@dataclass(frozen=True, eq=False)
class Sounds:
    """N recordings, at one loudness."""

    energies: Energies
    """(F + 1, mels): one after the other; the last row is silence."""
    starts: NDArray[np.int64]
    """(N,) first frame of each."""
    lengths: NDArray[np.int64]
    """(N,) frames."""
    begins: NDArray[np.int64]
    """(N,) first frame of the word, counted from the recording's own first."""
    ends: NDArray[np.int64]
    """(N,) the frame after the word."""
    levels: NDArray[np.float32]
    """(N,) mean mel energy of the word's frames."""
    targets: NDArray[np.int64]
    """(N,) label of each; -1: no keyword."""

    def __len__(self) -> int:
        """Count the recordings."""
        return len(self.starts)

    @property
    def seconds(self) -> float:
        """Length of all together, at ten milliseconds a frame."""
        return float(self.lengths.sum()) / 100

    def repeated(self, times: NDArray[np.int64]) -> Sounds:
        """The same recordings, each so many times (N,), of which all but one time cost no memory of energies."""
        chosen = np.repeat(np.arange(len(self)), times)
        names = ("starts", "lengths", "begins", "ends", "levels", "targets")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


def lay_out(
    recordings: Iterable[NDArray[np.float32]], frontend: LogMel, targets: Sequence[int] | None = None
) -> Sounds:
    """Energies of recordings (S,) each, at one loudness, with the span of the word in each.

    Parameters
    ----------
    recordings
        Full scale at 1; each at least three frames long.
    frontend
        The pack's.
    targets
        Label of each; without, none holds a keyword.
    """
    floor = frontend.task.frontend.floor
    parts, spans, levels = [], [], []
    for samples in recordings:
        energies = stream_energies(frontend.task, as_loud(samples, SPEECH_DBFS))
        begin, end = word_span(energies, floor)
        parts.append(energies)
        spans.append((begin, end))
        levels.append(float(energies[begin:end].mean()) + 1e-9)
    mels = frontend.task.frontend.mels
    lengths = np.array([len(part) for part in parts], np.int64)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return Sounds(
        energies=np.concatenate([*parts, np.zeros((1, mels), np.float32)]),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        begins=begins,
        ends=ends,
        levels=np.array(levels, np.float32),
        targets=np.full(len(parts), -1) if targets is None else np.asarray(targets, np.int64),
    )


def join_sounds(one: Sounds, other: Sounds) -> Sounds:
    """Both, the second after the first."""
    frames = len(one.energies) - 1
    return Sounds(
        energies=np.concatenate([one.energies[:-1], other.energies]),
        starts=np.concatenate([one.starts, other.starts + frames]),
        lengths=np.concatenate([one.lengths, other.lengths]),
        begins=np.concatenate([one.begins, other.begins]),
        ends=np.concatenate([one.ends, other.ends]),
        levels=np.concatenate([one.levels, other.levels]),
        targets=np.concatenate([one.targets, other.targets]),
    )
