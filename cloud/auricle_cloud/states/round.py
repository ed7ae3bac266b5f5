"""The states of a round (PROTOCOL section 6) and every way from one to another; each is one transaction."""

from __future__ import annotations

from typing import Literal, get_args

State = Literal["planned", "losses", "alarm", "inviting", "collecting", "closing", "aggregated", "published", "aborted"]

STATES: tuple[State, ...] = get_args(State)

FINISHED: tuple[State, ...] = ("published", "aborted")

TAKING: tuple[State, ...] = ("inviting", "collecting")
"""States in which an update of the round may count."""

TRANSITIONS: tuple[tuple[State, State], ...] = (
    ("planned", "losses"),
    ("planned", "inviting"),
    ("losses", "alarm"),
    ("losses", "inviting"),
    ("alarm", "inviting"),
    ("inviting", "collecting"),
    ("collecting", "closing"),
    ("closing", "aggregated"),
    ("aggregated", "published"),
    ("planned", "aborted"),
    ("losses", "aborted"),
    ("alarm", "aborted"),
    ("inviting", "aborted"),
    ("collecting", "aborted"),
)
"""`losses` and `alarm` only in two-phase FedVSA rounds; an asynchronous round collects until its buffer is full."""


def label(old: State, new: State) -> str:
    """Name a transition, e.g. in a log."""
    return f"{old} -> {new}"
