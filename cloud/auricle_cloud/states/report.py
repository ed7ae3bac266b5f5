"""A round's report as it is read: of an older coordinator it may have less, and what it lacks has its default."""

from __future__ import annotations

from typing import Any

import msgspec

from auricle.errors import StorageError

Document = dict[str, Any]
"""A JSON column as it was written, by this version or an older one."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what a report is made of."""


class CountedUpdate(Part, frozen=True, kw_only=True):
    """An update that the round counted."""

    device: str
    samples: int | None = None
    loss: float | None = None
    staleness: int | None = None


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
    """A device that counted for less than it said, or than the rule alone would have given it."""

    device: str
    what: str = "samples"
    """`samples` or `loss` as it said them, or `share` as the rule gave it."""
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


class RoundReport(Part, frozen=True, kw_only=True):
    """A round's report, with what only the rows of its cohort say."""

    invited: list[str] = []
    failed: dict[str, str | None] = {}
    declined: list[str] = []
    """Of those that failed."""
    refused: dict[str, str | None] = {}
    elsewhere: dict[str, int] = {}
    """Rounds that updates of invited devices counted in, where it is not this one."""
    passed_over: dict[str, str] = {}
    """Why devices were not eligible when the round began."""
    updates: list[CountedUpdate] = []
    layers: list[LayerReport] = []
    dropped: list[str] = []
    rule: str | None = None
    rule_options: dict[str, Any] = {}
    """By the names of the rule, which a plug-in chooses."""
    flag: str | None = None
    warnings: list[str] = []
    bounded: list[BoundedReport] = []
    reason: str | None = None
    """Why it was aborted."""
    detection: DetectionReport | None = None


def read_report(written: Document) -> RoundReport:
    """A report as a struct.

    Raises
    ------
    StorageError
        It is not a report.
    """
    layers = [_known(layer) for layer in written.get("layers") or []]
    detection = _known(written.get("detection") or {}) or None
    try:
        return msgspec.convert(_known({**written, "layers": layers, "detection": detection}), RoundReport)
    except msgspec.ValidationError as error:
        raise StorageError(f"The database holds a round's report that is not one: {error}.") from error


def _known(written: Document) -> dict[str, object]:
    """Null says no more than a key that is not there."""
    return {name: value for name, value in written.items() if value is not None}
