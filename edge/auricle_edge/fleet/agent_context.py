"""What the parts of an agent share: its settings and fleet, its way to the coordinator, what it needs of updates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from auricle.errors import AuricleError, refuse_misfits_of
from auricle.files import read_kept
from auricle.mqtt_link.private_link import FOLDER
from auricle.mqtt_link.settings import BrokerAddress
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.kinds import UNDECODABLE, FleetName, Sha256

if TYPE_CHECKING:
    from auricle.wire.messages import Invite, Measure, Message, Target
    from auricle.wire.plan import Lent


@refuse_misfits_of
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
    clock: Clock = SYSTEM_CLOCK
    """Whom all parts of the agent ask for the time."""
    durable: bool = True
    """Whether what the device keeps survives a power cut; without, it survives the end of its process alone."""


class Declined(AuricleError):  # noqa: N818 - not an error: the device does not want to
    """Why the device does not take part, or no more."""


class Say(Protocol):
    """Sends a message of the device, sealed, on the topic of its kind (`get`, `reg`, `st`, `upd`, ...)."""

    async def __call__(self, kind: str, message: Message, body: bytes = b"") -> None:
        """Returns once the link has it; AuricleError when it cannot take it."""


@dataclass(frozen=True)
class Uplink:
    """How a part of the agent speaks."""

    say: Say
    fetch: Callable[[Invite | Measure | Lent], Awaitable[bytes]]
    """The bytes of the model that was named, or of what is lent beside it, fetched in chunks."""
    enter: Callable[[str], None]
    """Told the device's state: `training`, `outbox`, `sent`, `idle`."""


FLEET_FILE = "fleet.json"


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a device was told of its fleet when it claimed; settings and options that say something else override it."""

    fleet: FleetName
    broker: Annotated[str, msgspec.Meta(max_length=300)]
    coordinator: Sha256
    """Public key, 64 hexadecimal digits."""


def read_fleet_record(state: Path) -> FleetRecord | None:
    """The record in a state folder; None without one, or where this user may not read it."""
    try:
        return msgspec.json.decode(read_kept(state / FOLDER / FLEET_FILE), type=FleetRecord)
    except (OSError, *UNDECODABLE):
        return None


State = Literal["fetching", "trial", "confirmed", "failed", "refused"]
"""How far a device has come with an update."""


@dataclass(frozen=True)
class Standing:
    """What a `Release` says, without who says it."""

    board: str = ""
    os: str = ""
    bundle: str | None = None
    """Identity of the bundle that runs."""
    version: str = ""
    """Of that bundle: a release of settings alone has another one than its agent."""
    confirmed: bool = True
    rollout: str = ""
    state: State | None = None
    reason: str = ""


class Updates(Protocol):
    """Follows updates for an agent."""

    def standing(self) -> Standing:
        """How the device stands now."""

    async def follow(self, target: Target) -> None:
        """Take in what the coordinator names."""


class RemoteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the owner of the device allows."""

    sensitivity: bool = True
    """Whether the coordinator may make it hear more or less, by at most two steps."""
