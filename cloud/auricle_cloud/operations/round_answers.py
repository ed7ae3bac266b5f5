"""What operators are told about rounds: seen, explained, planned."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from msgspec import field

from auricle.process.times import Time
from auricle.wire.plan import InferenceLoss
from auricle_cloud.operations.types import Answer
from auricle_cloud.states.figures import FIGURES, LOSS_UNITS
from auricle_cloud.states.outcome import OUTCOMES, Outcome
from auricle_cloud.states.report import BucketState, Document
from auricle_cloud.states.round import State

OutcomeFilter = Literal[Outcome, "pruned", "harmful"]
"""What devices of a round are looked for by: an outcome, left out by the rule in some layer, or named by detection."""


Verdict = Literal["kept", "pruned_near", "pruned_far", "left_out"]
"""What became of a device's weights in a layer."""


def words_of_rounds() -> Document:
    """What may become of devices in a round, and which numbers a round has, as the page shows them."""
    outcomes = [{"name": name, "sign": of.sign, "tone": of.tone} for name, of in OUTCOMES.items()]
    return {"OUTCOMES": outcomes, "FIGURES": [asdict(figure) for figure in FIGURES], "LOSS_UNITS": LOSS_UNITS}


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
    request: str | None
    """What an operator asked of it, e.g. `abort`."""
    invited: int
    failed: int
    counted: int
    left_out: int
    """Whose update came, and got the weight 0 in every layer from the rule."""
    samples: int
    """Training samples behind the counted updates."""
    loss: float | None
    """Mean inference loss of the model it began with, by samples."""
    inference_loss: InferenceLoss | None
    """Which one that is: `ce` in nats, `mse` and `l1` of posteriors; None before the round begins."""
    plugin_accuracy: float | None
    """Of that model on the devices' held-out clips, 0 to 1."""
    personal_accuracy: float | None
    """Of the devices' own models on the same clips, 0 to 1."""


class RoundPage(Answer, frozen=True, kw_only=True):
    """The newest rounds first."""

    rounds: list[RoundRow]
    next: int | None
    """Give it as `before` for the next page; None: this is the last."""


class DeviceWaits(Answer, frozen=True, kw_only=True):
    """A device that a round waits for, or that cannot be invited to it."""

    device: str
    reason: str
    """What is said of it after its name: `is offline since ...`."""


class Waiting(Answer, frozen=True, kw_only=True):
    """Why a round does not begin, or does not go on."""

    round: int
    sentences: list[str]
    devices: list[DeviceWaits]


class Member(Answer, frozen=True, kw_only=True):
    """A device of a round's cohort."""

    device: str
    state: str
    """invited, failed, declined, late, refused, counted, or left_out by the rule."""
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


class PrivacyWhy(Answer, frozen=True, kw_only=True):
    """What a round with noise on devices gave away, and all before it."""

    clip: float | None
    """Largest norm of an update."""
    deviation: float | None
    """Of the noise that each device added to each value."""
    sampling: float | None
    """Probability with which a device was drawn."""
    counted: int
    multiplier: float | None
    """Standard deviation of the noise in the sum, over the clip."""
    epsilon: float | None
    """Of all rounds so far, towards who sees models."""
    accounting: str | None
    """What computed `epsilon`: PLD, by privacy loss distributions, or RDP, by Renyi differential privacy."""
    device_epsilon: float | None
    """Of all rounds so far, towards who sees single updates, of the device that was in most rounds."""
    delta: float | None
    rounds: int | None
    """With noise, this one included."""
    bare: int
    """Rounds before, without noise or ended early: no epsilon covers them."""
    budget: float | None
    view: str
    """Whose epsilon the budget is of."""
    sentences: list[str]


class BucketWhy(Answer, frozen=True, kw_only=True):
    """One bucket of a secure sum: devices whose sum was read alone."""

    devices: list[str]
    """Whose updates came."""
    size: int
    """Devices that it was drawn of."""
    state: BucketState
    norm: float | None
    """Euclidean, of the mean of its updates; None where that was not read."""
    scale: float
    """By what that mean was multiplied: 1, less where it was cut, 0 where it is not in the model."""


