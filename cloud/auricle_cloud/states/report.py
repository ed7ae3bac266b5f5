"""A round's report as it is read: of an older coordinator it may have less, and what it lacks has its default."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

Document = dict[str, Any]
"""A JSON column as it was written, by this version or an older one."""
DEEPEST_LEVELS = 32
"""Levels of a report."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what a report is made of."""


class CountedUpdate(Part, frozen=True, kw_only=True):
    """An update that the round counted, or that its rule left out."""

    device: str
    samples: int | None = None
    loss: float | None = None
    staleness: int | None = None
    unsupervised: int | None = None
    """Of the samples, those without labels; None where the plan did not ask for any."""
    left_out: bool = False
    """The rule gave it the weight 0 in every layer."""


class DirectionReport(Part, frozen=True, kw_only=True):
    """The direction that a round's parties agreed on, see `Direction`."""

    angles: dict[str, float | None] = {}
    """Degrees between each device's direction and the common one."""
    labelled: list[str] = []
    """Devices with labels among them."""
    coordinator: float | None = None
    """Degrees between that of the coordinator's labelled clips and the common one."""
    coordinator_weight: float | None = None
    """Of the coordinator's direction in the common one."""


class LayerReport(Part, frozen=True, kw_only=True):
    """One layer, as `Aggregate.explain` tells it."""

    layer: str = ""
    kept: list[str] = []
    pruned_low: list[str] = []
    pruned_high: list[str] = []
    share: dict[str, float | None] = {}
    deviation: dict[str, float | None] = {}
    score: dict[str, float | None] = {}
    score_of: str | None = None


class BoundedReport(Part, frozen=True, kw_only=True):
    """A device that counted for less than it sent or said, or than the rule alone would have given it."""

    device: str
    what: str = "samples"
    """`samples`, `loss`, `steps` or `counts` (clips by class) as it said them, `vector` and the name of one for its
    length, `length` of its update, or `share` as the rule gave it."""
    said: float | None = None
    counted: float | None = None


class ShapleyValue(Part, frozen=True, kw_only=True):
    """What a device contributed to the judged model's accuracy."""

    value: float | None = None
    error: float | None = None


class DetectionReport(Part, frozen=True, kw_only=True):
    """What detection made of the model that the round began with."""

    fires: bool = False
    sentence: str = ""
    reference: float | None = None
    losses: dict[str, float | None] = {}
    votes: list[str] = []
    set_aside: list[str] = []
    """Whose loss was too far from all others' to be believed."""
    judged_round: int | None = None
    method: str | None = None
    bad: list[str] = []
    shapley: dict[str, ShapleyValue | None] = {}
    repair: str | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    seconds: dict[str, float] = {}
    """That its two steps took: `comparison`, with asking for losses, and `shapley`, with the repair."""


class PrivacyReport(Part, frozen=True, kw_only=True):
    """What a round with noise on devices gave away, and all before it."""

    clip: float | None = None
    """Largest norm of an update."""
    deviation: float | None = None
    """Of the noise that each device added to each value."""
    sampling: float | None = None
    """Probability with which a device was drawn."""
    counted: int = 0
    multiplier: float | None = None
    """Standard deviation of the noise in the sum, over the clip."""
    epsilon: float | None = None
    """Of all rounds so far, towards who sees models."""
    accounting: str | None = None
    """What computed `epsilon`: PLD, by privacy loss distributions, or RDP, by Renyi differential privacy."""
    device_epsilon: float | None = None
    """Of all rounds so far, towards who sees single updates, of the device that was in most rounds."""
    delta: float | None = None
    rounds: int | None = None
    """With noise, this one included."""
    bare: int = 0
    """Rounds before, without noise: no epsilon covers them."""
    budget: float | None = None
    view: str = "fleet"
    """Whose epsilon the budget is of."""


BucketState = Literal["counted", "clipped", "left out", "lost", "impossible"]
"""What became of a bucket: `left out`, its mean was far too long; `lost`, too few of its devices answered;
`impossible`, what was read is no sum of its updates."""


class BucketReport(Part, frozen=True, kw_only=True):
    """One bucket of a secure sum."""

    devices: list[str] = []
    """Whose updates came."""
    size: int = 0
    """Devices that it was drawn of."""
    state: BucketState = "counted"
    norm: float | None = None
    """Euclidean, of the mean of its updates; None where that was not read."""
    scale: float = 0.0
    """By what that mean was multiplied: 1, less where it was cut, 0 where it is not in the model."""


class SecureReport(Part, frozen=True, kw_only=True):
    """The secure sum of a round."""

    bound: float | None = None
    """What values were cut to."""
    threshold: int | None = None
    """Neighbours that have to reveal shares of a device's secret."""
    neighbours: int | None = None
    """Of each device."""
    devices: int | None = None
    """Of whose updates the sum is."""
    dropped: dict[str, str] = {}
    """In which state devices dropped out: keys, shares, update, or reveal, whose update is in the sum."""
    buckets: list[BucketReport] = []
    """What became of each bucket; none where the sum was of all devices."""
    clip: float | None = None
    """The norm to which longer means of buckets were cut."""


