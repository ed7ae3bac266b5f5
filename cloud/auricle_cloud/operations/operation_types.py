"""What operators are told: one struct for each answer of the API, the command line and the page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from auricle.messages import DeviceId
from auricle_cloud.rounds.round_states import State
from auricle_cloud.storage.access_records import Role
from auricle_cloud.storage.device_records import Standing

Mode = Literal["sync", "async"]
Form = Literal["safetensors", "raw"]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Rows at most.")]
Number = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Id = Annotated[int, Meta(ge=0, le=(1 << 31) - 1, description="An event's number.")]
PRINTABLE = r"^[^\x00-\x1f\x7f]*\Z"
"""Texts end up in logs and on terminals."""
Reason = Annotated[str, Meta(max_length=200, pattern=PRINTABLE)]
Label = Annotated[str, Meta(max_length=200, pattern=PRINTABLE, description="A name for people.")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}\Z", max_length=64)]
Names = Annotated[list[DeviceId], Meta(min_length=1, max_length=1000, description="All of them or none.")]
Rounds = Annotated[int, Meta(ge=1, le=10_000)]
Idle = Annotated[int, Meta(ge=1, le=1_000_000, description="Devices that must be ready.")]
At = Annotated[str, Meta(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|always)\Z", description="HH:MM, or always.")]
Days = Annotated[float, Meta(gt=0, le=36_500, description="Until it expires.")]
Time = Annotated[float, Meta(description="Seconds since 1970, UTC.")]


class Answer(Struct, frozen=True, kw_only=True):
    """Base of all answers."""


class RoundRow(Answer, frozen=True, kw_only=True):
    """A round at a glance."""

    task: str
    round: int
    state: State
    mode: str
    asked_by: str
    planned: Time
    opened: Time | None
    closed: Time | None
    base_version: int | None
    """The model it began with."""
    base: str | None
    wish: str | None
    """What an operator asked of it, e.g. `abort`."""
    invited: int
    failed: int
    counted: int
    samples: int
    """Training samples behind the counted updates."""
    loss: float | None
    """Mean inference loss of the model it began with, by samples, in nats."""
    plugin_accuracy: float | None
    """Of that model on the devices' held-out clips, 0 to 1."""
    personal_accuracy: float | None
    """Of the devices' own models on the same clips, 0 to 1."""


class RoundPage(Answer, frozen=True, kw_only=True):
    """The newest rounds first."""

    rounds: list[RoundRow]
    next: int | None
    """Give it as `before` for the next page; None: this is the last."""


class Member(Answer, frozen=True, kw_only=True):
    """A device of a round's cohort."""

    device: str
    state: str
    """invited, failed, declined, or counted."""
    reason: str | None
    invited: Time
    received: Time | None
    counted_in: int | None
    """The round whose model its update went into: a later one where rounds are asynchronous."""
    samples: int | None
    loss: float | None
    staleness: int | None
    seconds: float | None
    """How long it trained."""


class RoundDetail(Answer, frozen=True, kw_only=True):
    """A round with its cohort."""

    row: RoundRow
    cohort: list[Member]
    next: str | None
    """Give it as `after` for the next page of the cohort."""
    model: int | None
    """Version of the model that it made."""
    detection: dict[str, Any] | None


class LayerPart(Answer, frozen=True, kw_only=True):
    """What became of one device's weights in one layer."""

    layer: str
    verdict: Literal["kept", "pruned_near", "pruned_far", "left_out"]
    weight: float | None
    """Its share of the average, 0 to 1."""
    deviation: float | None
    """Distance from the cohort's mean."""
    rank: int | None
    """1 is the farthest from the mean."""
    of: int
    """Devices that were compared."""


Fate = Literal["not_invited", "silent", "failed", "declined", "late", "refused", "dropped", "counted", "elsewhere"]


class DeviceWhy(Answer, frozen=True, kw_only=True):
    """Why a device counted in a round as it did."""

    device: str
    fate: Fate
    sentences: list[str]
    samples: int | None = None
    loss: float | None = None
    staleness: int | None = None
    shapley: float | None = None
    """What it contributed to the judged model's accuracy."""
    shapley_error: float | None = None
    harmful: bool = False
    """Detection named it."""
    layers: list[LayerPart] = []


