"""Sound hop by hop: the last seconds of it, the mel energies of each hop, and the window of the newest of them."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.packs.manifest import Task
from auricle.speech.features import LogMel, VectorStream, word_span
from auricle_edge.listening.sound import RATE


class Ring:
    """Sound by the number of its samples; what was lost in a gap is silence.

    Parameters
    ----------
    size
        Samples that are kept.
    """

    def __init__(self, size: int) -> None:
        self._samples = np.zeros(size, np.int16)
        self.newest = 0
        """Number of the first sample that has not come yet."""
        self._first = 0

    @property
    def oldest(self) -> int:
        """Number of the first sample that is still held."""
        return max(self._first, self.newest - len(self._samples))

    def begin(self, start: int) -> None:
        """Forget everything: the next sample is this one."""
        self._samples[:] = 0
        self.newest = self._first = start

    def append(self, samples: NDArray[np.int16]) -> None:
        """Take samples (n,) that follow the newest."""
        size = len(self._samples)
        self.newest += len(samples)
        kept = samples[-size:]
        place = (self.newest - len(kept)) % size
        head = min(len(kept), size - place)
        self._samples[place : place + head] = kept[:head]
        self._samples[: len(kept) - head] = kept[head:]

    def skip(self, count: int) -> None:
        """Let so many samples pass that nobody heard."""
        kept = min(count, len(self._samples))
        self.newest += count - kept
        self.append(np.zeros(kept, np.int16))

    def read(self, start: int, end: int) -> NDArray[np.int16]:
        """A copy of the samples from `start` to before `end`.

        Raises
        ------
        DataError
            They are not all held: too old, or still to come.
        """
        if not self.oldest <= start <= end <= self.newest:
            seconds = (self.newest - self.oldest) / RATE
            raise DataError(
                f"The samples {start} to {end} are not in memory, which holds the last {seconds:.1f} seconds, "
                f"{self.oldest} to {self.newest}: ask sooner, or set a larger ring in [detect]."
            )
        return self._samples[np.arange(start, end) % len(self._samples)]


class Hops:
    """The energies of the newest frames, as many as a clip has; the last frame ends with the newest hop.

    Parameters
    ----------
    frontend
        The pack's front-end.
    seconds
        Of a hop.

    Raises
    ------
    SettingsError
        The hop is not a multiple of the front-end's, or longer than a clip.
    """

    def __init__(self, frontend: LogMel, seconds: float) -> None:
        self._frontend, self._task = frontend, frontend.task
        task, shape = frontend.task, frontend.task.frontend
        self._frames = hop_frames(seconds, task)
        self.size = self._frames * shape.hop
        """Samples of a hop."""
        self.span = self.size - shape.hop + shape.window
        """Samples under a hop's frames."""
        self.whole = task.frames * shape.hop
        """Samples after a gap from which on a window is whole."""
        self.lead = ((task.frames - 1) * shape.hop + shape.window - task.clip_samples + 1) // 2
        """Samples after a clip that its last frame sees."""
        self._hop_frontend = LogMel(msgspec.structs.replace(task, frames=self._frames, clip_samples=self.span))
        kept = -(-task.frames // task.unit) * task.unit
        self._energies = np.zeros((kept, shape.mels), np.float32)
        self._stream: VectorStream | None = None
        self._unheard = kept
        """Frames that came since the front-end's network last heard them."""
        self._vectors = np.zeros((0, 0), np.float32)

    def take(self, samples: NDArray[np.int16]) -> NDArray[np.float32]:
        """Energies (frames of a hop, mels) of the newest samples (at most `span`); after a gap there are fewer."""
        under = np.pad(samples, (self.span - len(samples), 0))
        energies: NDArray[np.float32] = self._hop_frontend.energies(under[None])[0]
        self._energies = np.concatenate((self._energies[self._frames :], energies))
        self._unheard += self._frames
        return energies

    def features(self) -> NDArray[np.float32]:
        """What models take of the window, (1, T, mels) log-mels or (1, T', size) vectors.

        A network goes on from what it heard before; where that is longer ago than a window, it begins again.
        """
        if self._task.frontend.network is UNSET:
            return self._frontend.finish(self._energies[None])
        kept = len(self._energies)
        if self._stream is None or self._unheard >= kept:
            self._stream, self._unheard, self._vectors = self._frontend.stream(), kept, self._vectors[:0, :0]
        newest = self._energies[kept - self._unheard :].reshape(-1, self._task.unit, self._energies.shape[1])
        count, size = self._task.input_shape
        heard = [self._vectors.reshape(-1, size), *(self._stream(energies)[None] for energies in newest)]
        self._unheard, self._vectors = 0, np.concatenate(heard)[-count:]
        return self._vectors[None]

    def clip(self, end: int) -> tuple[int, int]:
        """First sample of the clip under a window whose last frame ends at `end`, and the first after it."""
        return end - self.lead - self._task.clip_samples, end - self.lead

    def word_end(self, end: int) -> int:
        """Sample at which the word in that window ended, by its energies; within the clip."""
        frame = word_span(self._energies[-self._task.frames :], self._task.frontend.floor)[1] - 1
        return min(end - self.lead, end - (self._task.frames - 1 - frame) * self._task.frontend.hop)


def hop_frames(seconds: float, task: Task) -> int:
    """Frames of a hop of so many seconds; SettingsError where they are not whole units, or more than a clip's."""
    unit, samples = task.unit * task.frontend.hop, seconds * RATE
    most, units = task.frames // task.unit, round(samples / unit)
    if not 1 <= units <= most or abs(units * unit - samples) > 1e-6 * RATE:
        raise SettingsError(
            f"hop = {seconds} in [detect] must be a multiple of {unit / RATE} seconds and no longer than a clip: "
            f"say {max(1, min(units, most)) * unit / RATE}."
        )
    return units * task.unit
