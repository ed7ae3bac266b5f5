"""What a rollout does next: a pure function of its rows, its devices and the time.

Devices are ordered by a hash of rollout and device, so that every rollout begins with others, and the order of one
never changes. Stage k takes the first ceil(share * n) of the n devices that match; who is in stays in.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from auricle_cloud.states.hearing_comparison import Evidence, hold_of
from auricle_cloud.states.rollout import DECIDED, ERRORS, OFFERING, DeviceState, Installable, RolloutState


@dataclass(frozen=True)
class Device:
    """A device and what it said last of itself."""

    name: str
    standing: str
    online: bool
    label: str
    board: str
    os: str
    bundle: str | None
    pack: str
    confirmed: bool

    def takes(self, release: Installable) -> bool:
        """Whether a release is for this device."""
        return release.kind == "pack" or (release.board, release.os) == (self.board, self.os)

    def runs(self, release: Installable) -> bool:
        """Whether it has said that it runs this release and is healthy."""
        return self.confirmed and (self.pack if release.kind == "pack" else self.bundle) == release.identity


@dataclass(frozen=True)
class Member:
    """A device of a stage that was opened."""

    device: str
    stage: int
    path: str
    identity: str
    entered: float
    state: DeviceState = "waiting"
    step: str = ""
    """The last that it said on the way: fetching or trial."""
    reason: str = ""
    attempt: int = 1
    """Counted up when an operator has it asked once more."""
    forgiven: bool = False
    """An operator has seen the error, and let the rollout go on."""
    heard: float | None = None
    decided: float | None = None

    @property
    def is_error(self) -> bool:
        """Whether it counts against the rollout."""
        return self.state in ERRORS and not self.forgiven


@dataclass(frozen=True)
class Rollout:
    """A rollout's row with its targets."""

    rollout: str
    state: RolloutState
    label: str | None
    stages: tuple[float, ...]
    """Percentages of the devices that match."""
    stage: int
    errors: float
    minimum: int
    soak: float
    deadline: float
    settled: float | None
    reason: str
    targets: tuple[Installable, ...]
    hearing_hours: float | None = None
    """Hours of reports of hearing that a stage waits for; None: hearing does not hold it."""
    hearing_passed: int = -1
    """The last stage that an operator let pass whatever was reported."""

    def target_for(self, device: Device) -> Installable | None:
        """What this device is to install; None: it does not match."""
        if self.label is not None and self.label != device.label:
            return None
        return next((target for target in self.targets if device.takes(target)), None)

    @property
    def is_last_stage(self) -> bool:
        """Whether no stage follows."""
        return self.stage == len(self.stages) - 1


@dataclass(frozen=True)
class Step:
    """What is to be changed; the rollout is None where nothing of it changes."""

    members: tuple[Member, ...] = ()
    rollout: Rollout | None = None


def next_step(
    rollout: Rollout,
    members: Mapping[str, Member],
    devices: Sequence[Device],
    busy: AbstractSet[str],
    now: float,
    fleet: str,
    evidence: Evidence | None = None,
) -> Step:
    """Decide the next step; doing it and deciding again goes on.

    Parameters
    ----------
    rollout, members
        As they are; members by device.
    devices
        All that ever said what they run.
    busy
        Devices that another rollout has asked and that have not answered.
    now
        Seconds since 1970.
    fleet
        The coordinator's.
    evidence
        What devices have reported of their hearing, where that may hold the rollout.
    """
    if rollout.state not in OFFERING:
        return Step()
    foreign = next((t for t in rollout.targets if t.fleet not in ("", fleet)), None)
    if foreign is not None:
        return Step(rollout=_pause(rollout, f"{foreign.path} is for the fleet {foreign.fleet}, and this is {fleet}."))
    admitted = {device.name: device for device in devices if device.standing == "approved"}
    changed = _fallen_silent(rollout, members, admitted, now)
    known = {**members, **changed}
    complaint = _complaint(rollout, known, whole=False)
    if complaint is not None:
        return Step(tuple(changed.values()), _pause(rollout, complaint))
    changed |= _enter(rollout, known, admitted, now)
    known |= changed
    changed |= _ask(rollout, known, admitted, busy, now)
    known |= changed
    return Step(tuple(changed.values()), _advance(rollout, known, admitted, now, evidence or Evidence()))


def _fallen_silent(
    rollout: Rollout, members: Mapping[str, Member], admitted: Mapping[str, Device], now: float
) -> dict[str, Member]:
    reason = f"nothing more was heard of it for {spell(rollout.deadline)}"
    return {
        name: replace(member, state="silent", decided=now, reason=reason)
        for name, member in members.items()
        if member.state == "asked" and name in admitted and now - (member.heard or now) > rollout.deadline
    }


