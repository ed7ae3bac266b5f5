"""When a round closes on a clock that only counts: as the coordinator decides, at the times of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from itertools import groupby

from auricle.wire.messages import Update
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.policy import Answers, Decision, Timing, closing_decision


@dataclass(frozen=True)
class RoundEnd:
    """How a round ended."""

    names: list[str] | None
    """Who has answered when it closes, in the order of their answers; None: it was given up."""
    seconds: float
    """Seconds after the invitation."""
    reason: str = ""
    """Why it was given up."""


@dataclass(frozen=True, eq=False)
class Heard:
    """What a round's devices sent, as a coordinator answers them."""

    updates: Mapping[str, Update] = field(default_factory=dict)
    """Those that came in time and are sound."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why updates are not counted."""
    late: tuple[str, ...] = ()
    """Whose answer would come after the end."""


def round_end(
    arrivals: Mapping[str, float],
    failed: Mapping[str, float],
    invited: int,
    wanted: int,
    timing: Timing,
    slow: Set[str] = frozenset(),
    broken: int = 0,
) -> RoundEnd:
    """How a round ends whose devices answer at these times.

    Parameters
    ----------
    arrivals
        Seconds after the invitation at which devices answer; those that never do are left out. Of equal times the
        first counts first.
    failed
        Seconds at which devices say that they failed, or send what is refused: nobody waits for these then.
    invited
        How many were.
    wanted
        Answers with which the round closes at once.
    timing
        How long it waits otherwise.
    slow
        Of the invited, for whom it waits until its deadline.
    broken
        Of the invited, so many do not count for the quorum.
    """
    events = [(at, name, True) for name, at in arrivals.items()] + [(at, name, False) for name, at in failed.items()]
    waited = {*slow}
    names: list[str] = []
    heard, decision = 0, Decision("wait", timing.closes_at(0.0, None), None)

    def decide(now: float) -> Decision:
        left = invited - heard  # who has not answered yet is here: nobody's link is cut
        answers = Answers(invited, wanted, len(names), left, online=left, slow=len(waited), broken=broken)
        return closing_decision(answers, timing, began=0.0, now=now, quorum_at=decision.quorum_at)

    for now, group in groupby(sorted(events, key=lambda event: event[0]), key=lambda event: event[0]):
        if now > decision.until:
            break
        for _, name, is_answer in group:
            heard += 1
            waited.discard(name)
            if is_answer:
                names.append(name)
            decision = decide(now)
            if decision.step == "close" and len(names) >= wanted:
                return RoundEnd(names, now)
        if decision.step != "wait":
            break
    if decision.step == "wait":
        now, decision = decision.until, decide(decision.until)
    return RoundEnd(names, now) if decision.step == "close" else RoundEnd(None, now, decision.reason)


def heard_of(
    updates: Mapping[str, tuple[Update, Flat]], refused: Mapping[str, str], arrivals: Mapping[str, float], end: RoundEnd
) -> Heard:
    """Whose updates came before a round ended, and who would have come after it.

    Parameters
    ----------
    updates, refused
        That are sound, and why others are not.
    arrivals
        Seconds after the invitation at which devices whose answer is none of the refused ones arrive.
    """
    came = {name for name in updates if arrivals[name] <= end.seconds} if end.names is None else set(end.names)
    late = tuple(name for name in arrivals if name not in came)
    return Heard({name: updates[name][0] for name in sorted(came)}, refused, late)
