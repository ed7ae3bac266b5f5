"""What a device says at its start, and how it is while it listens: `auricle edge status`, and the line of systemd."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from auricle import __version__
from auricle.errors import SettingsError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.shipped import DEFAULT_PACK
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.sent_status import SentStatus
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.sound import Detection
from auricle_edge.service.answers import (
    CaptureStatus,
    FleetStatus,
    HeardVote,
    ListeningStatus,
    Reporting,
    Sensitivity,
    quote_words,
)
from auricle_edge.service.parts import Parts

OTHER_WORDS = (
    "For other words name another pack: --pack gsc12-res hears the ten commands without a wake word, and a pack of "
    "your own hears your words (docs/service.md)."
)


@dataclass(frozen=True)
class Awaited:
    """The words that a device listens for."""

    wake: tuple[str, ...]
    """What counts while it waits; empty: the commands always count."""
    commands: tuple[str, ...]
    """All other keywords."""
    window: float
    """Seconds after a wake word in which commands count."""

    @property
    def sentence(self) -> str:
        """What to say to the device, without its beginning: `A listens for ...`."""
        if not self.wake:
            return f"{list_words(self.commands)}."
        return f"{quote_words(self.wake)} first, then hears for {self.window:g} s: {list_words(self.commands)}."


def awaited_words(labels: Sequence[str], detect: DetectSettings) -> Awaited:
    """The words of a pack's labels, by what the detector works with."""
    words = (label for label in labels if label not in SPECIAL_LABELS)
    return Awaited(detect.wake, tuple(word for word in words if word not in detect.wake), detect.window)


def list_words(words: Sequence[str]) -> str:
    """`yes, no or up`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def other_words(pack: str) -> str | None:
    """How to hear other words, for the owner of a device that runs the default pack; None for one who chose another."""
    return OTHER_WORDS if pack == DEFAULT_PACK else None


def status(parts: Parts, running: float, last: Detection | None) -> ListeningStatus:
    """How the device is: its parts' own words.

    Parameters
    ----------
    running
        Seconds since its start.
    last
        Its newest detection.
    """
    settings, hearing, detect, vote = parts.settings, parts.hearing.now, parts.detect, parts.vote
    return ListeningStatus(
        device=settings.name,
        agent=__version__,
        pack=parts.pack.identity,
        pack_name=parts.pack.manifest.name,
        running_seconds=round(running, 1),
        capture=_capture(parts.capture.state),
        listening=parts.detector.figures,
        judging_failures=parts.listener.failures,
        model=hearing.candidate.name,
        model_reason=hearing.reason,
        own_model=parts.own_model,
        own_model_reason=parts.own_model_reason,
        state=parts.detector.state,
        wake=detect.wake,
        window=detect.window,
        second_stage=detect.second_stage,
        vote=None if vote is None else HeardVote(model=vote.model, share=vote.share),
        gate=None if parts.agent is None else parts.agent.gate.decision,
        fleet=None if parts.agent is None else fleet_status(parts.agent),
        updates=parts.updates.standing(),
        sensitivity=Sensitivity(step=parts.tuning.step, remote=parts.tuning.accepted),
        report=Reporting(
            hearing=settings.report.hearing and parts.agent is not None,
            words=settings.report.words,
            last=parts.reporter.last,
        ),
        outputs=parts.outputs.delivered,
        left=0 if parts.one_answer is None else parts.one_answer.left,
        last=last,
    )


def _capture(state: CaptureState) -> CaptureStatus:
    since = None if state.last_progress is None else round(time.monotonic() - state.last_progress, 3)
    return CaptureStatus(**dataclasses.asdict(state) | {"last_progress": None, "seconds_since_sound": since})


def fleet_status(agent: Agent) -> FleetStatus:
    """How an agent stands to its fleet."""
    return FleetStatus(
        name=agent.settings.fleet,
        connected=agent.link.connected,
        state=agent.state,
        last_error=agent.link.last_error,
        other_pack=agent.other_pack,
        word=agent.word.sentence,
        sent=_sent_status(agent),
    )


def _sent_status(agent: Agent) -> SentStatus | None:
    try:
        return agent.rounds.sent.status
    except SettingsError:
        return None


def summary(parts: Parts) -> str:
    """One line: whether it listens, for what, and with which model."""
    state = parts.capture.state
    if state.muted:
        return "Muted."
    if not state.running:
        return state.problem or "Waiting for sound."
    if state.problem is not None:
        return state.problem
    wanted = quote_words(parts.detect.wake) or f"{len(parts.words)} words"
    apart = "" if parts.agent is None or parts.agent.other_pack is None else f" {parts.agent.other_pack}"
    return f"Listening to {state.device} for {wanted} with the {parts.hearing.now.candidate.name} model.{apart}"
