"""What can be asked of a device while it runs, from the control socket, a button, or the home's broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import msgspec

from auricle import __version__
from auricle.errors import AuricleError
from auricle_edge.fleet.agent import Agent
from auricle_edge.labels import Enrolment, Labelled, Step
from auricle_edge.labels.answers import Moment
from auricle_edge.listening.events.buttons import Press
from auricle_edge.listening.sound import Detection, Event, Feedback, Timeout
from auricle_edge.service.answers import ListeningStatus, LiveLine, Muted, TrainingStatus
from auricle_edge.service.parts import Parts
from auricle_edge.service.status import fleet_status, status

log = logging.getLogger("auricle.edge")

LIVE_SECONDS = 0.1
"""Seconds between two lines of a live view."""


class Questions:
    """The answers of one device, as `control.Actions` wants them.

    Parameters
    ----------
    parts
        What is asked.
    began
        When the device started, on the clock that never goes back.
    """

    def __init__(self, parts: Parts, began: float) -> None:
        self._parts, self._began = parts, began
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where the agent runs, once it does."""
        self._last: Detection | None = None
        self._event: Event | None = None

    def heard(self, event: Event) -> None:
        """Remember what was heard last; from the listening thread."""
        self._event = event
        if isinstance(event, Detection):
            self._last = event

    def status(self) -> ListeningStatus:
        """How the device is: its parts' own words."""
        return status(self._parts, time.monotonic() - self._began, self._last)

    def answer(self, feedback: Feedback, moment: Moment | None = None) -> Labelled:
        """Take feedback; AuricleError when there is nothing that it could be about.

        Parameters
        ----------
        moment
            When the feedback came, where that is some time ago.
        """
        if feedback.verdict == "confirm":
            done = self._parts.labeller.confirm(feedback.id, moment=moment)
        elif feedback.verdict == "deny":
            done = self._parts.labeller.deny(feedback.id, feedback.word, moment=moment)
            if done.detection is not None:
                self._parts.detector.denied(done.detection)
        else:
            done = self._parts.labeller.missed(feedback.word, moment=moment)
            self._parts.reporter.missed()
        return done

    def mute(self, muted: bool) -> Muted:
        """Close or open the microphone."""
        self._parts.capture.mute(muted, "command")
        if self._parts.agent is not None and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self._parts.agent.gate.look(), self.loop)
        return Muted(self._parts.capture.state.muted)

    def live(self) -> Iterator[LiveLine]:
        """Level, posteriors, state and events, ten times a second."""
        seen = self._event
        while True:
            state = self._parts.capture.state
            line = LiveLine(
                level_dbfs=state.level_dbfs,
                clipping=state.clipping,
                muted=state.muted,
                running=state.running,
                problem=state.problem,
                speaking=self._parts.speaking,
                posteriors=self._parts.detector.posteriors,
                state=self._parts.detector.state,
            )
            if self._event is not seen and self._event is not None:
                seen = self._event
                name = "timeout" if isinstance(seen, Timeout) else "detection"
                line = msgspec.structs.replace(line, **{name: seen})
            yield line
            time.sleep(LIVE_SECONDS)

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Step]:
        """Record takes of a word from the sound that comes."""
        recognise = self._parts.hearing.now.candidate.recognise
        enrolment = Enrolment(word, takes, self._parts.store, self._parts.settings.labels, recognise, keep=keep)
        with self._parts.labeller.paused(), self._parts.taps.listening() as blocks:
            yield from enrolment.run(blocks)

    def answer_later(self, feedback: Feedback) -> Future[msgspec.Struct]:
        """Feedback from the loop's thread, or a button's: it may write to the disk, so another thread takes it.

        Which detection is the newest, and how long ago it was, is settled now, not when that thread gets to it.
        """
        moment = self._parts.labeller.moment
        done: Future[msgspec.Struct] = self._parts.labelling.submit(self.answer, feedback, moment)
        done.add_done_callback(report)
        return done

    def pressed(self, press: Press) -> None:
        """A button was pressed."""
        word = self._parts.settings.buttons.missed_word if press == "missed" else None
        self.answer_later(Feedback(press, word=word))


def report(done: Future[Any]) -> None:
    """Log what went wrong in another thread."""
    error = None if done.cancelled() else done.exception()
    if isinstance(error, AuricleError):
        log.warning("%s", error)
    elif error is not None:
        log.error("A task failed in an unforeseen way", exc_info=error)
    elif not done.cancelled() and isinstance(done.result(), Labelled):
        log.info("%s", done.result().said)


class TrainingOnly:
    """Answers for one agent, as `control.Actions` wants them.

    Parameters
    ----------
    agent
        Who is asked about.
    speech
        The folder that it learns from.
    """

    def __init__(self, agent: Agent, speech: str) -> None:
        self._agent, self._speech, self._began = agent, speech, time.monotonic()

    def status(self) -> TrainingStatus:
        """How the agent is."""
        agent, pack = self._agent, self._agent.trainer.pack
        return TrainingStatus(
            device=agent.settings.device,
            agent=__version__,
            pack=pack.identity,
            pack_name=pack.manifest.name,
            running_seconds=round(time.monotonic() - self._began, 1),
            speech=self._speech,
            training_clips=len(agent.trainer.data.train),
            fleet=fleet_status(agent),
        )

    def answer(self, feedback: Feedback) -> Labelled:
        """Refuse: it hears nothing."""
        raise self._deaf()

    def mute(self, muted: bool) -> Muted:
        """Refuse: it has no microphone."""
        raise self._deaf()

    def live(self) -> Iterator[LiveLine]:
        """Refuse: it hears nothing."""
        raise self._deaf()

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Step]:
        """Refuse: it has no microphone."""
        raise self._deaf()

    def _deaf(self) -> AuricleError:
        return AuricleError(f"This agent learns from {self._speech} and does not listen: start it without --data.")
