"""A clip of what is around the device, at chance moments: what it has to learn that no word is."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle_edge.clips import ClipStore, NewClip
from auricle_edge.labels.candidates import Opinion, Recognise, opinion, weight_of
from auricle_edge.labels.keeping import Keeper, Kept, Labelled, no_label, overlap
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.detect.decision import NearMiss
from auricle_edge.listening.sound import Detection

HOUR_SECONDS = 3600.0


class Chances:
    """Random moments, and a limit an hour.

    Parameters
    ----------
    mean
        Seconds between two moments on average; exponential above a quarter of it, so that no habit of the household can
        fall in step with it.
    per_hour
        Most clips in any hour.
    rng
        Draws the moments.
    """

    def __init__(self, mean: float, per_hour: int, rng: random.Random) -> None:
        self._mean, self._per_hour, self._rng = mean, per_hour, rng
        self._next: float | None = None
        self._kept: deque[float] = deque()

    def due(self, now: float) -> bool:
        """Whether a moment has come; once for each."""
        if self._next is None:
            self._next = now + self._wait()
        if now < self._next:
            return False
        self._next = now + self._wait()
        return True

    def allowed(self, now: float) -> bool:
        """Whether one more clip may be kept."""
        while self._kept and now - self._kept[0] >= HOUR_SECONDS:
            self._kept.popleft()
        return len(self._kept) < self._per_hour

    def keep(self, now: float) -> None:
        """Count a clip."""
        self._kept.append(now)

    def _wait(self) -> float:
        return self._mean / 4 + self._rng.expovariate(1 / (0.75 * self._mean))


Place = Detection | NearMiss | Kept
"""A piece of sound that something is known of."""


class Ears(Protocol):
    """What of a detector labels are made from; called from any thread."""

    def audio(self, start: int, end: int) -> NDArray[np.int16]:
        """The samples (end - start,); DataError when they are not all held."""

    @property
    def oldest(self) -> int:
        """Number of the first sample that is held."""

    @property
    def newest(self) -> int:
        """Number of the sample that comes next."""

    @property
    def arrived(self) -> float | None:
        """When the one before it came, by `time.monotonic()`; None: none has come."""

    @property
    def speaking(self) -> bool:
        """Whether there is, or just was, speech."""


class Surroundings:
    """Keeps quiet, and speech that was no detection.

    Parameters
    ----------
    store, keeper
        Take the clips, and remember where they are.
    ears
        The detector.
    settings
        Whether and from which posterior on the model labels.
    chances
        The moments, and how many an hour.
    """

    def __init__(self, store: ClipStore, keeper: Keeper, ears: Ears, settings: LabelSettings, chances: Chances) -> None:
        self._store, self._keeper, self._ears, self._settings, self._chances = store, keeper, ears, settings, chances
        self._length = store.frontend.task.clip_samples
        self._spoke: int | None = None
        self._looked = self._taken = 0

    def pass_over(self) -> None:
        """Take nothing of what was heard up to now."""
        self._taken = self._ears.newest

    def look(
        self, now: float, known: Callable[[], Sequence[Place]], recognise: Recognise | None, *, paused: bool
    ) -> list[Labelled]:
        """At a chance moment: the last clip as a negative, or as one without a label.

        Parameters
        ----------
        known
            The places that something else is known of: they are left out.
        recognise
            Today's model; without, speech stays unlabelled.
        """
        newest = self._ears.newest
        speaking = self._ears.speaking
        if speaking:
            self._spoke = newest
        if not self._chances.due(now) or not self._chances.allowed(now):
            return []
        start = newest - self._length
        moved, self._looked = newest > self._looked, newest
        if paused or not moved or start < max(self._ears.oldest, self._taken):
            return []
        if any(overlap(piece, start, self._length, 0.0) for piece in known()):
            return []
        samples = self._ears.audio(start, newest)
        if not samples.any():
            return []
        quiet = not speaking and (self._spoke is None or newest - self._spoke > self._length)
        found = self._label(samples, self._opinion(samples, recognise, quiet=quiet))
        if found.clip is not None:
            self._chances.keep(now)
            self._taken = newest
            self._keeper.remember(found.clip, start, newest)
        return [found]

    def _opinion(self, samples: NDArray[np.int16], recognise: Recognise | None, *, quiet: bool) -> Opinion:
        if quiet:
            return Opinion("ambient", SILENCE, 1.0)
        if recognise is None:
            return Opinion("unlabelled", UNKNOWN, 0.0)
        posteriors = recognise(self._store.frontend(samples[np.newaxis]))[0]
        return opinion(posteriors, self._store.labels, self._settings.pseudo_threshold)

    def _label(self, samples: NDArray[np.int16], found: Opinion) -> Labelled:
        """Keep a clip as what a model, or silence, says that it is."""
        source = found.source
        if source in ("pseudo", "unlabelled") and not self._settings.pseudo:
            return Labelled(clip=None, word=None, source=source, said="Pseudo-labels are off: nothing was kept.")
        if source == "unlabelled":
            new = NewClip(samples, None, source, 0.0, found.score, guess=found.word)
            said = "Speech was kept without a label."
        else:
            if found.word not in self._store.labels:
                return Labelled(clip=None, word=None, source=source, said=no_label(found.word))
            score = None if found.word == SILENCE else found.score
            new = NewClip(samples, found.word, source, weight_of(source, self._settings), score)
            said = f'What was said was kept as "{found.word}".'
        clip = self._store.add(new)
        return Labelled(clip=clip, word=new.word, source=source, said=said)
