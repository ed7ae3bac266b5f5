"""What a round knows of its buckets, their sums, and the next model that these make together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from auricle.errors import WireError
from auricle.wire.plan import SecureSum
from auricle.wire.secure_sum.quantised import sum_of
from auricle.wire.tensors import Flat, TensorTable
from auricle_cloud.rounds.secure.opening import total_of
from auricle_cloud.rounds.secure.seats import Bucket, Seats
from auricle_cloud.states.report import BucketState, Document
from auricle_learning.aggregation.buckets import Combined, combine_buckets
from auricle_learning.aggregation.cohort import Aggregate, Float64Array, layers_of


@dataclass(frozen=True)
class BucketSum:
    """What became of one bucket."""

    devices: tuple[str, ...]
    """Whose updates came, by name."""
    size: int
    """Devices that it was drawn of."""
    state: BucketState
    mean: Float64Array | None = None
    """(P,) of their updates; None where it was not read."""
    norm: float | None = None
    """Of the mean."""
    scale: float = 0.0
    """By what the mean was multiplied before it was averaged with the others."""
    reason: str = ""
    """What is wrong with a sum that cannot be."""


@dataclass(frozen=True)
class RoundSum:
    """All buckets of a round, and the update that they make."""

    buckets: tuple[BucketSum, ...]
    update: Float64Array
    """(P,)."""
    clip: float | None = None
    """The norm to which longer means were cut; None of a single sum."""

    @property
    def devices(self) -> int:
        """Whose updates are in the model."""
        return sum(len(each.devices) for each in self.buckets if each.scale)

    def report(self) -> Document:
        """What a round says of its buckets; nothing of a single sum."""
        if len(self.buckets) < 2:
            return {"devices": self.devices}
        buckets = [
            {
                "devices": each.devices,
                "size": each.size,
                "state": each.state,
                "norm": each.norm,
                "scale": each.scale,
            }
            for each in self.buckets
        ]
        return {"devices": self.devices, "buckets": buckets, "clip": self.clip}

    def aggregate(self, start: Flat, table: TensorTable) -> Aggregate:
        """The aggregate, as of a rule: each device has its part of its bucket's weight.

        Parameters
        ----------
        start
            (P,) w^t.
        table
            Tells the layers.
        """
        layers = tuple(layer.name for layer in layers_of((s.name, s.size, s.layer) for s in table.specs))
        used = sum(each.scale > 0 for each in self.buckets)
        weights = {name: each.scale / len(each.devices) / used for each in self.buckets for name in each.devices}
        share = np.repeat([[weights[name]] for name in sorted(weights)], len(layers), axis=1)
        return Aggregate(
            weights=np.asarray(start + self.update, np.float32),
            ids=tuple(sorted(weights)),
            layers=layers,
            kept=share > 0,
            share=share,
        )


def open_buckets(
    plan: SecureSum, seats: Seats, body: Mapping[str, Callable[[], bytes]], silent: Collection[str], size: int
) -> RoundSum:
    """Read each bucket's sum and combine their means.

    Parameters
    ----------
    plan
        The sum, as the round's plan has it.
    seats
        Its devices, with what they have said.
    body
        What reads the masked update of each device whose update came, by name.
    silent
        Whose revealed shares came too late to count.
    size
        P.

    Raises
    ------
    WireError
        Too few of the sums can be read.
    """
    said = {row.device for row in seats.rows.values() if row.own is not None} - {*silent}
    legible = seats.legible(body.keys(), said)
    opened = [_open(plan, seats, bucket, body, said, size, legible=bucket in legible) for bucket in seats.buckets]
    found = [each for each in opened if each.mean is not None]
    if not seats.suffice(len(found)):
        why = next((each.reason for each in opened if each.reason), "too few shares were revealed")
        many = f"{len(found)} of {len(opened)} buckets can be read: " if len(opened) > 1 else ""
        raise WireError(f"{many}{why}")
    means = np.stack([each.mean for each in found if each.mean is not None])
    if len(found) == 1:
        combined = Combined(means[0], np.linalg.norm(means, axis=1), np.ones(1), np.inf)
    else:
        combined = combine_buckets(means)
    beside = iter(zip(combined.norms.tolist(), combined.scales.tolist(), strict=True))
    buckets = tuple(each if each.mean is None else _beside_others(each, *next(beside)) for each in opened)
    return RoundSum(buckets, combined.update, combined.clip if len(found) > 1 else None)


def _open(
    plan: SecureSum,
    seats: Seats,
    bucket: Bucket,
    body: Mapping[str, Callable[[], bytes]],
    said: Collection[str],
    size: int,
    *,
    legible: bool,
) -> BucketSum:
    rows = [seats.rows[seat] for seat in sorted(bucket.seats) if seats.rows[seat].part]
    devices = tuple(sorted(row.device for row in rows if row.device in body))
    if not legible:
        return BucketSum(devices, len(bucket.seats), "lost")
    heard = [row if row.device in said else replace(row, own=None, lost=None) for row in rows]
    try:
        total = total_of(plan.id, heard, bucket.threshold, {name: body[name]() for name in devices}, size)
        moved = sum_of(total, len(devices), plan.bound)
    except WireError as error:
        return BucketSum(devices, len(bucket.seats), "impossible", reason=str(error))
    return BucketSum(devices, len(bucket.seats), "counted", mean=moved / len(devices))


def _beside_others(opened: BucketSum, norm: float, scale: float) -> BucketSum:
    """The same with what its mean counted for beside the others."""
    state: BucketState = "left out" if scale == 0 else "clipped" if scale < 1 else "counted"
    return dataclasses.replace(opened, norm=norm, scale=scale, state=state)
