"""Recordings as mel energies laid end to end, and where in each the word is: what windows are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies, LogMel

PAUSE = 12
"""Frames of silence inside a word, such as before the last sound of "stop"."""
RISE = 0.3
"""Share of the way from the quietest to the loudest frame from which a frame belongs to the word."""
LEAST = 0.7
"""Nepers of energy (3 dB) by which it stands out at least."""
LOUDNESS = 10 ** (-26 / 10)
"""Mean square of the loudest half second to which every recording is brought."""
_LONGEST = 30 * 16_000
"""Samples whose energies are computed at a time."""


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


def word_span(energies: Energies, floor: float) -> tuple[int, int]:
    """First frame of the word in a recording (T, mels), T >= 3, and the frame after its last.

    The level of a frame is the mean over the bands of its logarithm, averaged over three frames; a frame belongs to the
    word when it is above the recording's tenth percentile by `RISE` of the range and by `LEAST`, without a longer pause
    between it and the loudest.
    """
    levels = np.log(energies + np.float32(floor)).mean(axis=1)
    padded = np.pad(levels, 1, mode="edge")
    levels = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    quiet, peak = np.percentile(levels, 10), int(levels.argmax())
    sounding = np.flatnonzero(levels >= quiet + max(LEAST, RISE * (levels[peak] - quiet)))
    begin = end = peak
    for frame in sounding[sounding > peak]:
        if frame - end > PAUSE:
            break
        end = int(frame)
    for frame in sounding[sounding < peak][::-1]:
        if begin - frame > PAUSE:
            break
        begin = int(frame)
    return begin, end + 1


def at_loudness(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Samples (S,) with the loudest half second at `LOUDNESS`."""
    half = 8_000
    padded = np.pad(samples, (0, -len(samples) % half)).reshape(-1, half)
    loudest = float(np.mean(np.square(padded), axis=1).max(initial=0))
    loud: NDArray[np.float32] = samples * np.float32(np.sqrt(LOUDNESS / max(loudest, 1e-9)))
    return loud


def energies_of(samples: NDArray[np.float32], frontend: LogMel) -> Energies:
    """Mel energies (S // hop, mels) of samples (S,), frame by frame as the detector sees them."""
    task = frontend.task
    hop, window = task.frontend.hop, task.frontend.window
    frames = len(samples) // hop
    padded = np.pad(samples, (0, window))
    parts = []
    for first in range(0, frames, _LONGEST // hop):
        count = min(_LONGEST // hop, frames - first)
        span = (count - 1) * hop + window
        part = LogMel(msgspec.structs.replace(task, frames=count, clip_samples=span))
        parts.append(part.energies(padded[None, first * hop : first * hop + span])[0])
    return np.concatenate(parts)


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
        energies = energies_of(at_loudness(samples), frontend)
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