def _enter(
    rollout: Rollout, members: Mapping[str, Member], admitted: Mapping[str, Device], now: float
) -> dict[str, Member]:
    """Devices that come into the open stage: the first in the order of the hash that are not in yet."""
    fitting = {name: target for name, device in admitted.items() if (target := rollout.target_for(device)) is not None}
    wanted = math.ceil(rollout.stages[rollout.stage] / 100 * len(fitting) - 1e-9)
    missing = wanted - len(fitting.keys() & members.keys())
    free = sorted(fitting.keys() - members.keys(), key=lambda name: place(rollout.rollout, name))
    return {
        name: Member(name, rollout.stage, fitting[name].path, fitting[name].identity, now)
        for name in free[: max(missing, 0)]
    }


def _ask(
    rollout: Rollout, members: Mapping[str, Member], admitted: Mapping[str, Device], busy: AbstractSet[str], now: float
) -> dict[str, Member]:
    """Members that are here and were not asked yet; one that runs the target already has answered."""
    changed = {}
    for name, member in members.items():
        device = admitted.get(name)
        target = None if device is None else rollout.target_for(device)
        if member.state != "waiting" or device is None or target is None:
            continue
        if device.runs(target):
            changed[name] = replace(member, state="updated", stage=rollout.stage, decided=now)
        elif device.online and name not in busy:
            changed[name] = replace(
                member, state="asked", stage=rollout.stage, heard=now, path=target.path, identity=target.identity
            )
    return changed


def _advance(
    rollout: Rollout,
    members: Mapping[str, Member],
    admitted: Mapping[str, Device],
    now: float,
    evidence: Evidence,
) -> Rollout | None:
    """The rollout with its stage judged, its soak begun, or its next stage opened."""
    if rollout.state != "running":
        return None
    if not _is_settled(rollout, members, admitted, now):
        return None if rollout.settled is None else replace(rollout, settled=None, reason="")
    complaint = _complaint(rollout, members, whole=True)
    if complaint is not None:
        return _pause(rollout, complaint)
    empty = not any(member.stage == rollout.stage for member in members.values())
    if rollout.settled is None and not empty:
        return replace(rollout, settled=now)
    if not empty and now - (rollout.settled or now) < rollout.soak:
        return None
    if not empty and rollout.hearing_hours is not None and rollout.hearing_passed < rollout.stage:
        hold = hold_of(evidence, rollout.hearing_hours)
        if hold is not None and hold.kind == "worse":
            return _pause(rollout, hold.reason)
        if hold is not None and not rollout.is_last_stage:
            return None if rollout.reason == hold.reason else replace(rollout, reason=hold.reason)
    if rollout.is_last_stage:
        return replace(rollout, state="finished", settled=None, reason="")
    return replace(rollout, stage=rollout.stage + 1, settled=None, reason="")


def _is_settled(rollout: Rollout, members: Mapping[str, Member], admitted: Mapping[str, Device], now: float) -> bool:
    """Whether the open stage is decided: who is not here does not hold it up for longer than the deadline."""
    own = [member for member in members.values() if member.stage == rollout.stage]
    if not own:
        return bool(members)
    for member in own:
        here = member.device in admitted
        if here and (
            member.state == "asked" or (member.state == "waiting" and now - member.entered < rollout.deadline)
        ):
            return False
    return any(member.state in DECIDED for member in own)


def _complaint(rollout: Rollout, members: Mapping[str, Member], *, whole: bool) -> str | None:
    """Why the open stage is worse than allowed; while devices are still to answer, only from `minimum` answers on."""
    counted = [m for m in members.values() if m.stage == rollout.stage and m.state in DECIDED and not m.forgiven]
    errors = [member for member in counted if member.is_error]
    if not counted or (len(counted) < rollout.minimum and not whole) or len(errors) / len(counted) <= rollout.errors:
        return None
    first = min(errors, key=lambda member: (member.decided or 0.0, member.device))
    return (
        f"{len(errors)} of {len(counted)} devices that stage {rollout.stage + 1} has heard of did not make it, and "
        f"{rollout.errors:.0%} are allowed: {first.device} {first.state}: {first.reason or 'it gave no reason'}."
    )


def _pause(rollout: Rollout, reason: str) -> Rollout:
    return replace(rollout, state="paused", reason=reason, settled=None)


def told_name(rollout: str, attempt: int) -> str:
    """The name under which a device is asked: one that has failed does not listen to the same name again."""
    return rollout if attempt == 1 else f"{rollout}.{attempt}"


def place(rollout: str, device: str) -> bytes:
    """What a rollout's devices are ordered by."""
    return hashlib.sha256(f"{rollout}/{device}".encode()).digest()


def spell(seconds: float) -> str:
    """A duration in words: `90 s`, `6.5 min`, `15 min`, `2 h`, `3 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds and seconds % size == 0):
            count = round(seconds / size, 0 if seconds >= 10 * size else 1)
            return f"{count:g} {unit}"
    return f"{seconds:.3g} s"
