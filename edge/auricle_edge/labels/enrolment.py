"""Guided enrolment: a person says a word a few times; a take that is no good, or another word, is asked for again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, nearest
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.spelling import Spelling
from auricle_edge.clips import ClipStore, NewClip
from auricle_edge.labels.candidates import Recognise
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.labels.takes import ADVICE, FRAME, Fault, Take, judge_take, levels, room
from auricle_edge.labels.word_check import Checked, Doubt, WordCheck
from auricle_edge.listening.sound import Block

StepName = Literal["listen", "say", "kept", "again", "done"]

ROOM_FRAMES = 50
"""Frames of the room that are heard before the first prompt: half a second."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What happens next in an enrolment, for a person and for a program."""

    step: StepName
    word: str
    take: int
    """1 for the first."""
    takes: int
    said: str
    """The sentence for the person."""
    fault: Fault | Doubt | None = None
    peak_dbfs: float | None = None
    clipping: float | None = None
    score: float | None = None
    """Posterior of the word, where a model judged the take."""
    sounds_like: str | None = None
    """The keyword that the model hears most in it."""
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
    recognise
        The model that listens, posteriors (N, L) of log-mels (N, T, mels): each take must sound like the word to it,
        or agree with other takes. Without, any word will do.
    keep
        Keep takes that the model doubts, too.

    Raises
    ------
    SettingsError
        The pack does not know the word, or it is not a word.
    """

    def __init__(
        self,
        word: str,
        takes: int,
        store: ClipStore,
        settings: LabelSettings,
        recognise: Recognise | None = None,
        *,
        keep: bool = False,
    ) -> None:
        words = [label for label in store.labels if label not in SPECIAL_LABELS]
        word = Spelling(words).typed(word)
        if word not in words:
            raise SettingsError(f'The pack does not know the word "{word}": {nearest(word, words)}')
        if not 1 <= takes <= 100:
            raise SettingsError("An enrolment has 1 to 100 takes.")
        self.word, self.takes, self._store, self._settings = word, takes, store, settings
        frontend = store.frontend
        self._check = None if recognise is None else WordCheck(word, frontend, recognise, settings, keep=keep)
        self._length = frontend.task.clip_samples
        self._heard: NDArray[np.int16] = np.zeros(0, np.int16)
        self._next: int | None = None
        self._kept = 0

    def run(self, blocks: Iterable[Block]) -> Iterator[Step]:
        """Listen to blocks and tell each step; the prompt is "say": what is heard from then on is the take.

        A consumer that plays a sound with its prompt takes the next step when the sound is over: blocks that came
        meanwhile are part of the take, and "too early" then means that the prompt itself was heard.

        Raises
        ------
        DataError
            The sound ended, or a take failed `attempts` times, or did not sound like the word `doubts` times.
        StorageError
            A clip could not be kept; those before it are.
        """
        source = iter(blocks)
        yield self._step("listen", 1, "Be quiet for a moment.")
        floor = self._room(source)
        failed = doubted = 0
        while (take := self._kept + 1) <= self.takes:
            yield self._step("say", take, f'Say "{self.word}" now ({take} of {self.takes}).')
            result = self._take(source, floor)
            if result.fault is not None:
                failed += 1
                yield self._step("again", take, ADVICE[result.fault], result)
                if failed >= self._settings.attempts:
                    raise DataError(f"Take {take} failed {failed} times: {ADVICE[result.fault]}")
                floor = self._room(source)
                continue
            yield from self._judge_take(take, result)
            if self._kept >= take:
                failed = doubted = 0
                continue
            doubted += 1
            if doubted >= self._settings.doubts:
                raise DataError(
                    f'Take {take} did not sound like "{self.word}" {doubted} times, and the takes do not agree. '
                    "If they were right, record them with --keep."
                )
            floor = self._room(source)
        yield self._step("done", self.takes, f'{self.takes} takes of "{self.word}" were kept.')

    def _judge_take(self, take: int, result: Take) -> list[Step]:
        """Keep a take that is whole, with earlier ones that agree with it, or ask for it again."""
        assert result.clip is not None
        if self._check is None:
            clip = self._add(result.clip, None)
            return [self._step("kept", take, "Good.", result, clip)]
        checked = self._check.judge(self._heard, result.start)
        if not checked.keep:
            return [self._step("again", take, checked.said, result, None, checked)]
        steps = []
        for spoken in checked.keep[-(self.takes - self._kept) :]:
            clip = self._add(spoken.clip, spoken.score)
            steps.append(self._step("kept", self._kept, checked.said, result, clip, checked))
        return steps

    def _add(self, samples: NDArray[np.int16], score: float | None) -> str:
        clip = self._store.add(NewClip(samples, self.word, "enrolled", self._settings.enrolled_weight, score))
        self._kept += 1
        return clip

    def _take(self, source: Iterator[Block], floor: float) -> Take:
        self._heard = np.zeros(0, np.int16)
        while True:
            self._listen(source)
            result = judge_take(self._heard, floor, self._length, self._settings)
            if result is not None:
                return result

    def _room(self, source: Iterator[Block]) -> float:
        """Level of half a second of the room."""
        self._heard = np.zeros(0, np.int16)
        while len(self._heard) < ROOM_FRAMES * FRAME:
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
        self,
        step: StepName,
        take: int,
        said: str,
        result: Take | None = None,
        clip: str | None = None,
        checked: Checked | None = None,
    ) -> Step:
        spoken = None if checked is None else checked.spoken
        return Step(
            step=step,
            word=self.word,
            take=take,
            takes=self.takes,
            said=said,
            clip=clip,
            fault=result.fault if checked is None and result else checked.doubt if checked else None,
            peak_dbfs=round(result.peak_dbfs, 1) if result else None,
            clipping=round(result.clipping, 4) if result else None,
            score=None if spoken is None else round(spoken.score, 3),
            sounds_like=None if spoken is None else spoken.likest,
        )
