"""The states of a rollout and of its devices, and which follows which."""

from __future__ import annotations

from typing import Literal, get_args

RolloutState = Literal["running", "paused", "finished", "replaced", "aborted"]
"""`finished`: all stages are through, and devices that come later still get it; `replaced`: by a newer rollout."""

DeviceState = Literal["waiting", "asked", "updated", "failed", "refused", "silent"]
"""`updated`: the device said so itself, healthy on the new version; `silent`: it was asked, and no more was heard."""
DEVICE_STATES: tuple[DeviceState, ...] = get_args(DeviceState)

OFFERING = ("running", "finished")
"""States in which devices are asked."""
IN_FORCE: tuple[RolloutState, ...] = ("running", "paused", "finished")
ENDED = ("replaced", "aborted")
DECIDED = ("updated", "failed", "refused", "silent")
ERRORS = ("failed", "refused", "silent")

TRANSITIONS: frozenset[tuple[RolloutState, RolloutState]] = frozenset(
    {
        ("running", "running"),
        ("running", "paused"),
        ("running", "finished"),
        ("running", "aborted"),
        ("running", "replaced"),
        ("paused", "running"),
        ("paused", "aborted"),
        ("paused", "replaced"),
        ("finished", "paused"),
        ("finished", "aborted"),
        ("finished", "replaced"),
    }
)
"""`running -> running` opens the next stage."""


def label(old: RolloutState, new: RolloutState) -> str:
    """A transition's name, where tests end the process."""
    return f"rollout {old} -> {new}"
