"""What operators are told about releases and rollouts."""

from __future__ import annotations

from msgspec import field

from auricle.process.times import Time
from auricle_cloud.operations.types import Answer
from auricle_cloud.states.rollout import DeviceState, Released, RolloutState


class ReleaseRow(Released, Answer, frozen=True, kw_only=True):
    """Something that may be installed."""

    added: Time


class ReleaseList(Answer, frozen=True, kw_only=True):
    """All releases by path."""

    releases: list[ReleaseRow]


class RoleKeysRow(Answer, frozen=True, kw_only=True):
    """Who signs for a role."""

    role: str
    threshold: int
    keys: list[str]
    """Public halves, in hex."""


class RoleKeysList(Answer, frozen=True, kw_only=True):
    """Who signs root and targets."""

    roles: list[RoleKeysRow]


class PendingRow(Answer, frozen=True, kw_only=True):
    """Metadata that wait for signatures."""

    role: str
    version: int
    signed: list[str]
    """Public halves of the keys that have signed, in hex."""
    missing: int
    unsigned: list[str]
    """Those that may give the missing ones."""
    file: str


class PendingList(Answer, frozen=True, kw_only=True):
    """What waits for signatures."""

    pending: list[PendingRow]


class RolloutRow(Answer, frozen=True, kw_only=True):
    """A rollout at a glance."""

    rollout: str
    number: int
    state: RolloutState
    reason: str
    """Why it paused or ended."""
    label: str | None
    """Only devices of this label."""
    stages: list[float]
    """Percentages of the devices that match."""
    stage: int
    """The open one; 1 is the first."""
    errors: float
    """Share of a stage's devices that may fail."""
    minimum: int
    """Devices that must have answered before the share counts, while others have not."""
    soak: float
    """Seconds between a stage that is decided and the next."""
    deadline: float
    """Seconds after which a device that says nothing counts as failed."""
    hearing_hours: float | None
    """Hours of reports of hearing that a stage waits for; None: hearing does not hold it."""
    who: str
    started: Time
    settled: Time | None
    """Since when all of the open stage is decided."""
    ended: Time | None
    targets: list[str]
    """Paths of what it installs."""
    waiting: int
    asked: int
    updated: int
    """Devices that have said themselves that they run it, and are healthy."""
    failed: int
    refused: int
    silent: int


class RolloutPage(Answer, frozen=True, kw_only=True):
    """The newest rollouts first."""

    rollouts: list[RolloutRow]
    next: int | None
    """Give it as `before` for the next page."""


class DeviceInRollout(Answer, frozen=True, kw_only=True):
    """A device in a rollout, or why it is in none."""

    device: str
    state: DeviceState | None
    """None: it is not in yet, or does not match."""
    stage: int | None
    path: str | None
    runs: str | None
    """What it said last that it runs: an identity; None where it never said."""
    version: str | None
    """Of its agent."""
    confirmed: bool
    """Whether it is healthy on what it runs."""
    decided: Time | None
    sentences: list[str] = field(default_factory=list)


class RolloutDetail(Answer, frozen=True, kw_only=True):
    """A rollout and its devices, explained."""

    row: RolloutRow
    sentences: list[str]
    """About the rollout as a whole."""
    devices: list[DeviceInRollout]
    next: str | None
    """Give it as `after` for the next devices."""
