"""What is decided about a round: whom to invite, and whether it waits, closes or is given up. Pure functions of values.

Who asks knows the time, the database and the link; nothing here does. `Synchronous`, `Asynchronous` and `SecureRounds`
ask for live rounds, and the virtual engine of `fleet` for its own, so that both close alike. What becomes of a single
update, late or so many models behind, is decided beside it (`states/verdict.py`), and so is for whom rounds wait longer
and whom they do without (`states/attendance.py`): the database judges by the one, operators are told of the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Set
from dataclasses import dataclass
from typing import Literal

from auricle.wire.messages import WORSE
from auricle_cloud.states.round import NO_QUORUM, UNCOUNTED, State

ROUNDING = 1e-9
"""Taken off a product before it is rounded up: 0.7 of ten are seven, not eight by a rounding error."""


# -- whom to invite


def updates_wanted(available: int, participation: float, fewest: int = 1) -> int:
    """Updates with which a round closes at once: a share of the devices that can be invited, at least `fewest`."""
    return max(fewest, round(participation * available))


def devices_invited(available: int, wanted: int, over_selection: float) -> int:
    """Devices to invite so that `wanted` of them answer: so many times as many, as far as there are."""
    return min(available, math.ceil(wanted * over_selection - ROUNDING))


def quorum_of(invited: int, share: float, fewest: int = 1) -> int:
    """Updates without which a round makes no model: a share of the invited, rounded up, at least `fewest`."""
    return max(fewest, math.ceil(share * invited - ROUNDING))


def first_state(*, secure_sum: bool, two_phase: bool, losses: bool = True) -> State:
    """The state after `planned`: keys for a secure sum, losses for detection in two phases, or at once invitations.

    Without `losses` detection begins where an alarm would lead it.
    """
    if secure_sum or not two_phase:
        return "keys" if secure_sum else "inviting"
    return "losses" if losses else "alarm"


def idle_devices(fit: Set[str], answered: Set[str], working: Set[str]) -> tuple[set[str], set[str]]:
    """Of an asynchronous round: whom to invite, and who could still add an update to it.

    Parameters
    ----------
    fit
        Devices that can be invited.
    answered
        Those that have answered this round's invitation.
    working
        Those that have not answered an invitation which still counts, of this round or an earlier one.
    """
    left = fit - answered
    return set(left - working), set(left)


def oldest_counting(number: int, stale_limit: int) -> int:
    """The oldest asynchronous round whose invitations may still bring an update that counts in round `number`."""
    return max(1, number - stale_limit)


# -- whether to wait, to close, or to give up


@dataclass(frozen=True)
class Timing:
    """How long a synchronous round waits, and for how many."""

    quorum: float
    """Share of the invited that is enough to close a round that has waited."""
    deadline: float
    """Seconds after which it closes."""
    patience: float
    """Once the quorum is in, so many times as long again as it took."""
    least_wait: float
    """Seconds of patience, at least."""

    def closes_at(self, began: float, quorum_at: float | None) -> float:
        """When a round that began then waits no longer; `quorum_at`: when the quorum was in, None before that."""
        latest = began + self.deadline
        if quorum_at is None:
            return latest
        return min(latest, quorum_at + max(self.least_wait, self.patience * (quorum_at - began)))


@dataclass(frozen=True)
class Answers:
    """How many of a synchronous round's devices have answered."""

    invited: int
    wanted: int
    """With which it closes at once."""
    answered: int
    outstanding: int
    """Have neither answered nor given up, nor were they refused."""
    online: int
    """Of those, so many are here."""
    readable: bool = True
    """Whether a secure sum of what came could be read."""
    slow: int = 0
    """Of those that are here, so many are slow, and this round waits for them until its deadline."""
    broken: int = 0
    """Of the invited, so many do not count for the quorum."""

    @property
    def needed(self) -> int:
        """Answers with which it closes before its time: as many as it wants, if those that are here give them."""
        here = self.answered + self.online
        return here if self.slow else min(here, max(self.answered, self.wanted))


@dataclass(frozen=True)
class Decision:
    """What a synchronous round that collects does next."""

    step: Literal["wait", "close", "give up"]
    until: float
    """When it is decided again at the latest."""
    quorum_at: float | None
    """When the quorum was in."""
    reason: str = ""
    """Why it is given up."""


def closing_decision(
    answers: Answers, timing: Timing, *, began: float, now: float, quorum_at: float | None
) -> Decision:
    """Decide about a synchronous round that collects updates.

    Parameters
    ----------
    began, now
        Seconds of a clock that never goes back.
    quorum_at
        What the decision before said; None at first.
    """
    enough = answers.answered >= quorum_of(answers.invited - answers.broken, timing.quorum) and answers.readable
    if not enough:
        until = timing.closes_at(began, None)
        if now < until and answers.outstanding:
            return Decision("wait", until, quorum_at)
        late = "at the deadline" if now >= until else "and nobody is left whose update could come"
        return Decision("give up", until, quorum_at, f"{NO_QUORUM} {late}")
    quorum_at = now if quorum_at is None else quorum_at
    until = timing.closes_at(began, None if answers.slow else quorum_at)
    is_over = (answers.answered >= answers.wanted and not answers.slow) or now >= until or not answers.online
    return Decision("close" if is_over else "wait", until, quorum_at)


def is_question_over(
    outstanding: Set[str], online: Set[str], *, enough: bool, now: float, until: float, last: float
) -> bool:
    """Whether a question before or after the updates, for losses, keys or shares, waits for nobody any more.

    Parameters
    ----------
    outstanding, online
        Devices that have not answered, and those that are here.
    enough
        Whether the answers so far would do.
    now, until, last
        The time; when it closes with enough answers; when it closes with any.
    """
    return not outstanding or now >= last or (enough and (now >= until or not outstanding & online))


def is_buffer_full(count: int, size: int, *, is_late: bool = False, is_nobody_left: bool = False) -> bool:
    """Whether an asynchronous round closes: with `size` updates, or past its time or with nobody left with any."""
    return count >= size or (count > 0 and (is_late or is_nobody_left))


def is_late(began: float, now: float, deadline: float) -> bool:
    """Whether the time of an asynchronous round is over."""
    return now - began > deadline


def total_failure(number: int, invited: Collection[str], reasons: dict[str, str]) -> str | None:
    """Why a round in which every device failed or declined counts as failed; None where it does not.

    Devices that judged the round and refused it are well, and may train better in the next one.

    Parameters
    ----------
    number, invited
        The round, and who was invited.
    reasons
        What those that failed or declined said.
    """
    if not invited or set(invited) - reasons.keys() or any(reason.startswith(WORSE) for reason in reasons.values()):
        return None
    return f"All devices failed in round {number}: {min(reasons.values())}"


# -- what is late


def uncounted_as(code: str) -> UNCOUNTED | None:
    """What an invitation becomes whose update had this verdict; None where that changes nothing."""
    if code in ("late", "closed"):
        return "late"
    return "refused" if code.startswith("rejected:") else None