class GroupsReport(Part, frozen=True, kw_only=True):
    """Devices that belong together."""

    of: dict[str, int] = {}
    """Number of each device's group in this round."""
    silhouette: float | None = None
    """How well the groups are apart, from -1 to 1; None where there was nothing to choose."""
    own_models: bool = True
    """Whether each device goes on from its group's model, and not from the fleet's."""


class PriorReport(Part, frozen=True, kw_only=True):
    """What the devices' gradients did to the features that they tune their classifiers on, see `Synthesis`."""

    classes: list[int] = []
    clients: int = 0
    before: float | None = None
    after: float | None = None


class RoundReport(Part, frozen=True, kw_only=True):
    """A round's report, with what only the rows of its cohort say."""

    invited: list[str] = []
    failed: dict[str, str | None] = {}
    declined: list[str] = []
    """Of those that failed."""
    refused: dict[str, str | None] = {}
    elsewhere: dict[str, int] = {}
    """Rounds that updates of invited devices counted in, where it is not this one."""
    broken: dict[str, int] = {}
    """Who did not count for the quorum, and how many rounds running had brought nothing of it."""
    passed_over: dict[str, str] = {}
    """Why devices were not eligible when the round began."""
    updates: list[CountedUpdate] = []
    layers: list[LayerReport] = []
    dropped: list[str] = []
    method: str | None = msgspec.field(default=None, name="rule")
    method_options: dict[str, Any] = msgspec.field(default_factory=dict, name="rule_options")
    """By the names of the method, which a plug-in chooses."""
    flag: str | None = None
    warnings: list[str] = []
    bounded: list[BoundedReport] = []
    groups: GroupsReport | None = None
    prior_knowledge: PriorReport | None = None
    evaluated: bool = False
    """Whether it was judged by other weights than its model's."""
    reason: str | None = None
    """Why it was aborted."""
    detection: DetectionReport | None = None
    direction: DirectionReport | None = None
    privacy: PrivacyReport | None = None
    secure_sum: SecureReport | None = None


def read_report(written: Document) -> RoundReport:
    """A report as a struct.

    A rule may be a plug-in and write what it likes: what has not the kind that is expected is left out, and a warning
    says where. Half a surrogate pair, which no answer could carry, becomes a question mark.
    """
    strange: list[str] = []
    told = _readable(_encodable(written), RoundReport, "", strange)
    if strange:
        named = ", ".join(dict.fromkeys(strange))
        told["warnings"] = [
            *told.get("warnings", []),
            f"Parts of the stored report have odd values, and are left out: {named}.",
        ]
    return msgspec.convert(told, RoundReport)


def _encodable(value: object, left: int = DEEPEST_LEVELS) -> object:
    """A value that an answer can carry; what is nested deeper than any report is null."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(each, left - 1) for each in value] if left else None
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each, left - 1) for name, each in value.items()} if left else None
    return value


def _readable(written: object, kind: type[Part], where: str, strange: list[str]) -> dict[str, Any]:
    """What can be read of a part; null says no more than a key that is not there."""
    if not isinstance(written, dict):
        strange.append(where)
        return {}
    found: dict[str, Any] = {}
    for field in _fields(kind):
        value = written.get(field.encode_name)
        if value is not None:
            place = f"{where}.{field.encode_name}" if where else field.encode_name
            read = _value(value, field.type, place, strange)
            if read is not None:
                found[field.encode_name] = read
    return found


def _value(value: object, kind: object, place: str, strange: list[str]) -> object:
    """A value of a field, without those of its entries that are of another kind; None where nothing is left."""
    many, part = get_origin(kind), _part_of(kind)
    if part is not None:
        read = _readable(value, part, place, strange) if value else None
        return read if read is not None and _sound(read, part, place, strange) is not None else None
    if many is list and isinstance(value, list):
        (inner,) = get_args(kind)
        told = [_value(each, inner, place, strange) for each in value]
        return [each for each in told if each is not None]
    if many is dict and isinstance(value, dict):
        inner = get_args(kind)[1]
        read_pairs = [
            (name, None if each is None else _value(each, inner, place, strange)) for name, each in value.items()
        ]
        empty = type(None) in get_args(inner)
        return {name: each for name, each in read_pairs if each is not None or (empty and value[name] is None)}
    return _sound(value, kind, place, strange)


@cache
def _fields(kind: type[Part]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a part, asked for once: a round's report has a part for each device."""
    return msgspec.structs.fields(kind)


@cache
def _part_of(kind: object) -> type[Part] | None:
    """The part that a field holds, or may hold."""
    kinds = get_args(kind) if get_origin(kind) in (types.UnionType, Union) else (kind,)
    found = [each for each in kinds if get_origin(each) is None and isinstance(each, type) and issubclass(each, Part)]
    return found[0] if found else None


def _sound(value: object, kind: object, place: str, strange: list[str]) -> object:
    """The value as its kind, where it is of it and can be told."""
    try:
        told: object = msgspec.convert(value, kind)
        msgspec.json.encode(told)
    except (msgspec.ValidationError, OverflowError, RecursionError, UnicodeEncodeError):
        strange.append(place)
        return None
    return told
