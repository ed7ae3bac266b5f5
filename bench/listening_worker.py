"""A process that does nothing but listen to a file: `python bench/listening_worker.py` with a `Task` on stdin.

It prints a `Heard` as JSON. Its memory is what keyword detection takes: Python, NumPy, onnxruntime, the pack's model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from auricle.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.start import read_start, start_weights
from auricle_edge.detect import Detector, DetectSettings, Recognise, ensemble, recogniser
from auricle_edge.runtimes import choose_runtime
from auricle_edge.sound import RATE, Block


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to listen to, and with what."""

    sound: str
    """File of int16 samples at 16 kHz, without a header."""
    pack: str
    models: tuple[tuple[str, str | None], ...]
    """Architecture, and file of its weights; None: the pack's. Several are an ensemble."""
    settings: DetectSettings
    real_time: bool
    block: int = 1_600
    """Samples of a block."""


class Found(msgspec.Struct, frozen=True):
    """A detection."""

    word: str
    score: float
    decided: float
    """Seconds from the arrival of the first sample to the decision."""
    word_end: int
    """As the detector estimated it."""


class Heard(msgspec.Struct, frozen=True):
    """What came of it."""

    found: tuple[Found, ...]
    real_time_factor: float
    open_share: float
    windows: int
    pss_kb: int
    late: float
    """Most seconds by which a block was taken too late; 0 without real time."""


def recogniser_of(pack: Pack, models: tuple[tuple[str, str | None], ...]) -> Recognise:
    """One model, or the mean of several."""
    runtime = choose_runtime("auto", pack, training=False).runtime

    def weights(model: str, file: str | None) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        if file is None:
            return start_weights(pack, model)
        return read_start(Path(file).read_bytes(), pack.table(model), file)

    parts = [recogniser(runtime, model, weights(model, file)) for model, file in models]
    return parts[0] if len(parts) == 1 else ensemble(parts)


class Player:
    """Hands out the blocks of a file: as they would come from a microphone, or as fast as they are taken."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._began = self._taken = time.monotonic()
        self._arrived = 0.0
        self.late = 0.0

    def clock(self) -> float:
        """Seconds since the first sample; without real time, the block's own plus the time spent on it."""
        now = time.monotonic()
        return now - self._began if self._task.real_time else self._arrived + now - self._taken

    def __iter__(self) -> Iterator[Block]:
        """Block by block."""
        start = 0
        with Path(self._task.sound).open("rb") as file:
            while data := file.read(2 * self._task.block):
                samples = np.frombuffer(data, np.int16)
                due = (start + len(samples)) / RATE
                if self._task.real_time:
                    wait = due - self.clock()
                    time.sleep(max(0.0, wait))
                    self.late = max(self.late, -wait)
                self._arrived, self._taken = due, time.monotonic()
                yield Block(samples, start, due)
                start += len(samples)


def listen(task: Task) -> Heard:
    """Listen to the whole file."""
    pack = load_pack(task.pack)
    player = Player(task)
    detector = Detector(
        LogMel(pack.manifest.task), pack.labels, recogniser_of(pack, task.models), task.settings, clock=player.clock
    )
    found = []
    for block in player:
        for d in detector.feed(block):
            found.append(Found(d.word, d.score, d.word_end / RATE + d.latency, d.word_end))
    figures = detector.figures
    return Heard(
        tuple(found), figures.real_time_factor, figures.open_share, figures.windows, _pss(), max(0.0, player.late)
    )


def _pss() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    sys.stdout.buffer.write(msgspec.json.encode(listen(given)))
