"""What can be asked of the running service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from auricle_edge.listening.feedback import Feedback


class Actions(Protocol):
    """Called from the threads of the control server. AuricleError is the answer where something cannot be done."""

    def status(self) -> Mapping[str, Any]:
        """How the service is."""

    def answer(self, feedback: Feedback) -> Mapping[str, Any]:
        """Take feedback; says what became of it."""

    def mute(self, muted: bool) -> Mapping[str, Any]:
        """Close or open the microphone."""

    def live(self) -> Iterator[Mapping[str, Any]]:
        """Level, posteriors and detections as they come, several a second."""

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Mapping[str, Any]]:
        """Record takes of a word, telling each step; with `keep` also those that do not sound like it."""