class SecureWhy(Answer, frozen=True, kw_only=True):
    """The secure sum of a round."""

    bound: float | None
    """What values of the updates were cut to."""
    threshold: int | None
    """Neighbours that have to reveal shares of a device's secret."""
    neighbours: int | None
    """Of each device."""
    devices: int | None
    """Of whose updates the sum is; None: it was not read."""
    dropped: dict[str, str]
    """When devices dropped out: keys, shares, update, or reveal, whose update is in the sum."""
    buckets: list[BucketWhy]
    """What became of each bucket; none where the sum was of all devices."""
    clip: float | None
    """The norm to which longer means of buckets were cut."""
    sentences: list[str]


class RoundDetail(Answer, frozen=True, kw_only=True):
    """A round with its cohort."""

    row: RoundRow
    cohort: list[Member]
    next: str | None
    """Give it as `after` for the next page of the cohort."""
    model: int | None
    """Version of the model that it made."""
    detection: Document | None
    privacy: PrivacyWhy | None
    """Of a round with noise on devices."""
    secure_sum: SecureWhy | None
    """Of a round whose updates became known as a sum alone."""
    groups: list[str] = field(default_factory=list)
    """Which devices belong together, a sentence a group, where its method makes some."""
    waiting: Waiting | None
    """Of a round that is not finished: why it does not begin, or does not go on."""


class LayerPart(Answer, frozen=True, kw_only=True):
    """What became of one device's weights in one layer."""

    layer: str
    verdict: Verdict
    weight: float | None
    """Its share of the average, 0 to 1."""
    deviation: float | None
    """Distance from the cohort's mean."""
    rank: int | None
    """1 is the farthest from the mean."""
    of: int
    """Devices that were compared."""


class DeviceWhy(Answer, frozen=True, kw_only=True):
    """Why a device counted in a round as it did."""

    device: str
    outcome: Outcome
    sentences: list[str]
    samples: int | None = None
    loss: float | None = None
    staleness: int | None = None
    shapley: float | None = None
    """What it contributed to the judged model's accuracy."""
    shapley_error: float | None = None
    harmful: bool = False
    """Detection named it."""
    score: float | None = None
    """The number by which the rule judged the device as a whole, where it has one."""
    score_of: str | None = None
    """What the score is."""
    score_rank: int | None = None
    """1 is the smallest."""
    score_among: int = 0
    """Devices that have a score."""
    layers: list[LayerPart] = field(default_factory=list)


class DetectionWhy(Answer, frozen=True, kw_only=True):
    """What detection made of the model of an earlier round."""

    fires: bool
    sentence: str
    judged_round: int | None
    reference: float | None
    votes: list[str]
    set_aside: list[str]
    """Whose loss was not believed: too far from all others'."""
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
    method: str | None = field(name="rule")
    method_options: Document = field(name="rule_options")
    sentences: list[str]
    """About the round as a whole."""
    detection: DetectionWhy | None
    privacy: PrivacyWhy | None
    """Of a round with noise on devices."""
    secure_sum: SecureWhy | None
    """Of a round whose updates became known as a sum alone."""
    devices: list[DeviceWhy]
    next: str | None
    """Give it as `after` for the next devices."""


class Started(Answer, frozen=True, kw_only=True):
    """Rounds that were planned."""

    trouble: list[str]
    """Why nothing can happen now: no coordinator works on the state, or it is not connected to its broker."""
    rounds: list[int]


class ScheduleRow(Answer, frozen=True, kw_only=True):
    """When rounds start automatically."""

    name: str
    task: str
    at: str
    """`HH:MM` of every day on the coordinator's clock, or `always`."""
    idle: int
    """Devices that must be ready."""
    rounds: int
    last: Time | None
    """When it last planned rounds; None where it never did."""
    zone: str
    """Of the coordinator's clock now, e.g. `UTC+01:00`."""


class ScheduleList(Answer, frozen=True, kw_only=True):
    """All schedules."""

    schedules: list[ScheduleRow]
