"""What a running service answers, and how a command reads it.

A field with a default came later than the rest: a service that was not restarted since an update does not say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from auricle.errors import AuricleError
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import Standing
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.sent_status import SentStatus
from auricle_edge.listening.events.outputs import Delivered
from auricle_edge.listening.listening_status import CaptureState, DetectFigures, State
from auricle_edge.listening.sound import Detection, Timeout


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a device stands to its fleet."""

    name: str
    connected: bool
    state: str
    last_error: str | None
    other_pack: str | None = None
    word: str = ""
    sent: SentStatus | None = None
    """What left the device in rounds; None where its file is damaged."""


class HeardVote(msgspec.Struct, frozen=True, kw_only=True):
    """The vote of the pack, where the device hears it."""

    model: str
    share: float
    """In the mean of log posteriors."""


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """The step of the coordinator, and whether the owner takes one."""

    step: int = 0
    remote: bool = False


class Reporting(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator hears of how well the device hears."""

    hearing: bool = False
    words: bool = False
    last: HearingFigures | None = None


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Of every service."""

    device: str
    agent: str
    pack: str
    pack_name: str
    running_seconds: float


class TrainingStatus(Running, frozen=True, kw_only=True):
    """Of one that learns from a folder of recordings."""

    speech: str
    training_clips: int
    fleet: FleetStatus


@dataclass(frozen=True)
class CaptureStatus(CaptureState):
    """The microphone; `last_progress`, a second of the service's own clock, is not told."""

    seconds_since_sound: float | None = None


class ListeningStatus(Running, frozen=True, kw_only=True):
    """Of one that listens: its parts' own words."""

    capture: CaptureStatus
    listening: DetectFigures
    judging_failures: int
    model: str
    model_reason: str
    own_model: str | None = None
    own_model_reason: str | None = None
    state: State = "open"
    wake: tuple[str, ...] = ()
    window: float = 0.0
    second_stage: str = ""
    vote: HeardVote | None = None
    gate: Decision | None
    fleet: FleetStatus | None
    updates: Standing
    sensitivity: Sensitivity = Sensitivity()
    report: Reporting = Reporting()
    outputs: dict[str, Delivered]
    left: int = 0
    """Words that another device of the home answered."""
    last: Detection | None


class Muted(msgspec.Struct, frozen=True):
    """Whether the microphone is closed."""

    muted: bool


class LiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of what a service hears."""

    level_dbfs: float | None
    clipping: float
    muted: bool
    running: bool
    problem: str | None
    speaking: bool
    posteriors: dict[str, float]
    state: State = "open"
    detection: Detection | msgspec.UnsetType = msgspec.UNSET
    """What was heard since the line before."""
    timeout: Timeout | msgspec.UnsetType = msgspec.UNSET


def read_status(told: Mapping[str, object]) -> ListeningStatus | TrainingStatus:
    """A status as it came; AuricleError where the service is of another version than who asks."""
    gate = told.get("gate")
    if isinstance(gate, dict) and "verdict" in gate:  # not restarted since an update
        told = {**told, "gate": gate | {"gate": gate["verdict"]}}
    try:
        if told.get("capture") is None:
            return msgspec.convert(told, TrainingStatus)
        return msgspec.convert(told, ListeningStatus)
    except msgspec.ValidationError as error:
        raise _other_version(error) from error


def read_live(told: Mapping[str, object]) -> LiveLine:
    """A line of a live view as it came; errors as of `read_status`."""
    try:
        return msgspec.convert(told, LiveLine)
    except msgspec.ValidationError as error:
        raise _other_version(error) from error


def _other_version(error: msgspec.ValidationError) -> AuricleError:
    return AuricleError(f"The service is of another version than this command ({error}): restart it.")


def quote_words(words: Sequence[str]) -> str:
    """`"computer" or "jarvis"`."""
    return " or ".join(f'"{word}"' for word in words)
