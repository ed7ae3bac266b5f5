"""The detector: blocks of sound in, keywords out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import LogMel
from auricle_edge.listening.detect.decision import Awake, Decider, NearMiss, NearWatch, waken
from auricle_edge.listening.detect.figures import Tally
from auricle_edge.listening.detect.hops import Hops
from auricle_edge.listening.detect.loudness import loudness
from auricle_edge.listening.detect.newest_sound import NewestSound
from auricle_edge.listening.detect.recognisers import Cascade, Posteriors, Recognise
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.detect.voice import make_gate
from auricle_edge.listening.detect.vote import Voter, VoteStream
from auricle_edge.listening.listening_status import DetectFigures, State
from auricle_edge.listening.sound import RATE, Block, Detection, Event, Timeout

_NOISE_SAMPLES = 8 * RATE
"""Of the newest sound, in which the noise of the room is looked for."""


class Detector:
    """Listens to a stream and says which keywords it heard.

    With wake words it sleeps until one of them is heard, then takes commands for a window of time; without, every
    keyword always counts (`Awake`).

    Everything happens hop by hop, counted from the first sample after a gap, so that the same sound gives the same
    detections however it was cut into blocks. A hop's mel energies are computed once, from frames of which the last
    ends with the hop; a window is the energies of the newest frames, as many as a clip has. One thread feeds; every
    other method may be called from any thread.

    Parameters
    ----------
    frontend
        The pack's front-end.
    labels
        The pack's labels, in order.
    recognise
        Posteriors (N, labels) of log-mels (N, T, mels). Of a `Cascade`, the second stage runs where the first one
        proposes a keyword that counts now.
    settings
        How windows are judged.
    model
        What `recognise` is: "personal", "plugin", "ensemble" or "cascade".
    vote
        What has a share in the posteriors, before a second stage is asked; None: nothing.
    clock
        The clock of `Block.arrived`, for latencies.

    Raises
    ------
    SettingsError
        The hop is not a multiple of the front-end's, or longer than a clip; a threshold or wake word that is not a
        keyword; a package is missing.
    """

    def __init__(
        self,
        frontend: LogMel,
        labels: Sequence[str],
        recognise: Recognise,
        settings: DetectSettings | None = None,
        *,
        model: str = "plugin",
        vote: Voter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or DetectSettings()
        self._hops, self._clock = Hops(frontend, self.settings.hop), clock
        self._model = (recognise, model)
        self._decider = Decider(labels, self.settings)
        self._gate = make_gate(self.settings, frontend.task.frontend.floor)
        self._vote = None if vote is None else VoteStream(vote, self.settings.hop)
        least = max(2 * frontend.task.clip_samples + self._hops.span, 0 if self._vote is None else self._vote.reach)
        self._sound = NewestSound(max(round(self.settings.ring * RATE), least))
        self._next = 0
        self._awake: Awake | None = None
        self._tally = Tally()
        self._near: NearWatch | None = None
        self._lock = threading.Lock()

    # -- for the thread that listens

    def feed(self, block: Block) -> list[Detection]:
        """Take a block and say which keywords were heard, wake words included: `listen` without its timeouts."""
        return [event for event in self.listen(block) if isinstance(event, Detection)]

    def listen(self, block: Block) -> list[Event]:
        """Take a block and say what happened; samples that came before are passed over."""
        began = time.thread_time()
        with self._lock:
            closed = self._sleep() if self._sound.has_gap(block) else None
            count, begins = self._sound.take(block)
            if begins:
                self._begin(block.start)
            events: list[Event] = [] if closed is None else [closed]
            while self._next + self._hops.size <= self._sound.ring.newest:
                self._next += self._hops.size
                event = self._judge_hop()
                if event is not None:
                    events.append(event)
            self._tally.sound(count, time.thread_time() - began)
            return events

    def _begin(self, start: int) -> None:
        """Forget everything: the next sample is this one."""
        self._next = start
        self._gate.reset()
        self._decider.reset()
        if self._vote is not None:
            self._vote.begin(start)
        if self._near is not None:
            self._near.reset()

    def _judge_hop(self) -> Event | None:
        """Judge the hop that ends at `_next`."""
        end = self._next
        samples = self._sound.last(self._hops.span, end)
        is_open = self._gate.hear(samples[-self._hops.size :], self._hops.take(samples))
        judged = is_open and end - self._sound.begun >= self._hops.whole
        judged = judged and (self._vote is None or self._vote.is_whole(end))
        self._tally.hop(open_=is_open, judged=judged)
        awake = self._awake is not None and self._awake.listens
        rise = self._rise(end) if judged and awake else 0.0
        decision = self._decider.step(self._posteriors(end, awake) if judged else None, awake=awake, rise=rise)
        if self._near is not None:
            self._near.hop(self._hops.clip(end), self._decider.smoothed, self._decider.closeness, decision is not None)
        return self._pass_hop() if decision is None else self._detection(end, *decision)

    def _posteriors(self, end: int, awake: bool) -> Posteriors:
        """Posteriors (L,) of the window that ends at `end`, by the second stage too where it is asked."""
        recognise, features = self._model[0], self._hops.features()
        found = recognise.first(features) if isinstance(recognise, Cascade) else recognise(features)
        if self._vote is not None:
            found = self._vote.join(found, self._sound.ring, end)
        if isinstance(recognise, Cascade) and self._decider.proposes(found[0], recognise.share, awake=awake):
            self._tally.second_windows += 1
            found = recognise.judged(features, found)
        newest: Posteriors = found[0]
        return newest

    def _rise(self, end: int) -> float:
        """By how much thresholds of commands are higher for the window that ends at `end`."""
        assert self._awake is not None
        return self._awake.rise(self._loudness(end)[0], self.settings.command_drop)

    def _loudness(self, end: int) -> tuple[float, float]:
        """Of the window that ends at `end`: dBFS of its word, and decibels of that above the noise before it."""
        held = min(_NOISE_SAMPLES, end - self._sound.ring.oldest)
        return loudness(self._sound.last(held, end), end - self._hops.clip(end)[0])

    def _pass_hop(self) -> Timeout | None:
        """A hop in which nothing was heard; what it means for the window that may be open."""
        if self._awake is None:
            return None
        left = self._awake.after_hop()
        if left is None:
            return self._sleep()
        self._awake = left
        return None

    def _sleep(self) -> Timeout | None:
        """Close the window, where one is open, without a command."""
        if self._awake is None:
            return None
        wake, self._awake = self._awake.wake, None
        self._tally.timeouts += 1
        return Timeout(wake.id, wake.word, self._next, time.time())

    def _detection(self, end: int, label: int, score: float) -> Detection:
        """The keyword that was heard in the window that ends at `end`, and the state after it."""
        word, word_end = self._decider.labels[label], self._hops.word_end(end)
        first, clip_end = self._hops.clip(end)
        is_wake = word in self.settings.wake
        opened = None if is_wake or self._awake is None else self._awake.wake
        level, over_noise = self._loudness(end)
        detection = Detection(
            id=os.urandom(6).hex(),
            word=word,
            score=score,
            model=self._model[1],
            start=first,
            end=clip_end,
            word_end=word_end,
            at=time.time(),
            latency=self._clock() - self._sound.arrival(word_end),
            kind="wake" if is_wake else "detection",
            wake=None if opened is None else opened.id,
            wake_word=None if opened is None else opened.word,
            level=level,
            over_noise=over_noise,
        )
        self._awake = waken(detection, self.settings.window, self.settings.hop) if is_wake else None
        self._tally.detected(detection)
        return detection

    # -- for every thread

    def replace(
        self,
        recognise: Recognise,
        model: str,
        thresholds: Mapping[str, float] | None = None,
        commands: Mapping[str, float] | None = None,
    ) -> None:
        """Judge with another model from the next block on, and with other thresholds where some are given.

        `commands` are those of the commands after a wake word.

        Raises
        ------
        SettingsError
            A threshold for something that is not a keyword; the old model goes on.
        """
        with self._lock:
            if thresholds is not None:
                self._decider.set_thresholds(thresholds, commands)
            self._model = (recognise, model)

    def sleep(self) -> Timeout | None:
        """Close the window after a wake word, since no sound comes any more; the timeout, where one was open."""
        with self._lock:
            return self._sleep()

    @property
    def state(self) -> State:
        """`open` without wake words, else `asleep` or, after one, `awake`."""
        if not self.settings.wake:
            return "open"
        return "asleep" if self._awake is None else "awake"

    def watch_near(self, share: float, found: Callable[[NearMiss], None]) -> None:
        """Have words told that come to this share of their threshold and are not accepted, see `NearWatch`."""
        rest = round(self.settings.refractory / self.settings.hop)
        with self._lock:
            self._near = NearWatch(self._decider.labels, share, rest, found)

    def audio(self, start: int, end: int) -> NDArray[np.int16]:
        """The samples (end - start,) from the ring; DataError when they are not all there."""
        with self._lock:
            return self._sound.ring.read(start, end)

    @property
    def newest(self) -> int:
        """Number of the sample that comes next."""
        return self._sound.ring.newest

    @property
    def arrived(self) -> float | None:
        """When the newest block came, as `Block.arrived`; None before there was one."""
        with self._lock:
            return self._sound.arrived

    @property
    def oldest(self) -> int:
        """Number of the first sample that `audio` can still give."""
        return self._sound.ring.oldest

    @property
    def speaking(self) -> bool:
        """Whether there is, or just was, speech."""
        return self._gate.open

    @property
    def posteriors(self) -> dict[str, float]:
        """The smoothed posteriors by label, for a meter."""
        with self._lock:
            return dict(zip(self._decider.labels, self._decider.smoothed.tolist(), strict=True))

    def denied(self, identity: str) -> bool:
        """Count a detection as a false accept, once; False when it is not one of the last thousand, or was denied."""
        with self._lock:
            return self._tally.deny(identity)

    @property
    def figures(self) -> DetectFigures:
        """What the detector says about itself."""
        with self._lock:
            return self._tally.figures()
