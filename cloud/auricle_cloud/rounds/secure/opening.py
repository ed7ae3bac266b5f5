"""From masked updates and revealed shares to the mean update, and to the next model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from auricle.errors import WireError
from auricle.wire.secure_sum.device import Keys, Revealed, Share
from auricle.wire.secure_sum.kinds import BOX, sum_name
from auricle.wire.secure_sum.quantised import Words, words_of
from auricle.wire.secure_sum.server import ServerSum
from auricle.wire.secure_sum.sizes import SHARE_BYTES
from auricle.wire.tensors import Flat, TensorTable
from auricle_cloud.storage.rows import SumRow
from auricle_learning.aggregation.cohort import Aggregate, Float64Array, layers_of


def total_of(sum_id: str, rows: Sequence[SumRow], threshold: int, bodies: Mapping[str, bytes], size: int) -> Words:
    """The sum (P,) of the updates that came, modulo 2^32.

    Parameters
    ----------
    rows
        Of all that are part of the sum.
    threshold
        Shares that give a secret back.
    bodies
        Masked updates by device.
    size
        P.

    Raises
    ------
    WireError
        The shares are too few, or do not belong together.
    """
    seats = {row.seat: row for row in rows if row.seat is not None}
    names = {seat: sum_name(sum_id, seat) for seat in seats}
    near = {seat: [other for other in row.near or () if other in seats] for seat, row in seats.items()}
    server = ServerSum({names[seat]: tuple(names[other] for other in near[seat]) for seat in seats}, threshold, size)
    for seat, row in seats.items():
        server.take_keys(names[seat], Keys(row.boxes, row.masks))
    for seat, row in seats.items():
        server.take_shares(names[seat], {names[other]: box_for(row, other) for other in near[seat]})
    for seat, row in seats.items():
        if row.device in bodies:
            server.take_masked(names[seat], words_of(bodies[row.device], size))
    came = {seat for seat, row in seats.items() if row.device in bodies}
    revealed = {}
    for seat, row in seats.items():
        if row.own is not None and row.lost is not None:
            own, lost = ([other for other in near[seat] if (other in came) == here] for here in (True, False))
            revealed[names[seat]] = Revealed(
                {names[other]: _share(seats[other], seat, row.own, i) for i, other in enumerate(own)},
                {names[other]: _share(seats[other], seat, row.lost, i) for i, other in enumerate(lost)},
            )
    return server.total(revealed)


def box_for(row: SumRow, seat: int) -> bytes:
    """What a device sealed for its neighbour at a seat; WireError: it is none."""
    if row.near is None or row.shares is None or seat not in row.near:
        raise WireError(f"{row.device} sealed nothing for seat {seat} of its secure sum.")
    place = row.near.index(seat)
    return row.shares[BOX * place : BOX * (place + 1)]


def _share(owner: SumRow, holder: int, shares: bytes, place: int) -> Share:
    """A revealed share of a device's secret: its place is that of its holder among the device's neighbours."""
    near = owner.near or []
    return Share(near.index(holder) + 1, shares[SHARE_BYTES * place : SHARE_BYTES * (place + 1)])


def mean_of(start: Flat, moved: Float64Array, devices: Sequence[str], table: TensorTable) -> Aggregate:
    """What the rule fedavg makes of updates with the same weight, of which only the sum is known.

    Parameters
    ----------
    start
        (P,) w^t.
    moved
        (P,) sum of the updates w_k - w^t.
    devices
        K names, of whom the sum is.
    table
        Tells the layers.
    """
    layers = tuple(layer.name for layer in layers_of((s.name, s.size, s.layer) for s in table.specs))
    shape = (len(devices), len(layers))
    return Aggregate(
        weights=np.asarray(start + moved / len(devices), np.float32),
        ids=tuple(sorted(devices)),
        layers=layers,
        kept=np.ones(shape, np.bool_),
        share=np.full(shape, 1.0 / len(devices)),
    )
