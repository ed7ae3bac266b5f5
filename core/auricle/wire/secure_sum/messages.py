"""What devices and coordinator say to each other for a secure sum: keys, sealed shares, revealed shares."""

from __future__ import annotations

from auricle.wire.kinds import Count, Message, Round, Token
from auricle.wire.secure_sum.kinds import Boxes, PublicKey, PublicKeys, Seat, Seats, SharesBytes, SumId


class SumKeys(Message, frozen=True, tag="sumkeys", kw_only=True):
    """Answer to `JoinSum`: two public keys that are used for this sum alone."""

    task: Token
    round: Round
    sum: SumId
    boxes: PublicKey
    """Shares are sealed to it."""
    masks: PublicKey
    """Masks are agreed on with it."""


class SumShares(Message, frozen=True, tag="sumshares", kw_only=True):
    """Answer to `SumNeighbours`: shares of the device's two secrets, sealed to each neighbour in the order of seats."""

    task: Token
    round: Round
    sum: SumId
    boxes: Boxes


class SumReveal(Message, frozen=True, tag="sumreveal", kw_only=True):
    """Answer to `RevealSum`: a share of each neighbour's secret that was asked for, in the order of the question."""

    task: Token
    round: Round
    sum: SumId
    own: SharesBytes
    """Of the seeds of those whose update came."""
    masks: SharesBytes
    """Of the mask keys of those whose update did not come."""


class JoinSum(Message, frozen=True, tag="joinsum", kw_only=True):
    """Take part in the secure sum of a round: say your keys."""

    task: Token
    round: Round
    epoch: Count
    sum: SumId


class SumNeighbours(Message, frozen=True, tag="sumneighbours", kw_only=True):
    """Share your secrets among these neighbours."""

    task: Token
    round: Round
    epoch: Count
    sum: SumId
    seat: Seat
    """Of the device that is spoken to."""
    threshold: Seat
    """Shares that give a secret back."""
    seats: Seats
    """Of its neighbours, in ascending order."""
    boxes: PublicKeys
    masks: PublicKeys


class SumBoxes(Message, frozen=True, tag="sumboxes", kw_only=True):
    """What neighbours sealed for this device; those that are not named take no part. Comes before the invitation."""

    task: Token
    round: Round
    epoch: Count
    sum: SumId
    seats: Seats
    boxes: Boxes


class RevealSum(Message, frozen=True, tag="revealsum", kw_only=True):
    """Reveal shares of these neighbours' secrets: each that the device masked with is in one of the two lists."""

    task: Token
    round: Round
    epoch: Count
    sum: SumId
    came: Seats
    missing: Seats


SumAnswer = SumKeys | SumShares | SumReveal
SumQuestion = JoinSum | SumNeighbours | SumBoxes | RevealSum
