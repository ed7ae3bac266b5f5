"""What operators are told about devices, and about what happened."""

from __future__ import annotations

from auricle.process.times import Time
from auricle.wire.plan import InferenceLoss
from auricle_cloud.operations.types import Answer
from auricle_cloud.storage.rows import Standing


class DeviceRow(Answer, frozen=True, kw_only=True):
    """A device at a glance."""

    device: str
    label: str
    standing: Standing
    reason: str
    """Why it has this standing."""
    online: bool
    gate: str
    """Whether it would train now."""
    gate_reason: str
    ineligible: str
    """Why it could not be invited to a round now, or nothing: its pack is another one, it is offline ..."""
    architecture: str
    agent: str
    pack: str
    samples: int
    selected: int
    """Rounds it was invited to."""
    harmful_count: int
    """Times that detection named it harmful."""
    left_out_rounds: int
    """Of the rounds that it took part in, how many of the last, running, the rule left it out of."""
    not_in_quorum: str
    """Why it does not count for the quorum of a round, or nothing."""
    first_seen: Time
    last_seen: Time
    """When its last message came."""
    offline_since: Time | None
    """None: it is online, or was not heard since a coordinator started or ended."""
    public_key: str
    """In hex."""
    sensitivity: int
    """Steps that operators want it to hear more (above 0) or less."""
    sensitivity_now: int | None
    """Steps in effect, by its own word; None: it takes none, or its agent is too old."""


class Tuned(Answer, frozen=True, kw_only=True):
    """Devices that are to hear more or less."""

    devices: list[str]
    sensitivity: int
    refusing: list[str]
    """Those of them that take none: their owners refuse it, their agents are too old, or they never came."""


class DevicePage(Answer, frozen=True, kw_only=True):
    """Devices by name."""

    trouble: list[str]
    """Why nothing can happen now: no coordinator works on the state, or it is not connected to its broker."""
    devices: list[DeviceRow]
    next: str | None
    """Give it as `after` for the next page."""


class Invited(Answer, frozen=True, kw_only=True):
    """One of a device's invitations and what came of it."""

    round: int
    state: str
    reason: str | None
    invited: Time
    received: Time | None
    counted_in: int | None
    samples: int | None
    loss: float | None
    inference_loss: InferenceLoss | None
    """As of the round."""
    staleness: int | None
    plugin_accuracy: float | None
    personal_accuracy: float | None
    seconds: float | None


class Refused(Answer, frozen=True, kw_only=True):
    """Frames of a device that were refused for one reason."""

    code: str
    count: int
    last: Time
    detail: str


class EventRow(Answer, frozen=True, kw_only=True):
    """Something that happened."""

    id: int
    at: Time
    kind: str
    device: str
    task: str
    round: int | None
    who: str
    detail: str


class EventPage(Answer, frozen=True, kw_only=True):
    """The newest events first."""

    events: list[EventRow]
    next: int | None
    """Give it as `before` for the next page."""


class PersonalModel(Answer, frozen=True, kw_only=True):
    """The model that a device begins its next round with, where the rule makes one for each."""

    round: int
    """The last round that the device counted in."""
    group: int
    """Number of its group in that round."""
    blob: str
    """SHA-256 of the weights."""
    shared_with: int
    """Other devices that begin with the same weights."""


class DeviceDetail(Answer, frozen=True, kw_only=True):
    """A device with its history."""

    row: DeviceRow
    learning: str
    """Whether rounds helped on the clips that it holds out, or nothing."""
    runs: str
    """What it said last of the version that it runs."""
    personal: PersonalModel | None
    """None: it begins with the current model, as all do."""
    history: list[Invited]
    next: int | None
    """Give it as `before` for older invitations."""
    refusals: list[Refused]
    events: list[EventRow]


class DeviceLog(Answer, frozen=True, kw_only=True):
    """What is known of a device's doings: events, and frames that were refused."""

    device: str
    events: list[EventRow]
    next: int | None
    refusals: list[Refused]


class Changed(Answer, frozen=True, kw_only=True):
    """Devices whose standing changed: those that had it already are left out."""

    devices: list[str]
    standing: Standing
