"""Why a round does not start, or does not go on: in sentences, with each device's reason."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from auricle.process.times import how_many
from auricle_cloud.operations.device_explanation import sentence
from auricle_cloud.operations.round_answers import DeviceWaits, DeviceWhy, Waiting
from auricle_cloud.states.report import RoundReport
from auricle_cloud.states.round_outcomes import DevicesOfRound, outcome_of
from auricle_cloud.states.selection import moment, unfit
from auricle_cloud.storage import rows

if TYPE_CHECKING:
    from auricle_cloud.storage.database import Pulse
    from auricle_cloud.storage.listings import MemberRow

SILENT_SECONDS = 30.0
"""Seconds without a word of the coordinator after which it is said to have stopped."""
NAMED_DEVICES = 5
BUSY = {
    "losses": "asks its cohort for the loss of the model",
    "alarm": "looks for who poisoned the model",
    "keys": "asks its cohort for keys of the secure sum",
    "shares": "has its cohort share secrets for the secure sum",
    "inviting": "sends its invitations",
    "revealing": "asks those whose update came for shares that open the sum of all",
    "closing": "makes the next model",
    "aggregated": "publishes the model that it made",
}


@dataclass(frozen=True)
class Wanted:
    """What rounds ask of devices, and what is known of those that are not there."""

    pack: str = ""
    """Identity of the task's pack; empty as long as there is no task."""
    needs: Sequence[str] = ()
    """What a device has to be able to do."""
    fewest: int = 1
    """Devices without which no round begins."""
    resting: Mapping[str, str] = field(default_factory=dict)
    """Devices that declined a moment ago, and the sentence that says so."""
    by_claim: bool = False
    """Whether devices get their names by tokens and certificates."""
    tokens: int = 0
    """Tokens that were given out and not used yet."""

    def why_not(self, row: rows.DeviceRow) -> str | None:
        """Why a device cannot be invited; None when it can."""
        return unfit(row, self.pack, self.needs) or self.resting.get(row.device)

    def nobody(self) -> str:
        """What to do where no device has registered."""
        if self.tokens:
            given = "1 token is" if self.tokens == 1 else f"{self.tokens} tokens are"
            return (
                f"No device has registered, and {given} not used yet: run auricle edge claim on the device with its "
                "token, then auricle edge run."
            )
        if self.by_claim:
            return (
                "No device has registered: make a token for each with auricle cloud enrol token, run auricle edge "
                "claim with it on the device, then auricle edge run."
            )
        return "No device has registered: start agents with this fleet's name, its broker and the coordinator's key."


def planned_waits(
    number: int,
    busy: int | None,
    first: int,
    devices: Sequence[rows.DeviceRow],
    wanted: Wanted,
    coordinator: Sequence[str],
) -> Waiting:
    """Say why a planned round has not begun.

    Parameters
    ----------
    number
        The round.
    busy, first
        The round that is under way, and the first one that is planned: rounds come one after the other.
    devices
        All that are known.
    wanted
        What the round asks of them.
    coordinator
        What keeps the coordinator from working, in sentences.
    """
    reasons = {row.device: wanted.why_not(row) for row in devices}
    able = [name for name, reason in reasons.items() if reason is None]
    blocked = [DeviceWaits(device=name, reason=reason) for name, reason in sorted(reasons.items()) if reason]
    silent = [row.device for row in devices if reasons[row.device] is None and not row.samples]
    without = [DeviceWaits(device=name, reason=NO_CLIPS) for name in silent]
    said = [f"Round {number} is planned and has not begun."]
    if busy is not None:
        said.append(f"Round {busy} is under way: rounds come one after the other.")
    elif first != number:
        said.append(f"Round {first} comes before it.")
    said += coordinator
    few = f"{len(able)} of {how_many(len(devices), 'device')} can be invited"
    if not devices:
        said.append(wanted.nobody())
    elif not able:
        said.append(f"None of {how_many(len(devices), 'device')} can be invited.")
    elif len(able) < wanted.fewest:
        said.append(f"{few}, and a secure sum needs {wanted.fewest} at least: it begins when that many can.")
    elif not coordinator and busy is None and first == number:
        said.append(f"{few}: it is about to begin.")
    else:
        said.append(f"{few}.")
    if any(row.standing == "pending" for row in devices):
        said.append("To let devices in: auricle cloud devices approve NAME..., or --all.")
    return Waiting(round=number, sentences=said, devices=[*blocked, *without])


