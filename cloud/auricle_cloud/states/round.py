"""The states of a round and its invitations (PROTOCOL section 6), and every way of a round from one to another.

Each way is one transaction.
"""

from __future__ import annotations

from typing import Literal, get_args

from auricle_cloud.states.outcome import states_of

State = Literal[
    "planned",
    "losses",
    "alarm",
    "keys",
    "shares",
    "inviting",
    "collecting",
    "revealing",
    "closing",
    "aggregated",
    "published",
    "aborted",
]

STATES: tuple[State, ...] = get_args(State)

FINISHED: tuple[State, ...] = ("published", "aborted")

TAKING: tuple[State, ...] = ("inviting", "collecting")
"""States in which an update of the round may count."""

UNCOUNTED = Literal["late", "refused"]
"""States of an invitation whose update is not counted."""

MISSING = states_of("missing")
"""States of an invitation whose device neither counted nor said why not."""

AGAINST = states_of("against")
"""States of an invitation that speak against its device, whatever became of the round."""

NO_QUORUM = "no quorum"
"""What the reason of a round begins with that was given up since too few updates came."""

GAVE_UP = states_of("gave_up")
"""States of an invitation that its device has put an end to."""

TRANSITIONS: tuple[tuple[State, State], ...] = (
    ("planned", "losses"),
    ("planned", "alarm"),
    ("planned", "keys"),
    ("planned", "inviting"),
    ("losses", "alarm"),
    ("losses", "inviting"),
    ("alarm", "inviting"),
    ("keys", "shares"),
    ("shares", "inviting"),
    ("inviting", "collecting"),
    ("collecting", "closing"),
    ("collecting", "revealing"),
    ("revealing", "closing"),
    ("closing", "aggregated"),
    ("aggregated", "published"),
    ("planned", "aborted"),
    ("losses", "aborted"),
    ("alarm", "aborted"),
    ("keys", "aborted"),
    ("shares", "aborted"),
    ("inviting", "aborted"),
    ("collecting", "aborted"),
    ("revealing", "aborted"),
    ("closing", "aborted"),
)
"""`losses` and `alarm` only in two-phase FedVSA rounds, `keys`, `shares` and `revealing` only in secure sums; an
asynchronous round collects until its buffer is full. `closing` is aborted for a model that must not be
published, and by an operator while it waits for other regions."""


def counted_words(counted: int, invited: int, left_out: int) -> str:
    """How many counted, in words: `2 of 3 counted, 1 left out by the rule`."""
    return f"{counted} of {invited} counted" + (f", {left_out} left out by the rule" if left_out else "")


def label(old: State, new: State) -> str:
    """Name a transition, e.g. in a log."""
    return f"{old} -> {new}"