class DetectionWhy(Answer, frozen=True, kw_only=True):
    """What detection made of the model of an earlier round."""

    fires: bool
    sentence: str
    judged_round: int | None
    reference: float | None
    votes: list[str]
    method: str | None
    bad: list[str]
    repair: str | None
    accuracy_before: float | None
    accuracy_after: float | None


class RoundWhy(Answer, frozen=True, kw_only=True):
    """A round explained."""

    task: str
    round: int
    state: State
    rule: str | None
    rule_options: dict[str, Any]
    sentences: list[str]
    """About the round as a whole."""
    detection: DetectionWhy | None
    devices: list[DeviceWhy]
    next: str | None
    """Give it as `after` for the next devices."""


class Started(Answer, frozen=True, kw_only=True):
    """Rounds that were planned."""

    rounds: list[int]


class ScheduleRow(Answer, frozen=True, kw_only=True):
    """When rounds start by themselves."""

    name: str
    task: str
    at: str
    """`HH:MM` of every day on the coordinator's clock, or `always`."""
    idle: int
    """Devices that must be ready."""
    rounds: int
    last: Time


class ScheduleList(Answer, frozen=True, kw_only=True):
    """All schedules."""

    schedules: list[ScheduleRow]


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
    architecture: str
    agent: str
    pack: str
    samples: int
    selected: int
    """Rounds it was invited to."""
    verdicts: int
    """Times that detection named it harmful."""
    first_seen: Time
    last_seen: Time
    public_key: str
    """In hex."""


class DevicePage(Answer, frozen=True, kw_only=True):
    """Devices by name."""

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


class DeviceDetail(Answer, frozen=True, kw_only=True):
    """A device with its history."""

    row: DeviceRow
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


class ModelRow(Answer, frozen=True, kw_only=True):
    """A version of the model."""

    task: str
    version: int
    current: bool
    blob: str
    """SHA-256 of its weights as float32."""
    origin: str
    """first, round, or repair."""
    round: int | None
    parent: int | None
    created: Time
    accuracy: float | None
    """On the operator's validation set, 0 to 1."""
    loss: float | None


class ModelPage(Answer, frozen=True, kw_only=True):
    """The newest models first."""

    models: list[ModelRow]
    next: int | None
    """Give it as `before` for the next page."""


class File(Answer, frozen=True, kw_only=True):
    """Bytes to keep."""

    name: str
    content_type: str
    content: bytes


class TokenRow(Answer, frozen=True, kw_only=True):
    """Who may use the API."""

    name: str
    role: Role
    created: Time
    expires: Time | None


class TokenList(Answer, frozen=True, kw_only=True):
    """All tokens; what they are is known to their holders only."""

    tokens: list[TokenRow]


class TokenMade(Answer, frozen=True, kw_only=True):
    """A new token: it is never shown again."""

    name: str
    role: Role
    token: str


class Done(Answer, frozen=True, kw_only=True):
    """It was done."""

    done: str


class Judged(Answer, frozen=True, kw_only=True):
    """How good a model is on a validation set."""

    version: int
    accuracy: float
    loss: float
    clips: int
    kept: bool
    """Whether it was written to the model's row."""

    @property
    def done(self) -> str:
        """It in one sentence."""
        kept = ", and that is kept" if self.kept else ""
        return (
            f"Version {self.version}: accuracy {self.accuracy:.4f}, loss {self.loss:.4g} on {self.clips} clips{kept}."
        )


class Me(Answer, frozen=True, kw_only=True):
    """Whose token this is."""

    name: str
    role: Role


class Overview(Answer, frozen=True, kw_only=True):
    """The fleet at a glance."""

    task: str
    pack: str | None
    epoch: int
    """How often a coordinator has started."""
    devices: int
    online: int
    ready: int
    """Approved, online, and willing to train."""
    standings: dict[Standing, int]
    under_way: RoundRow | None
    last: RoundRow | None
    """The newest finished round."""
    planned: int
    """Rounds that wait."""
    model: ModelRow | None
    alarms: list[EventRow]


class Problem(Answer, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    """One sentence that says what to do."""
    type: str = "about:blank"