def none_planned(
    devices: Sequence[rows.DeviceRow], wanted: Wanted, scheduled: bool, coordinator: Sequence[str]
) -> list[str]:
    """Say that there is no round yet, and why none starts; parameters as of `planned_waits`."""
    able = sum(wanted.why_not(row) is None for row in devices)
    how = "no schedule has started one" if scheduled else "nobody has started one (auricle cloud rounds start)"
    said = [f"There is no round yet: {how}.", *coordinator]
    if not devices:
        said.append(wanted.nobody())
    else:
        said.append(f"{able or 'None'} of {how_many(len(devices), 'device')} could be invited now.")
    return said


NO_CLIPS = "can be invited, but had no clips to train on when it registered: it declines until it has"


def begun_waits(
    number: int,
    state: str,
    cohort: Sequence[MemberRow],
    known: Mapping[str, rows.DeviceRow],
    coordinator: Sequence[str],
) -> Waiting:
    """Say what a round under way waits for; parameters as of `planned_waits`, and the round's own devices."""
    counted = sum(row.received is not None for row in cohort)
    said = [f"Round {number} is {state}: {counted} of {how_many(len(cohort), 'invited device')} counted."]
    if state in BUSY:
        said.append(f"It {BUSY[state]}.")
    said += coordinator
    waiting = []
    for row in cohort:
        if row.received is None and (reason := _member(row, known.get(row.device))):
            waiting.append(DeviceWaits(device=row.device, reason=reason))
    silent = [row.device for row in cohort if row.received is None and row.state == "invited"]
    if state == "collecting" and silent:
        more = f" and {len(silent) - NAMED_DEVICES} more" if len(silent) > NAMED_DEVICES else ""
        said.append(f"It waits for {', '.join(silent[:NAMED_DEVICES])}{more}, at most until its deadline.")
    return Waiting(round=number, sentences=said, devices=waiting)


def _member(row: MemberRow, device: rows.DeviceRow | None) -> str:
    """What is known of an invited device that has not counted."""
    if row.state != "invited":
        return f"{row.state}: {row.reason}" if row.reason else row.state
    asked = f"was invited at {moment(row.invited)} and has not answered"
    why = "" if device is None or device.online else unfit(device, "")
    return f"{asked}; it {why}" if why else asked


def unfinished(report: RoundReport, name: str, reason: str | None) -> DeviceWhy:
    """One device of a round that is not finished; `reason` as of `DeviceWaits`."""
    outcome = outcome_of(DevicesOfRound.of(report), name)
    said = {"counted": "has sent its update", "not_invited": "can be invited"}.get(outcome, "has answered")
    return DeviceWhy(device=name, outcome=outcome, sentences=[sentence(f"{name} {reason or said}")])


def coordinator_trouble(pulse: Pulse | None, epoch: int, now: float | None = None) -> list[str]:
    """Say whether a coordinator works on the state; nothing where it does, or nobody can tell."""
    if pulse is None:
        start = "No coordinator has run on this state yet: start auricle cloud serve."
        return [] if epoch else [start]
    if not pulse.running or pulse.at + SILENT_SECONDS < (time.time() if now is None else now):
        return [f"No coordinator has run on this state since {moment(pulse.at)}: start auricle cloud serve."]
    if not pulse.connected:
        return [
            sentence(f"The coordinator is not connected to its broker{f': {pulse.problem}' if pulse.problem else ''}")
        ]
    return []
