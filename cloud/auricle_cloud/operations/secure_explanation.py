"""A round's secure sum in sentences: whose sum was read, what became of its buckets, and who dropped out."""

from __future__ import annotations

from auricle.process.times import how_many
from auricle_cloud.operations.group_explanation import name_some
from auricle_cloud.states.report import BucketReport, SecureReport

DROPPED = {
    "keys": "Dropped out before the secure sum began, without keys",
    "shares": "Dropped out of the secure sum before training, with no shares or too few neighbours",
    "update": "Dropped out of the secure sum without an update",
    "reveal": "Sent an update that is in the sum, and revealed no shares",
}
UNUSED = {
    "left out": "was left out: the mean of its updates is {times:.3g} times as long as the most that counts",
    "lost": "was left out: too few of its devices sent an update and revealed shares, so its sum cannot be read",
    "impossible": "was left out: what was read is no sum of its updates, so one of its devices lied",
}
"""Why a bucket is not in the model, by its state."""


def about_secure_sum(report: SecureReport | None) -> list[str]:
    """Sentences of a round's secure sum; none where it had none."""
    if report is None:
        return []
    said = []
    if report.devices is None:
        said.append("Its secure sum has not been read: the coordinator knows no update.")
    else:
        near = (
            f"Of each device's {how_many(report.neighbours or 0, 'neighbour')} "
            f"{'at least ' if report.buckets else ''}{report.threshold or 0} had to reveal shares."
        )
        what = f"A secure sum of {how_many(report.devices, 'update')}"
        what += f" in {len(report.buckets)} buckets" if report.buckets else ""
        said.append(f"{what}: the coordinator saw none of them. {near}")
        said += _about_buckets(report)
    for state, when_said in DROPPED.items():
        names = {name for name, when in report.dropped.items() if when == state}
        if names:
            said.append(f"{when_said}: {name_some(names)}.")
    return said


def _about_buckets(report: SecureReport) -> list[str]:
    """What was compared, or why nothing was."""
    if not report.buckets:
        return ["It was not in buckets that could be compared: one device can move the model by its bound."]
    said = []
    clipped = [bucket for bucket in report.buckets if bucket.state == "clipped"]
    if clipped:
        norms = ", ".join(f"{bucket.norm or 0:.3g} of {len(bucket.devices)} devices" for bucket in clipped)
        said.append(f"Means of buckets were cut to a norm of {report.clip or 0:.3g}: {norms}.")
    for bucket in report.buckets:
        if bucket.state in UNUSED:
            said.append(_absence(bucket, report.clip))
    return said


def _absence(bucket: BucketReport, clip: float | None) -> str:
    """Why a bucket is not in the model, and who was in it."""
    why = UNUSED[bucket.state].format(times=(bucket.norm or 0) / clip if clip else 0)
    came = f" ({name_some(bucket.devices)})" if bucket.devices else ""
    hidden = "" if bucket.state == "lost" else "; which of them it was, nobody can tell"
    return f"A bucket of {bucket.size} devices, {len(bucket.devices)} of which sent updates{came}, {why}{hidden}."


def why_unused(report: SecureReport, device: str) -> str | None:
    """Why a device's bucket is not in the model; None where it is."""
    mine = [each for each in report.buckets if device in each.devices and each.state in UNUSED]
    return _absence(mine[0], report.clip) if mine else None
