"""A version on trial: begun, counted at each start of the agent, confirmed or reverted."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from auricle_edge.ota.slots.bundle import FORMAT_VERSION, Refused
from auricle_edge.ota.slots.files import read_small
from auricle_edge.ota.slots.journal import (
    Journal,
    Last,
    Place,
    Trial,
    lock,
    other,
    read_installed,
    read_journal,
    write_journal,
)
from auricle_edge.ota.slots.settling import TIMER, settle

MOST_STARTS = 3
HINT = "journalctl -u auricle-edge on the device says why"


def try_staged(place: Place, rollout: str, deadline: int) -> str:
    """Switch to the staged version, on trial: it has `deadline` seconds and three starts to become healthy."""
    with lock(place, "build"), lock(place, "journal"):
        journal, _ = read_installed(place)
        slot = other(journal.active)
        staged = place.manifest(slot)
        if journal.trial is not None or staged is None:
            what = "A version is on trial already" if journal.trial else "Nothing is staged"
            raise Refused(f"{what}: stage a bundle when no trial runs.")
        place.systemctl("start", TIMER)  # first: it also sees to what an interrupted switch leaves
        trial = Trial(slot, staged.identity, place.boot(), deadline, time.monotonic(), 0, rollout)
        journal = Journal(active=slot, confirmed=False, previous=journal.active, trial=trial, last=journal.last)
        settle(place, write_journal(place, journal), start=True)
        return f"Version {staged.version} ({staged.identity[:12]}) is on trial for {deadline} s."


def starting(place: Place) -> str:
    """Before each start of the agent: count it while a trial runs, and give the version up after the third."""
    with lock(place, "journal"):
        journal = read_journal(place)
        if journal is None or journal.trial is None:
            return "No trial runs."
        trial = replace(journal.trial, starts=journal.trial.starts + 1)
        if trial.starts > MOST_STARTS:
            return end_trial(place, journal, f"it was started {MOST_STARTS} times and never became healthy: {HINT}")
        write_journal(place, replace(journal, trial=trial))
        return f"Start {trial.starts} of {MOST_STARTS} on trial."


def check(place: Place) -> str:
    """At boot, when the agent failed, and every few seconds of a trial: confirm, revert, or go on waiting."""
    if not place.home.exists():
        return "Nothing is installed."
    with lock(place, "journal"):
        journal = read_journal(place)
        if journal is None:
            return "Nothing is installed."
        if place.manifest(journal.active) is None and place.manifest(other(journal.active)) is not None:
            journal = replace(journal, previous=other(journal.active))
            return end_trial(place, journal, "its slot is damaged")
        if journal.trial is not None:
            reason = failure(place, journal.trial)
            if reason is not None:
                return end_trial(place, journal, reason)
            if healthy(place, journal.trial):
                return end_trial(place, journal, None)
        settle(place, journal)
        return "A trial runs." if journal.trial else "All is as it should be."


def failure(place: Place, trial: Trial) -> str | None:
    """Why a trial is over without success; None while it is not."""
    if trial.boot != place.boot():
        return "the device was switched off or started again before it had become healthy"
    if time.monotonic() - trial.started_monotonic >= trial.deadline_seconds and not healthy(place, trial):
        return f"it did not become healthy within {trial.deadline_seconds} s: {HINT}"
    return None


def healthy(place: Place, trial: Trial) -> bool:
    """Whether the agent on trial says that it is well; the file is from somebody with fewer rights."""
    text = read_small(place.runtime[0] / "health.json")
    try:
        said = json.loads(text or b"{}")
        return said["format"] == FORMAT_VERSION and said["identity"] == trial.identity and said["healthy"] is True
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def end_trial(place: Place, journal: Journal, reason: str | None) -> str:
    """Confirm what is active, or for a reason go back to what was before.

    Raises
    ------
    Refused
        There is no complete version to go back to.
    """
    manifest, trial = place.manifest(journal.active), journal.trial
    back = other(journal.active)
    if reason is not None and place.manifest(back) is None:
        raise Refused("There is no version to go back to: install a bundle.")
    last = Last(
        "" if manifest is None else manifest.identity,
        "" if manifest is None else manifest.version,
        "" if trial is None else trial.rollout,
        "reverted" if reason else "confirmed",
        reason or "",
    )
    named = f"Version {last.version} ({last.identity[:12]})"
    if reason is None:
        settle(place, write_journal(place, Journal(journal.active, previous=journal.previous, last=last)))
        return f"{named} is confirmed."
    settle(place, write_journal(place, Journal(back, last=last)), start=True)
    return f"{named} is given up: {reason}."


def confirm(place: Place) -> str:
    """Say that the version on trial works."""
    with lock(place, "journal"):
        journal, _ = read_installed(place)
        return end_trial(place, journal, None) if journal.trial else "Nothing is on trial."


def revert(place: Place, reason: str) -> str:
    """Go back to the version before."""
    with lock(place, "build"), lock(place, "journal"):
        journal, _ = read_installed(place)
        if journal.previous is None:
            raise Refused("There is no version to go back to: install a bundle.")
        return end_trial(place, journal, reason)
