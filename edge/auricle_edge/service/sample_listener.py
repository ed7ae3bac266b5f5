"""Words in an array of samples: the detector of a device, without its microphone."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, refuse_misfits_of
from auricle.packs.pack import Pack, load_pack
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.detect.recognisers import packs_candidate
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.listening.detect.vote import load_voter
from auricle_edge.listening.sound import RATE, Block, Detection
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_learning.runtimes import frontend_of

BLOCK_SAMPLES = RATE // 10
"""Samples that the detector takes at once, as a device's microphone gives them."""


@refuse_misfits_of
class Listener:
    """Hears a pack's words in sound that a program hands over, piece by piece.

    It hears what a device hears that no round has changed: the pack's plug-in, the second stage and the vote that the
    pack names, its wake words and thresholds. With wake words, commands count in the seconds after one of them.

    Parameters
    ----------
    pack
        The name of a shipped pack (`home`, `gsc12`, ...), a folder, a `.tar.zst`, or a pack that was loaded.
    detect
        What counts instead of the pack's own settings, as the table `[detect]` of a device.
    runtime
        As `--runtime` of a device.

    Raises
    ------
    AuricleError
        There is no such pack, it has no trained weights, or nothing here runs it.

    Examples
    --------
    >>> import numpy as np
    >>> Listener("home").feed(np.zeros(16_000, np.int16))
    []
    """

    def __init__(
        self, pack: str | Path | Pack = "home", detect: DetectTable | None = None, *, runtime: str = "auto"
    ) -> None:
        self.pack = pack if isinstance(pack, Pack) else load_pack(pack)
        settings = detect_settings(detect or DetectTable(), self.pack)
        runs = choose_runtime(runtime, self.pack, training=False).runtime
        model = packs_candidate(runs, settings.proposal, second_stage=settings.second_stage != "off")
        vote = load_voter(self.pack, partial(vote_runtime, runs, 1), settings.vote)
        self._detector = Detector(
            frontend_of(runs), self.pack.labels, model.recognise, settings, model=model.name, vote=vote
        )
        self._next = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it can hear, wake words included."""
        return tuple(label for label in self.pack.labels if is_keyword(label))

    def feed(self, samples: NDArray[np.int16] | NDArray[np.float32]) -> list[Detection]:
        """Take the next samples and return the words that were heard, in order.

        The same sound gives the same detections however it is cut. Numbers of samples in a `Detection` count from the
        first one that was fed.

        Parameters
        ----------
        samples
            (n,) at 16 kHz, one channel: int16, or float32 from -1 to 1, of any length.

        Raises
        ------
        DataError
            They are of another type or shape, or not finite.
        """
        sound, heard = _as_int16(samples), list[Detection]()
        for start in range(0, len(sound), BLOCK_SAMPLES):
            block = Block(sound[start : start + BLOCK_SAMPLES], self._next, time.monotonic())
            self._next = block.end
            heard += self._detector.feed(block)
        return heard

    def reset(self) -> None:
        """Forget the sound so far: what comes next is another recording. Numbers of samples go on."""
        self._next += 1  # a gap, at which a detector begins again


def _as_int16(samples: NDArray[np.int16] | NDArray[np.float32]) -> NDArray[np.int16]:
    given: NDArray[Any] = np.asarray(samples)
    if given.ndim != 1:
        raise DataError(f"Samples of one channel are an array (n,), not {given.shape}: take one column of them.")
    if given.dtype == np.int16:
        return given
    if given.dtype != np.float32:
        raise DataError(f"Samples are int16, or float32 from -1 to 1, not {given.dtype}: convert them.")
    if not np.isfinite(given).all():
        raise DataError("Samples must be finite: some are NaN or infinite.")
    sound: NDArray[np.int16] = np.clip(np.rint(given * 32_768), -32_768, 32_767).astype(np.int16)
    return sound
