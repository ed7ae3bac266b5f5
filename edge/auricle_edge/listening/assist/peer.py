"""Who a run of the assistant is with, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import Message


class Peer(Protocol):
    """A Home Assistant that is connected."""

    address: str
    encrypted: bool

    def send(self, *messages: Message) -> None:
        """Send messages, in order."""


@dataclass(eq=False)
class AssistRun:
    """One command, from its first sample to its answer."""

    peer: Peer
    wake: str | None
    """Id of the wake word that began it."""
    began: bool = False
    """Whether Home Assistant has said so: what it says before is about an older run."""
    url: str = ""
    """Where its answer will be, which may be fetched while it is still made."""
    answers: bool = False
    """Whether its answer is played."""
    goes_on: bool = False
    """Whether another command may follow without a wake word."""
