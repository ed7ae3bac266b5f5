"""Turns answers, chances and certainty into labelled clips."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.packs.manifest import UNKNOWN
from auricle_edge.clips import ClipStore, NoRoomError, Source
from auricle_edge.labels.answers import Answers, Heard, Judged, Moment, ago
from auricle_edge.labels.candidates import Recognise
from auricle_edge.labels.keeping import Keeper, Labelled, overlap
from auricle_edge.labels.missed import find_missed
from auricle_edge.labels.near_misses import NearMisses, Standing
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.labels.surroundings import HOUR_SECONDS, Chances, Ears, Place, Surroundings
from auricle_edge.listening.detect.decision import NearMiss
from auricle_edge.listening.sound import Detection

_log = logging.getLogger(__name__)


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
            store.check(store.as_label(settings.missed_word), "missed")
        self.recognise = recognise
        self._store, self._ears, self._settings, self._clock = store, ears, settings, clock
        self._chances = Chances(settings.ambient_seconds, settings.automatic_per_hour, rng or random.Random())
        self._length = store.frontend.task.clip_samples
        self._keeper = Keeper(store, settings)
        self._around = Surroundings(store, self._keeper, ears, settings, self._chances)
        self._answers = Answers(settings.confirm_seconds)
        self._near = NearMisses(settings.near_seconds, ears.audio)
        self._near_chances = Chances(HOUR_SECONDS, settings.near_per_hour, random.Random())
        self._lock = threading.RLock()
        self._answering = threading.Lock()
        """Of whoever answers, who may write to the disk; never waited for by the thread that listens."""
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
                self._around.pass_over()

    @property
    def moment(self) -> Moment:
        """Now, for an answer that is taken in later."""
        return Moment(self._answers.newest, self._clock())

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

    def confirm(self, identity: str | None = None, *, moment: Moment | None = None) -> Labelled:
        """It was that word.

        Parameters
        ----------
        identity
            Of the detection that is meant; None: the newest. An answer that was given before is changed only by id.
        moment
            When the person answered, where that is some time ago.

        Raises
        ------
        DataError
            There is no such detection, it takes no answer any more, or it was answered already: nothing was changed.
        """
        return self._answer(identity, moment, "confirmed", None)

    def deny(self, identity: str | None = None, word: str | None = None, *, moment: Moment | None = None) -> Labelled:
        """It was not that word, but `word`; None: no keyword. Errors as of `confirm`; SettingsError: no such word."""
        if word is not None:
            word = self._store.as_label(word)
            self._store.check(word, "confirmed")
        return self._answer(identity, moment, "denied", word)

    def missed(self, word: str | None = None, *, moment: Moment | None = None) -> Labelled:
        """A word was said and not detected: keep the loudest clip of the last seconds that may be it.

        What the device has just kept of the same sound under another label gets this one instead, but a detection that
        nobody denied is not a word that was missed. Seconds are those before the answer, whether sound came or not.

        Raises
        ------
        SettingsError
            No word is named, or the pack does not know it.
        DataError
            Nothing of the last seconds sounds like a word, or what does was accepted.
        """
        word = word or self._settings.missed_word
        if word is None:
            raise SettingsError("Say which word was missed, or set missed_word in [labels].")
        word = self._store.as_label(word)
        self._store.check(word, "missed")
        with self._answering:
            return self._keep_missed(word, (moment or self.moment).at)

    def _keep_missed(self, word: str, at: float) -> Labelled:
        with self._lock:
            accepted = self._answers.accepted
        found = find_missed(self._ears, accepted, self._settings.missed_seconds, self._length, at)
        if isinstance(found, Detection):
            with self._lock:
                raise DataError(self._answers.not_missed(found, at))
        with self._lock:
            self._near.forget(found.start, found.start + self._length)
            wrong = [each for each in self._answers.denied if overlap(each.detection, found.start, self._length)]
        clip, what = self._keeper.keep_missed(found.samples, found.start, word, accepted)
        with self._lock:
            for heard in wrong:
                self._answers.answered(Judged(heard, "missed", word, clip))
        return Labelled(
            clip=clip,
            word=word,
            source="missed",
            said=f"{ago(found.seconds_ago)} ago: {what}",
            detection=wrong[-1].detection.id if wrong else None,
            heard=wrong[-1].detection.word if wrong else None,
            seconds_ago=round(found.seconds_ago, 1),
        )

    def tick(self) -> list[Labelled]:
        """Settle detections that nobody answered in time, take a negative when chance says so, delete what is too old.

        For several times a second. A clip that the disk refuses is given up with a log line: the device goes on.
        """
        now = self._clock()
        done: list[Labelled] = []
        try:
            if self._pruned is None or now - self._pruned >= HOUR_SECONDS / 6:
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
                done.append(self._keep_unanswered(waiting, now))

    def _settle_near(self, now: float) -> list[Labelled]:
        """Words that were almost heard, once it is clear what followed: candidates, if there is room for more."""
        with self._lock:
            endings = self._near.settled(self._ears.newest, lambda detection: self._standing(detection, now))
        done: list[Labelled] = []
        for almost, ending in endings:
            if self._settings.pseudo and not self._pauses and self._near_chances.allowed(now):
                done.append(self._keeper.add_candidate(almost, ending))
                self._near_chances.keep(now)
        return done

    def _standing(self, detection: str, now: float) -> Standing:
        answer = self._answers.answer_of(detection)
        if answer is not None:
            return "confirmed" if answer == "confirmed" else "denied"
        waits = any(w.detection.id == detection and w.until > now for w in self._answers.waiting)
        return "waiting" if waits else "unanswered"

    def _keep_unanswered(self, waiting: Heard, now: float) -> Labelled:
        heard = waiting.detection
        sure = self._settings.pseudo and heard.score >= self._settings.pseudo_threshold
        if sure and not waiting.in_vain and self._chances.allowed(now):
            self._chances.keep(now)
            return self._keep_as_sure(waiting)
        why = "this hour has its share" if sure else "the model was not sure"
        why = "no command followed" if sure and waiting.in_vain else why
        return Labelled(
            clip=None,
            word=heard.word,
            source="pseudo",
            detection=heard.id,
            said=f"Nobody answered and {why}: the sound is forgotten.",
        )

    def _answer(self, identity: str | None, moment: Moment | None, verdict: Source, word: str | None) -> Labelled:
        """Take an answer: nobody else answers meanwhile, and where the disk refuses it may be given again."""
        with self._answering:
            moment = moment or self.moment
            now = moment.at
            with self._lock:
                found = self._answers.meant(identity, moment)
            heard = found.heard if isinstance(found, Judged) else found
            label = word or (heard.detection.word if verdict == "confirmed" else UNKNOWN)
            source: Source = "confirmed" if word is not None else verdict
            if isinstance(found, Judged):
                clip, what = self._keeper.change(found, label, source, now)
            else:
                clip, what = self._keeper.keep(heard, label, source)
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

    def _keep_as_sure(self, heard: Heard) -> Labelled:
        word = heard.detection.word
        clip, said = self._keeper.keep(heard, word, "pseudo")
        return Labelled(
            clip=clip, word=None if clip is None else word, source="pseudo", said=said, detection=heard.detection.id
        )

    def _look_around(self, now: float) -> list[Labelled]:
        return self._around.look(now, self._known_places, self.recognise, paused=bool(self._pauses))

    def _known_places(self) -> list[Place]:
        """The places in the sound that something is known of."""
        with self._lock:
            return [*(w.detection for w in self._answers.waiting), *self._near.places, *self._keeper.places]
