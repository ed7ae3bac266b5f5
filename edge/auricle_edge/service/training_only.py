"""What can be asked of an agent that learns from a folder of recordings (`--data`): how it is, and no sound."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from auricle import __version__
from auricle.errors import AuricleError
from auricle_edge.fleet.agent import Agent
from auricle_edge.listening.feedback import Feedback


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

    def status(self) -> Mapping[str, Any]:
        """How the agent is."""
        agent, pack = self._agent, self._agent.trainer.pack
        return {
            "device": agent.settings.device,
            "agent": __version__,
            "pack": pack.identity,
            "pack_name": pack.manifest.name,
            "running_seconds": round(time.monotonic() - self._began, 1),
            "speech": self._speech,
            "training_clips": len(agent.trainer.data.train),
            "fleet": {
                "name": agent.settings.fleet,
                "connected": agent.link.connected,
                "state": agent.state,
                "last_error": agent.link.last_error,
                "other_pack": agent.other_pack,
                "word": agent.word.sentence,
            },
        }

    def answer(self, feedback: Feedback) -> Mapping[str, Any]:
        """Refuse: it hears nothing."""
        raise self._deaf()

    def mute(self, muted: bool) -> Mapping[str, Any]:
        """Refuse: it has no microphone."""
        raise self._deaf()

    def live(self) -> Iterator[Mapping[str, Any]]:
        """Refuse: it hears nothing."""
        raise self._deaf()

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Mapping[str, Any]]:
        """Refuse: it has no microphone."""
        raise self._deaf()

    def _deaf(self) -> AuricleError:
        return AuricleError(f"This agent learns from {self._speech} and does not listen: start it without --data.")
