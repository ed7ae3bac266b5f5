"""What a release is, the states of its rollout and of the devices, and which follows which."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

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


class Installable(Struct, frozen=True):
    """Something that may be installed."""

    path: str
    """Its name in the signed metadata."""
    kind: str
    """bundle or pack."""
    board: str
    """Empty, as `os` and `fleet`, for a pack."""
    os: str
    fleet: str
    version: str
    identity: str


class Released(Installable, frozen=True):
    """What the signed metadata says of a release."""

    sha256: str
    """Of the file."""
    size: int
    """In bytes."""
