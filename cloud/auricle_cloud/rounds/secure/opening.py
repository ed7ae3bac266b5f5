"""From masked updates and revealed shares to a sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auricle.errors import WireError
from auricle.wire.secure_sum.device import Keys, Revealed, Share
from auricle.wire.secure_sum.kinds import BOX, sum_name
from auricle.wire.secure_sum.quantised import Words, words_of
from auricle.wire.secure_sum.server import ServerSum
from auricle.wire.secure_sum.sizes import SHARE_BYTES
from auricle_cloud.storage.rows import SumRow


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
