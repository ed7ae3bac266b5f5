"""Guided enrolment: a person says a word a few times, each take is checked, and said again where it was no good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, nearest
from auricle.speech.words import SPECIAL_LABELS
from auricle_edge.clips import ClipStore, NewClip
from auricle_edge.labels.levels import FRAME, levels, room
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.labels.takes import ADVICE, Take, judged
from auricle_edge.sound import Block

ROOM = 50
"""Frames of the room that are heard before the first prompt: half a second."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens next in an enrolment, for a person and for a program."""

    step: Literal["listen", "say", "kept", "again", "done"]
    word: str
    take: int
    """1 for the first."""
    takes: int
    said: str
    """The sentence for the person."""
    fault: str | None = None
    peak_dbfs: float | None = None
    clipping: float | None = None
    clip: str | None = None
    """Id of the clip that was kept."""


class Enrolment:
    """So many good takes of a word.

    Parameters
    ----------
    word
        One of the pack's words.
    takes
        How many.
    store
        Keeps them.
    settings
        What a good take is.

    Raises
    ------
    SettingsError
        The pack does not know the word, or it is no word.
    """

    def __init__(self, word: str, takes: int, store: ClipStore, settings: LabelSettings) -> None:
        words = [label for label in store.labels if label not in SPECIAL_LABELS]
        if word not in words:
            raise SettingsError(f'The pack does not know the word "{word}": {nearest(word, words)}')
        if not 1 <= takes <= 100:
            raise SettingsError("An enrolment has 1 to 100 takes.")
        self.word, self.takes, self._store, self._settings = word, takes, store, settings
        self._length = store.frontend.task.clip_samples
        self._heard: NDArray[np.int16] = np.zeros(0, np.int16)
        self._next: int | None = None

    def run(self, blocks: Iterable[Block]) -> Iterator[Step]:
        """Listen to blocks and tell each step; the prompt is "say": what is heard from then on is the take.

        A consumer that plays a sound with its prompt takes the next step when the sound is over: blocks that came
        meanwhile are part of the take, and "too early" then means that the prompt itself was heard.

        Raises
        ------
        DataError
            The sound ended, or a take failed `attempts` times.
        StorageError
            A clip could not be kept; those before it are.
        """
        source = iter(blocks)
        yield self._step("listen", 1, "Be quiet for a moment.")
        floor = self._room(source)
        for take in range(1, self.takes + 1):
            for attempt in range(1, self._settings.attempts + 1):
                yield self._step("say", take, f'Say "{self.word}" now ({take} of {self.takes}).')
                result = self._take(source, floor)
                if result.clip is not None:
                    yield self._kept(result.clip, take, result)
                    break
                assert result.fault is not None
                last = attempt == self._settings.attempts
                yield self._step("again", take, ADVICE[result.fault], result)
                if last:
                    raise DataError(f"Take {take} failed {attempt} times: {ADVICE[result.fault]}")
                floor = self._room(source)
        yield self._step("done", self.takes, f'{self.takes} takes of "{self.word}" were kept.')

    def _kept(self, samples: NDArray[np.int16], take: int, result: Take) -> Step:
        clip = self._store.add(NewClip(samples, self.word, "enrolled", self._settings.enrolled_weight))
        return self._step("kept", take, "Good.", result, clip)

    def _take(self, source: Iterator[Block], floor: float) -> Take:
        self._heard = np.zeros(0, np.int16)
        while True:
            self._listen(source)
            result = judged(self._heard, floor, self._length, self._settings)
            if result is not None:
                return result

    def _room(self, source: Iterator[Block]) -> float:
        """Level of half a second of the room."""
        self._heard = np.zeros(0, np.int16)
        while len(self._heard) < ROOM * FRAME:
            self._listen(source)
        return room(levels(self._heard))

    def _listen(self, source: Iterator[Block]) -> None:
        """Hear one block more; where sound was lost before it, begin again with it."""
        block = next(source, None)
        if block is None:
            raise DataError("The sound ended before the enrolment did: see whether the microphone is plugged in.")
        lost = self._next is not None and block.start != self._next
        self._heard = block.samples if lost else np.concatenate([self._heard, block.samples])
        self._next = block.end

    def _step(
        self, step: Literal["listen", "say", "kept", "again", "done"], take: int, said: str,
        result: Take | None = None, clip: str | None = None,
    ) -> Step:  # fmt: skip
        return Step(
            step=step, word=self.word, take=take, takes=self.takes, said=said, clip=clip,
            fault=result.fault if result else None, peak_dbfs=round(result.peak_dbfs, 1) if result else None,
            clipping=round(result.clipping, 4) if result else None,
        )  # fmt: skip
