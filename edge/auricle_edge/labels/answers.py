"""Which detection an answer is about: the newest one, or the one of an id; never one that nobody meant."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.clips import Source
from auricle_edge.listening.sound import Detection

MOST_WAITING = 16
"""Detections that wait for an answer; of more, the oldest is settled early."""
MOST_JUDGED = 16
"""Answered detections that are remembered, so that an answer can be changed by id."""


@dataclass(frozen=True, eq=False)
class Heard:
    """A detection that takes an answer."""

    detection: Detection
    samples: NDArray[np.int16] | None
    """The sound that was judged; None where it is not held, so that nothing can be kept of it."""
    at: float
    """When it was heard, by the labeller's clock."""
    until: float
    """Until when it takes an answer."""
    followed: bool = False
    """A command came in the window that it opened, where it is a wake word."""

    @property
    def in_vain(self) -> bool:
        """A wake word that no command followed: it may have been none."""
        return self.detection.kind == "wake" and not self.followed

    def named(self, now: float) -> str:
        """The word, how long ago it was heard, and its id."""
        return f"{self.detection.word}, heard {ago(now - self.at)} ago (id {self.detection.id})"


@dataclass(frozen=True)
class Moment:
    """When a person answered, where what becomes of it is settled later."""

    newest: str | None
    """Id of the detection that was the newest then; None: there was none."""
    at: float
    """By the labeller's clock."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A detection that was answered."""

    heard: Heard
    source: Source
    """`confirmed`, `denied` or `missed`."""
    word: str
    """The label that the answer gave it."""
    clip: str | None
    """Id of what was kept; None where nothing was."""


def ago(seconds: float) -> str:
    """A time span for a person."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Answers:
    """Remembers detections until they are answered, and a few of those that were; its caller holds the lock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[Heard] = deque()
        self._judged: deque[Judged] = deque(maxlen=MOST_JUDGED)
        self._reported: deque[Detection] = deque(maxlen=MOST_WAITING + MOST_JUDGED)
        self._newest: Heard | None = None

    @property
    def newest(self) -> str | None:
        """Id of the newest detection; None before there was one."""
        return None if self._newest is None else self._newest.detection.id

    @property
    def waiting(self) -> tuple[Heard, ...]:
        """Those that still take a first answer, the oldest first."""
        return tuple(self._waiting)

    @property
    def accepted(self) -> tuple[Detection, ...]:
        """The last detections without those that were denied: their sound was not missed."""
        wrong = {each.detection.id for each in self.denied}
        return tuple(each for each in self._reported if each.id not in wrong)

    @property
    def denied(self) -> tuple[Heard, ...]:
        """Those of the last ones that were said to be wrong, and were no other word, or one that was missed."""
        return tuple(each.heard for each in self._judged if each.source in ("denied", "missed"))

    def heard(self, detection: Detection, samples: NDArray[np.int16] | None, now: float) -> None:
        """A detection was reported; from now on it is the newest. A command says that its wake word was followed."""
        if detection.wake is not None:
            self._waiting = deque(
                replace(each, followed=True) if each.detection.id == detection.wake else each for each in self._waiting
            )
        self._newest = Heard(detection, samples, now, now + self._seconds)
        self._reported.append(detection)
        if samples is not None:
            self._waiting.append(self._newest)

    def meant(self, identity: str | None, moment: Moment) -> Heard | Judged:
        """The detection that an answer is about.

        Parameters
        ----------
        identity
            Named by the person; None: the newest one is meant.
        moment
            When the person answered.

        Returns
        -------
        Heard or Judged
            `Judged`, an earlier answer that is to be changed, only where the id was named.

        Raises
        ------
        DataError
            There is no such detection, it takes no answer any more, or it has one and its id was not named.
        """
        now, wanted = moment.at, identity or moment.newest
        if wanted is None:
            raise DataError("Nothing was heard yet, so there is nothing to confirm or deny.")
        judged = next((each for each in reversed(self._judged) if each.heard.detection.id == wanted), None)
        if judged is not None:
            if identity is None:
                raise DataError(
                    f"Nothing was changed: the newest detection, {judged.heard.named(now)}, was {judged.source} "
                    "already. Name its id to change that, or the id of the one that you mean."
                )
            return judged
        found = next((each for each in self._waiting if each.detection.id == wanted and each.until > now), None)
        if found is not None:
            return found
        raise DataError(self._refusal(wanted, identity, now))

    def _refusal(self, wanted: str, identity: str | None, now: float) -> str:
        newest = self._newest
        if newest is None or newest.detection.id != wanted:
            return (
                f"No detection {wanted} waits for an answer: a detection takes one for {self._seconds:g} seconds. "
                "auricle edge clips relabel changes a clip that was kept."
            )
        which = f"The newest detection, {newest.named(now)}," if identity is None else f"{newest.named(now)}"
        if newest.samples is None:
            return f"{which} cannot be answered: its sound was not held. Nothing was changed."
        return f"{which} takes no answer any more: it took one for {self._seconds:g} seconds. Nothing was changed."

    def not_missed(self, detection: Detection, now: float) -> str:
        """Why nothing is kept as missed where the newest sound was accepted, and what to say where that was wrong."""
        try:
            self.meant(detection.id, Moment(None, now))
        except DataError:
            remedy = "It takes no answer any more."
        else:
            remedy = f"Where that was wrong, say auricle edge deny {detection.id}, with --word for what it was."
        return (
            f'Nothing was kept: what was said last was heard as "{detection.word}" (id {detection.id}), and what was '
            f"accepted was not missed. {remedy}"
        )

    def answered(self, judged: Judged) -> None:
        """Remember an answer in the place of the wait, or of an earlier answer, of the same detection."""
        wanted = judged.heard.detection.id
        self._waiting = deque(each for each in self._waiting if each.detection.id != wanted)
        others = [each for each in self._judged if each.heard.detection.id != wanted]
        self._judged = deque([*others, judged], maxlen=MOST_JUDGED)

    def overdue(self, now: float) -> Heard | None:
        """The oldest that waits no more, or of which too many wait; taken out."""
        if self._waiting and (self._waiting[0].until <= now or len(self._waiting) > MOST_WAITING):
            return self._waiting.popleft()
        return None

    def answer_of(self, identity: str) -> Source | None:
        """How a detection was answered; None: not, or not yet."""
        return next((each.source for each in self._judged if each.heard.detection.id == identity), None)
