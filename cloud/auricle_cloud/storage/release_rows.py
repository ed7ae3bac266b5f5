"""Rows about what is installed, as structs: releases, rollouts and their devices; see `Row`."""

from __future__ import annotations

from typing import Literal

from auricle_cloud.states.release import Released
from auricle_cloud.states.rollout import DeviceState, RolloutState
from auricle_cloud.storage.rows import Row

ReleaseKind = Literal["bundle", "pack"]


class ReleaseRow(Released, Row, frozen=True):
    """A row of `releases`."""

    added: float


class InstallationRow(Row, frozen=True):
    """A row of `installations`."""

    device: str
    board: str
    os: str
    bundle: str | None
    version: str
    pack: str
    confirmed: bool
    rollout: str
    state: str
    reason: str
    at: float


class RolloutRow(Row, frozen=True):
    """A row of `rollouts`."""

    rollout: str
    number: int
    state: RolloutState
    reason: str
    label: str | None
    stages: list[float]
    stage: int
    errors: float
    minimum: int
    soak: float
    deadline: float
    hearing_hours: float | None
    hearing_passed: int
    who: str
    started: float
    settled: float | None
    ended: float | None


class RolloutDeviceRow(Row, frozen=True):
    """A row of `rollout_devices`."""

    rollout: str
    device: str
    stage: int
    path: str
    identity: str
    state: DeviceState
    step: str
    reason: str
    attempt: int
    forgiven: bool
    entered: float
    heard: float | None
    decided: float | None


class AskedRow(Row, frozen=True):
    """A device that is here and has not answered, with what it was asked to install."""

    rollout: str
    device: str
    kind: ReleaseKind
    path: str
    identity: str
    attempt: int
