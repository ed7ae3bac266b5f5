"""What can be asked of a device while it runs, from the control socket, a button, or the home's broker."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import msgspec

from auricle.errors import AuricleError
from auricle_edge.labels import Enrolment
from auricle_edge.listening.events.buttons import Press
from auricle_edge.listening.feedback import Feedback
from auricle_edge.listening.sound import Detection, Event, Timeout
from auricle_edge.service.parts import Parts
from auricle_edge.service.status import status

log = logging.getLogger("auricle.edge")

LIVE = 0.1
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

    def status(self) -> Mapping[str, Any]:
        """How the device is: its parts' own words."""
        return status(self._parts, time.monotonic() - self._began, self._last)

    def answer(self, feedback: Feedback, newest: str | None = None) -> Mapping[str, Any]:
        """Take feedback; AuricleError when there is nothing that it could be about.

        Parameters
        ----------
        newest
            Id of the detection that was the newest when the feedback came, where that is some time ago.
        """
        if feedback.verdict == "confirm":
            done = self._parts.labeller.confirm(feedback.id, newest=newest)
        elif feedback.verdict == "deny":
            done = self._parts.labeller.deny(feedback.id, feedback.word, newest=newest)
            if done.detection is not None:
                self._parts.detector.denied(done.detection)
        else:
            done = self._parts.labeller.missed(feedback.word)
            self._parts.reporter.missed()
        answered: dict[str, Any] = msgspec.structs.asdict(done)
        return answered

    def mute(self, muted: bool) -> Mapping[str, Any]:
        """Close or open the microphone."""
        self._parts.capture.mute(muted, "command")
        if self._parts.agent is not None and self.loop is not None:
            asyncio.run_coroutine_threadsafe(self._parts.agent.gate.look(), self.loop)
        return {"muted": self._parts.capture.state.muted}

    def live(self) -> Iterator[Mapping[str, Any]]:
        """Level, posteriors, state and events, ten times a second."""
        seen = self._event
        while True:
            state = self._parts.capture.state
            line: dict[str, Any] = {
                "level_dbfs": state.level_dbfs,
                "clipping": state.clipping,
                "muted": state.muted,
                "running": state.running,
                "problem": state.problem,
                "speaking": self._parts.detector.speaking,
                "posteriors": self._parts.detector.posteriors,
                "state": self._parts.detector.state,
            }
            if self._event is not seen and self._event is not None:
                seen = self._event
                line["timeout" if isinstance(seen, Timeout) else "detection"] = dataclasses.asdict(seen)
            yield line
            time.sleep(LIVE)

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Mapping[str, Any]]:
        """Record takes of a word from the sound that comes."""
        recognise = self._parts.hearing.now.candidate.recognise
        enrolment = Enrolment(word, takes, self._parts.store, self._parts.settings.labels, recognise, keep=keep)
        with self._parts.labeller.paused(), self._parts.taps.listening() as blocks:
            for step in enrolment.run(blocks):
                yield msgspec.structs.asdict(step)

    def answer_later(self, feedback: Feedback) -> Future[Mapping[str, Any]]:
        """Feedback from the loop's thread, or a button's: it may write to the disk, so another thread takes it.

        What is the newest detection is settled now, not when that thread gets to it.
        """
        done = self._parts.labelling.submit(self.answer, feedback, self._parts.labeller.newest)
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
    elif not done.cancelled() and isinstance(done.result(), Mapping):
        log.info("%s", done.result().get("said"))
