"""Turns answers, chances and certainty into labelled clips."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle_edge.clips import ClipStore, NewClip, NoRoomError, Source
from auricle_edge.labels.answers import Answers, Heard, Judged
from auricle_edge.labels.candidates import Opinion, Recognise, opinion, weight_of
from auricle_edge.labels.chances import HOUR, Chances
from auricle_edge.labels.levels import loudest_word
from auricle_edge.labels.near_misses import Almost, Ending, NearMisses, Standing
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.detect.near import NearMiss
from auricle_edge.listening.sound import RATE, Detection

_log = logging.getLogger(__name__)
MOST_KEPT = 64
"""Clips that were just kept and are remembered by their place in the sound."""


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
    def speaking(self) -> bool:
        """Whether there is, or just was, speech."""


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an answer or a chance."""

    clip: str | None
    """Id of the clip; None where nothing was kept."""
    word: str | None
    source: Source
    said: str
    """A sentence: what was done, or why not."""
    detection: str | None = None
    """Id of the detection that was judged."""
    heard: str | None = None
    """The word that was detected."""
    seconds_ago: float | None = None
    """How long before the answer."""


@dataclass(frozen=True)
class _Kept:
    clip: str
    start: int
    end: int


class Labeller:
    """Labels clips of one device.

    `detected` only copies sound and may be called by the thread that listens. Everything else may write to the disk:
    call it from another. Sound of a detection that nobody answered and of which the model is not sure never reaches the
    disk.

    Parameters
    ----------
    store
        Keeps the clips.
    ears
        The detector.
    settings
        Times, thresholds, weights.
    recognise
        Today's model, posteriors (N, L) of log-mels (N, T, mels); without, speech that was no detection stays
        unlabelled.
    clock
        Seconds that never go back.
    rng
        Draws the moments at which negatives are looked for.
    """

    def __init__(
        self,
        store: ClipStore,
        ears: Ears,
        settings: LabelSettings,
        recognise: Recognise | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        if settings.missed_word is not None:
            store.check(settings.missed_word, "missed")
        self.recognise = recognise
        self._store, self._ears, self._settings, self._clock = store, ears, settings, clock
        self._chances = Chances(settings.ambient_seconds, settings.automatic_per_hour, rng or random.Random())
        self._length = store.frontend.task.clip_samples
        self._answers = Answers(settings.confirm_seconds)
        self._near = NearMisses(settings.near_seconds, ears.audio)
        self._near_chances = Chances(HOUR, settings.near_per_hour, random.Random())
        self._kept: deque[_Kept] = deque(maxlen=MOST_KEPT)
        self._lock = threading.RLock()
        self._answering = threading.Lock()
        """Of whoever answers, who may write to the disk; never waited for by the thread that listens."""
        self._spoke: int | None = None
        self._looked = self._taken = 0
        self._pruned: float | None = None
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep nothing of what is heard meanwhile: an enrolment's takes would be trained on and held out."""
        with self._lock:
            self._pauses += 1
            self._near.clear()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                self._near.clear()
                self._taken = self._ears.newest

    @property
    def newest(self) -> str | None:
        """Id of the newest detection; None before there was one."""
        return self._answers.newest

    def detected(self, detection: Detection) -> None:
        """Remember a detection's sound until it is answered."""
        samples = None
        if not self._pauses:
            try:
                samples = self._ears.audio(detection.start, detection.end)
            except DataError as error:
                _log.warning("A detection cannot be answered: %s", error)
        with self._lock:
            self._answers.heard(detection, samples, self._clock())
            self._near.accepted(detection)

    def almost(self, near: NearMiss) -> None:
        """Remember where a word was almost heard; for the thread that listens."""
        if not self._pauses:
            self._near.found(near)

    def confirm(self, identity: str | None = None, *, newest: str | None = None) -> Labelled:
        """It was that word.

        Parameters
        ----------
        identity
            Of the detection that is meant; None: the newest. An answer that was given before is changed only by id.
        newest
            Id of the detection that was the newest when the person answered, where that is some time ago.

        Raises
        ------
        DataError
            There is no such detection, it takes no answer any more, or it was answered already: nothing was changed.
        """
        return self._answer(identity, newest, "confirmed", None)

    def deny(self, identity: str | None = None, word: str | None = None, *, newest: str | None = None) -> Labelled:
        """It was not that word, but `word`; None: no keyword. Errors as of `confirm`; SettingsError: no such word."""
        if word is not None:
            self._store.check(word, "confirmed")
        return self._answer(identity, newest, "denied", word)

    def missed(self, word: str | None = None) -> Labelled:
        """A word was said and not detected: keep the loudest second of the last ones that may be it.

        What the device has just kept of the same sound under another label gets this one instead.

        Raises
        ------
        SettingsError
            No word is named, or the pack does not know it.
        DataError
            Nothing of the last seconds sounds like a word.
        """
        word = word or self._settings.missed_word
        if word is None:
            raise SettingsError("Say which word was missed, or set missed_word in [labels].")
        self._store.check(word, "missed")
        with self._answering:
            return self._taken_for_missed(word)

    def _taken_for_missed(self, word: str) -> Labelled:
        newest = self._ears.newest
        begin = max(self._ears.oldest, newest - round(self._settings.missed_seconds * RATE))
        sound = self._ears.audio(begin, newest)
        place = loudest_word(sound, self._length)
        if place is None:
            seconds = len(sound) / RATE
            raise DataError(
                f"Nothing in the last {seconds:.1f} seconds sounds like a word: say it, and tell me sooner."
            )
        start = begin + place
        with self._lock:
            self._near.forget(start, start + self._length)
            taken = [w for w in self._answers.waiting if _overlap(w.detection, start, self._length)]
            earlier = next((k for k in self._kept if _overlap(k, start, self._length)), None)
        if earlier is not None and self._renamed(earlier, word):
            clip, said = earlier.clip, f'The clip is now "{word}".'
        else:
            clip, said = (
                self._add(sound[place : place + self._length], word, "missed"),
                f'A second was kept as "{word}".',
            )
            self._remember(clip, start, start + self._length)
        with self._lock:
            for heard in taken:
                self._answers.answered(Judged(heard, "missed", word, clip))
        return Labelled(clip=clip, word=word, source="missed", said=said)

    def tick(self) -> list[Labelled]:
        """Settle detections that nobody answered in time, take a negative when chance says so, delete what is too old.

        For several times a second. A clip that the disk refuses is given up with a log line: the device goes on.
        """
        now = self._clock()
        done: list[Labelled] = []
        try:
            if self._pruned is None or now - self._pruned >= HOUR / 6:
                self._pruned = now
                self._store.prune()
            done += self._settle(now)
            done += self._settle_near(now)
            done += self._look_around(now)
        except AuricleError as error:
            _log.log(logging.INFO if isinstance(error, NoRoomError) else logging.WARNING, "%s", error)
        return done

    def _settle(self, now: float) -> list[Labelled]:
        """Detections whose time is over: `pseudo` where the model was sure, else forgotten."""
        done: list[Labelled] = []
        while True:
            with self._answering:
                with self._lock:
                    waiting = self._answers.overdue(now)
                if waiting is None:
                    return done
                done.append(self._unanswered(waiting, now))

    def _settle_near(self, now: float) -> list[Labelled]:
        """Words that were almost heard, once it is clear what followed: candidates, if there is room for more."""
        with self._lock:
            endings = self._near.settled(self._ears.newest, lambda detection: self._standing(detection, now))
        return [self._candidate(almost, ending, now) for almost, ending in endings if self._wants_near(now)]

    def _wants_near(self, now: float) -> bool:
        return self._settings.pseudo and not self._pauses and self._near_chances.allowed(now)

    def _standing(self, detection: str, now: float) -> Standing:
        answer = self._answers.answer_of(detection)
        if answer is not None:
            return "confirmed" if answer == "confirmed" else "denied"
        waits = any(w.detection.id == detection and w.until > now for w in self._answers.waiting)
        return "waiting" if waits else "unanswered"

    def _candidate(self, almost: Almost, ending: Ending, now: float) -> Labelled:
        """Keep a near-miss without a label, until a later model has looked at it."""
        near = almost.near
        clip = self._store.add(NewClip(almost.samples, None, ending, 0.0, near.score, guess=near.word))
        self._near_chances.keep(now)
        self._remember(clip, near.start, near.end)
        after = "nothing followed" if ending == "near" else "it was heard when it was said again"
        return Labelled(clip=clip, word=None, source=ending, said=f'"{near.word}" was almost heard, and {after}.')

    def _unanswered(self, waiting: Heard, now: float) -> Labelled:
        heard = waiting.detection
        sure = self._settings.pseudo and heard.score >= self._settings.pseudo_threshold
        if sure and not waiting.in_vain and self._chances.allowed(now):
            self._chances.keep(now)
            return self._kept_as_sure(waiting)
        why = "this hour has its share" if sure else "the model was not sure"
        why = "no command followed" if sure and waiting.in_vain else why
        return Labelled(
            clip=None,
            word=heard.word,
            source="pseudo",
            detection=heard.id,
            said=f"Nobody answered and {why}: the sound is forgotten.",
        )

    def _look_around(self, now: float) -> list[Labelled]:
        """At a chance moment: the last second as a negative, or as one without a label."""
        newest = self._ears.newest
        speaking = self._ears.speaking
        if speaking:
            self._spoke = newest
        if not self._chances.due(now) or not self._chances.allowed(now):
            return []
        start = newest - self._length
        moved, self._looked = newest > self._looked, newest
        if self._pauses or not moved or start < max(self._ears.oldest, self._taken):
            return []
        with self._lock:
            waiting = [w.detection for w in self._answers.waiting]
            known: list[Detection | NearMiss | _Kept] = [*waiting, *self._near.places, *self._kept]
        if any(_overlap(piece, start, self._length, 0.0) for piece in known):
            return []
        samples = self._ears.audio(start, newest)
        if not samples.any():
            return []
        quiet = not speaking and (self._spoke is None or newest - self._spoke > self._length)
        found = self._negative(samples, quiet=quiet)
        if found.clip is not None:
            self._chances.keep(now)
            self._taken = newest
            self._remember(found.clip, start, newest)
        return [found]

    def _negative(self, samples: NDArray[np.int16], *, quiet: bool) -> Labelled:
        if quiet:
            return self._labelled(samples, Opinion("ambient", SILENCE, 1.0))
        if self.recognise is None:
            return self._labelled(samples, Opinion("unlabelled", UNKNOWN, 0.0))
        posteriors = self.recognise(self._store.frontend(samples[np.newaxis]))[0]
        return self._labelled(samples, opinion(posteriors, self._store.labels, self._settings.pseudo_threshold))

    def _labelled(self, samples: NDArray[np.int16], found: Opinion) -> Labelled:
        """Keep a clip as what a model, or silence, says that it is."""
        source = found.source
        if source in ("pseudo", "unlabelled") and not self._settings.pseudo:
            return Labelled(clip=None, word=None, source=source, said="Pseudo-labels are off: nothing was kept.")
        if source == "unlabelled":
            new = NewClip(samples, None, source, 0.0, found.score, guess=found.word)
            said = "Speech was kept without a label."
        else:
            if found.word not in self._store.labels:
                return Labelled(clip=None, word=None, source=source, said=_no_label(found.word))
            score = None if found.word == SILENCE else found.score
            new = NewClip(samples, found.word, source, weight_of(source, self._settings), score)
            said = f'A second was kept as "{found.word}".'
        clip = self._store.add(new)
        return Labelled(clip=clip, word=new.word, source=source, said=said)

    def _answer(self, identity: str | None, newest: str | None, verdict: Source, word: str | None) -> Labelled:
        """Take an answer: nobody else answers meanwhile, and where the disk refuses it may be given again."""
        with self._answering:
            now = self._clock()
            with self._lock:
                found = self._answers.meant(identity, newest, now)
            heard = found.heard if isinstance(found, Judged) else found
            label = word or (heard.detection.word if verdict == "confirmed" else UNKNOWN)
            source: Source = "confirmed" if word is not None else verdict
            if isinstance(found, Judged):
                clip, what = self._changed(found, label, source)
            else:
                clip, what = self._keep(heard, label, source)
            with self._lock:
                self._answers.answered(Judged(heard, source, label, clip))
        done = "Confirmed" if verdict == "confirmed" else "Denied"
        return Labelled(
            clip=clip,
            word=None if clip is None else label,
            source=source,
            said=f"{done}: {heard.named(now)}. {what}",
            detection=heard.detection.id,
            heard=heard.detection.word,
            seconds_ago=round(now - heard.at, 1),
        )

    def _keep(self, heard: Heard, word: str, source: Source) -> tuple[str | None, str]:
        """Keep a detection's clip; its id and a sentence."""
        if word not in self._store.labels:
            return None, _no_label(word)
        assert heard.samples is not None, "only a detection whose sound is held takes an answer"
        clip = self._add(heard.samples, word, source, heard.detection)
        self._remember(clip, heard.detection.start, heard.detection.end)
        return clip, f'The clip was kept as "{word}" ({source}).'

    def _changed(self, judged: Judged, word: str, source: Source) -> tuple[str | None, str]:
        """Change an answer that was given before; its clip gets the other label, or goes where there is none for it."""
        if (judged.word, judged.source) == (word, source):
            named = judged.heard.named(self._clock())
            raise DataError(f"Nothing was changed: {named} was {source} already, as {word}.")
        if judged.clip is None:
            return self._keep(judged.heard, word, source)
        if word not in self._store.labels:
            self._store.delete([judged.clip])
            return None, f'The pack has no label "{word}": the clip was deleted.'
        try:
            self._store.relabel(judged.clip, word, source, weight_of(source, self._settings))
        except DataError:
            return self._keep(judged.heard, word, source)
        return judged.clip, f'The clip is now "{word}" ({source}), no longer "{judged.word}".'

    def _kept_as_sure(self, heard: Heard) -> Labelled:
        word = heard.detection.word
        clip, said = self._keep(heard, word, "pseudo")
        return Labelled(
            clip=clip, word=None if clip is None else word, source="pseudo", said=said, detection=heard.detection.id
        )

    def _renamed(self, kept: _Kept, word: str) -> bool:
        """Give a clip that was just kept another label; False where it is no more, or cannot be read."""
        try:
            self._store.relabel(kept.clip, word, "missed", weight_of("missed", self._settings))
        except DataError:
            return False
        return True

    def _remember(self, clip: str, start: int, end: int) -> None:
        with self._lock:
            self._kept.append(_Kept(clip, start, end))

    def _add(self, samples: NDArray[np.int16], word: str, source: Source, heard: Detection | None = None) -> str:
        score, model = (None, None) if heard is None else (min(1.0, max(0.0, heard.score)), heard.model)
        return self._store.add(NewClip(samples, word, source, weight_of(source, self._settings), score, model))


def _no_label(word: str) -> str:
    return f'The pack has no label "{word}": nothing was kept.'


def _overlap(piece: Detection | NearMiss | _Kept, start: int, length: int, least: float = 0.5) -> bool:
    """Whether a piece of sound and a clip have more than this part of the clip in common."""
    return min(piece.end, start + length) - max(piece.start, start) > least * length
