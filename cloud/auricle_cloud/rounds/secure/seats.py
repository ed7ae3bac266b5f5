"""The devices of one sum by their seats, the buckets that they are in, and what of these can be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle_cloud.rounds.secure.graph import buckets_of, readable, remaining, threshold_among
from auricle_cloud.storage.rows import SumRow


@dataclass(frozen=True)
class Bucket:
    """Devices whose sum is read alone; where a sum has no buckets, all of them."""

    seats: frozenset[int]
    threshold: int
    """Shares that give a secret of one of them back."""


@dataclass(frozen=True)
class Seats:
    """Devices of one sum, by their seats."""

    rows: dict[int, SumRow]
    near: dict[int, list[int]]
    buckets: tuple[Bucket, ...]

    @classmethod
    def of(cls, rows: Sequence[SumRow]) -> Seats:
        """Those that have a seat."""
        found = {row.seat: row for row in rows if row.seat is not None}
        near = {seat: row.near or [] for seat, row in found.items()}
        drawn = buckets_of(near)
        buckets = (Bucket(frozenset(b), threshold_among({seat: near[seat] for seat in b})) for b in drawn)
        return cls(found, near, tuple(buckets))

    def bucket(self, seat: int) -> Bucket:
        """The one that a seat is in."""
        return next(bucket for bucket in self.buckets if seat in bucket.seats)

    def named(self, names: Collection[str]) -> set[int]:
        """Seats of these devices."""
        return {seat for seat, row in self.rows.items() if row.device in names}

    @property
    def part(self) -> set[int]:
        """Those that others mask with."""
        return {seat for seat, row in self.rows.items() if row.part}

    def kept(self, shared: Collection[str]) -> set[int]:
        """Who of those that shared secrets can be part of the sum, with enough others in their buckets."""
        found, here = set(), self.named(shared)
        for bucket in self.buckets:
            near = {seat: self.near[seat] for seat in bucket.seats}
            left = remaining(near, here & bucket.seats, bucket.threshold)
            found |= left if len(left) >= FEWEST_DEVICES else set()
        return found

    def legible(self, came: Collection[str], said: Collection[str]) -> list[Bucket]:
        """The buckets whose sums of those that came can be read with the shares of those that revealed theirs."""
        part, said_seats = self.part, self.named(said)
        here = self.named(came) & part
        return [bucket for bucket in self.buckets if self._is_legible(bucket, part, here, said_seats)]

    def _is_legible(self, bucket: Bucket, part: set[int], came: set[int], said: set[int]) -> bool:
        here = came & bucket.seats
        enough = len(here) >= FEWEST_DEVICES
        return enough and readable(self.near, part & bucket.seats, here, said, bucket.threshold)

    def readable(self, came: Collection[str], said: Collection[str]) -> bool:
        """Whether so many can that the round makes a model."""
        return self.suffice(len(self.legible(came, said)))

    def suffice(self, read: int) -> bool:
        """Whether so many buckets make a model: more than half of them."""
        return 2 * read > len(self.buckets)
