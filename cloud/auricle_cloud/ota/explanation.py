"""How a rollout and each of its devices fare, in sentences."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auricle.process.times import how_many
from auricle_cloud.states.rollout import DECIDED, OFFERING, Installable
from auricle_cloud.states.rollout_plan import Device, Member, Rollout, place, spell

if TYPE_CHECKING:
    from auricle_cloud.storage.release_records import InstallationRow


def about_rollout(rollout: Rollout, members: Mapping[str, Member], devices: Sequence[Device], now: float) -> list[str]:
    """What it installs on whom, how far it is, and what it waits for."""
    whom = "every device that matches" if rollout.label is None else f'devices with the label "{rollout.label}"'
    said = [f"{rollout.rollout} installs {_and([_name_of(t) for t in rollout.targets])} on {whom}."]
    fitting = [d for d in devices if d.standing == "approved" and rollout.target_for(d) is not None]
    percent, stages = rollout.stages[rollout.stage], len(rollout.stages)
    said.append(
        f"Stage {rollout.stage + 1} of {stages} is open: {percent:g} % of {how_many(len(fitting), 'device')}, which is "
        f"{math.ceil(percent / 100 * len(fitting) - 1e-9)}; {len(members)} {_are(len(members))} in."
    )
    if rollout.state == "running":
        said.append(_next(rollout, members, len(fitting), now))
    elif rollout.state == "finished":
        said.append("All stages are through; devices that come later still get it.")
    else:
        resume = " auricle cloud rollouts resume continues; --retry asks the devices that failed again."
        end = resume if rollout.state == "paused" else ""
        said.append(f"It is {rollout.state}: {_sentence(rollout.reason)}{end}")
    return said


def _next(rollout: Rollout, members: Mapping[str, Member], fitting: int, now: float) -> str:
    """What the next stage waits for."""
    after = "It finishes" if rollout.is_last_stage else f"Stage {rollout.stage + 2} opens"
    if rollout.settled is not None:
        if rollout.reason:
            return (
                f"All of the stage is decided. {_sentence(rollout.reason)} To go on without: pause it, and resume it."
            )
        left = max(0.0, rollout.settled + rollout.soak - now)
        return f"All of the stage is decided. {after} in {spell(round(left))} if nothing changes."
    if not members and fitting:
        return (
            f"{how_many(fitting, 'device')} {'match' if fitting > 1 else 'matches'}; the first are about to be asked."
        )
    if not members:
        return "No device that matches has said yet what it runs."
    own = [member for member in members.values() if member.stage == rollout.stage and member.state not in DECIDED]
    asked = [member.device for member in own if member.state == "asked"]
    away = [member.device for member in own if member.state == "waiting"]
    waits = []
    if asked:
        waits.append(f"{_few(asked)} {_have(len(asked))} answered")
    if away:
        limit = f"at the latest after {spell(rollout.deadline)}"
        waits.append(f"{_few(away)} {_have(len(away))} come online and answered, {limit}")
    answered = any(member.stage == rollout.stage and member.state in DECIDED for member in members.values())
    least = "" if asked or answered else "; at least one device has to answer"
    return f"{after} when {', and '.join(waits)}{least}." if waits else f"{after} soon."


def about_device(
    rollout: Rollout, name: str, member: Member | None, device: Device | None, installed: InstallationRow | None
) -> list[str]:
    """Why a device is where it is in a rollout."""
    said = [_why_out(rollout, name, device)] if member is None else [_why(rollout, member, device)]
    if device is not None and device.standing != "approved":
        said.append(f"It is {device.standing}, and gets nothing.")
    return [*said, what_it_runs(installed)]


def _why_out(rollout: Rollout, name: str, device: Device | None) -> str:
    if device is None:
        return f"{name} has never said what it runs: its agent is too old, or was not installed from a bundle."
    if rollout.label is not None and device.label != rollout.label:
        return f'{name} is not in: its label is "{device.label}".'
    if rollout.target_for(device) is None:
        kind = f"{device.board or 'no board'}, {device.os or 'no system'}"
        return f"{name} is not in: nothing here is for {kind}."
    if device.standing != "approved":
        return f"{name} is not in."
    share = int.from_bytes(place(rollout.rollout, name)[:4], "big") / (1 << 32)
    if rollout.state not in OFFERING:
        return f"{name} was not in when the rollout was {rollout.state}."
    return f"{name} is not in yet: by the order of this rollout about {share:.0%} of the devices come before it."


def _why(rollout: Rollout, member: Member, device: Device | None) -> str:
    name, when = member.device, "" if member.decided is None else f" at {_time(member.decided)}"
    if member.state == "waiting":
        here = "has not come since" if device is None or not device.online else "is about to be asked"
        return f"{name} is in stage {member.stage + 1} and {here}."
    if member.state == "asked":
        step = {"fetching": "it is fetching the files", "trial": "the new version is on trial"}.get(
            member.step, "it has not answered yet"
        )
        until = (member.heard or member.entered) + rollout.deadline
        return f"{name} was asked, and {step}; it counts as silent at {_time(until)}."
    if member.state == "updated":
        return f"{name} is updated: it said so itself{when}, healthy on {member.identity[:12]}."
    reason = member.reason or "it gave no reason"
    word = {"failed": "failed and runs its previous version", "refused": "refused", "silent": "fell silent"}
    forgiven = " An operator has forgiven it." if member.forgiven else ""
    return f"{name} {word[member.state]}{when}: {_sentence(reason)}{forgiven}"


def what_it_runs(installed: InstallationRow | None) -> str:
    """What a device said last of what it runs, in a sentence."""
    if installed is None:
        return "It has not said what it runs."
    what = f"bundle {installed.bundle[:12]}" if installed.bundle else "no bundle"
    trial = "" if installed.confirmed else ", on trial"
    return (
        f"It said at {_time(installed.at)} that it runs {what}, version {installed.version or 'unknown'}, pack "
        f"{installed.pack[:12]}{trial}."
    )


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _name_of(target: Installable) -> str:
    where = "" if target.kind == "pack" else f" for {target.board}, {target.os}"
    return f"{target.kind} {target.version} ({target.identity[:12]}){where}"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _few(names: Sequence[str]) -> str:
    shown = sorted(names)[:3]
    return _and([*shown, f"{len(names) - 3} more"]) if len(names) > 3 else _and(shown)


def _and(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
