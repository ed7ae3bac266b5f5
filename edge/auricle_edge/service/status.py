"""How a device that listens is: what `auricle edge status` prints, and the line that systemd shows."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from auricle import __version__
from auricle_edge.listening.sound import Detection
from auricle_edge.service.greeting import quoted
from auricle_edge.service.parts import Parts


def status(parts: Parts, running: float, last: Detection | None) -> Mapping[str, Any]:
    """How the device is: its parts' own words.

    Parameters
    ----------
    running
        Seconds since its start.
    last
        Its newest detection.
    """
    settings, hearing, detect = parts.settings, parts.hearing.now, parts.detect
    gate = parts.agent.gate.decision if parts.agent is not None else None
    return {
        "device": settings.name,
        "agent": __version__,
        "pack": parts.pack.identity,
        "pack_name": parts.pack.manifest.name,
        "running_seconds": round(running, 1),
        "capture": _capture(parts),
        "listening": dataclasses.asdict(parts.detector.figures),
        "judging_failures": parts.listener.failures,
        "model": hearing.candidate.name,
        "model_reason": hearing.reason,
        "own_model": parts.own_model,
        "own_model_reason": parts.own_model_reason,
        "state": parts.detector.state,
        "wake": detect.wake,
        "window": detect.window,
        "second_stage": detect.second_stage,
        "gate": None if gate is None else dataclasses.asdict(gate),
        "fleet": _fleet(parts),
        "updates": dataclasses.asdict(parts.updates.standing()),
        "sensitivity": {"step": parts.tuning.step, "remote": parts.tuning.accepted},
        "report": _report(parts),
        "outputs": {name: dataclasses.asdict(counts) for name, counts in parts.outputs.delivered.items()},
        "last": None if last is None else dataclasses.asdict(last),
    }


def _capture(parts: Parts) -> dict[str, Any]:
    state = parts.capture.state
    since = None if state.last_progress is None else round(time.monotonic() - state.last_progress, 3)
    return dataclasses.asdict(state) | {"last_progress": None, "seconds_since_sound": since}


def _fleet(parts: Parts) -> dict[str, Any] | None:
    if parts.agent is None:
        return None
    return {
        "name": parts.settings.fleet,
        "connected": parts.agent.link.connected,
        "state": parts.agent.state,
        "last_error": parts.agent.link.last_error,
        "other_pack": parts.agent.other_pack,
        "word": parts.agent.word.sentence,
    }


def _report(parts: Parts) -> dict[str, Any]:
    return {
        "hearing": parts.settings.report.hearing and parts.agent is not None,
        "words": parts.settings.report.words,
        "last": None if parts.reporter.last is None else dataclasses.asdict(parts.reporter.last),
    }


def summary(parts: Parts) -> str:
    """One line: whether it listens, for what, and with which model."""
    state = parts.capture.state
    if state.muted:
        return "Muted."
    if not state.running:
        return state.problem or "Waiting for sound."
    wanted = quoted(parts.detect.wake) or f"{len(parts.words)} words"
    apart = "" if parts.agent is None or parts.agent.other_pack is None else f" {parts.agent.other_pack}"
    return f"Listening to {state.device} for {wanted} with the {parts.hearing.now.candidate.name} model.{apart}"
