"""What the parts of an agent share: its settings, and its way to the coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auricle.mqtt_link.link import BrokerAddress
from auricle.wire.messages import Invite, Measure, Message


@dataclass(frozen=True)
class AgentSettings:
    """What an agent is told before it starts."""

    device: str
    fleet: str
    broker: BrokerAddress
    folder: Path
    """Where its key, local model and outbox live."""
    coordinator: bytes
    """Public key of the coordinator, 32 bytes; nobody else is obeyed."""
    ask_every: float = 30.0
    """Seconds between questions for what is next, so that a lost invitation costs time and nothing else."""
    resend_every: float = 10.0
    """Seconds after which an update without an answer is sent again."""
    fetch_timeout: float = 60.0
    gate_every: float = 5.0
    """Seconds between two looks at the gate."""


class Say(Protocol):
    """Sends a message of the device, sealed, on the topic of its kind (`get`, `reg`, `st`, `upd`, ...)."""

    async def __call__(self, kind: str, message: Message, body: bytes = b"") -> None:
        """Returns once the link has it; AuricleError when it cannot take it."""


@dataclass(frozen=True)
class Uplink:
    """How a part of the agent speaks."""

    say: Say
    fetch: Callable[[Invite | Measure], Awaitable[bytes]]
    """The bytes of the model that was named, fetched in chunks."""
    enter: Callable[[str], None]
    """Told the device's state: `training`, `outbox`, `sent`, `idle`."""
