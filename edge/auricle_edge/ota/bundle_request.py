"""The agent's part of an update: pauses between attempts, the process that tries a pack, the request for a bundle."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from auricle.wire.kinds import UNDECODABLE
from auricle_edge.fleet.agent_context import State
from auricle_edge.ota.installation import ANSWER, Installation, Installed, SlotOutcome, outcome_reason
from auricle_edge.ota.records import FAILED, WANTED, Answer, Failed, Progress, Wanted, forget, own_record, write_record
from auricle_edge.settings import EdgeSettings

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 3600.0
"""Seconds between two attempts, doubled each time."""
BUSY_SECONDS = 5.0
"""Seconds between two looks whether the device still trains."""


def pause(attempt: int) -> float:
    """Seconds until the attempt after this one, counted from 0."""
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 20), LONGEST_PAUSE) * random.uniform(0.8, 1.2)


async def fetch_pack(
    settings: EdgeSettings, wanted: Wanted, busy: Callable[[], bool], waits: Callable[[str], None]
) -> Answer:
    """Try until the pack is on trial or refused: the answer is `staged` or `refused`.

    Parameters
    ----------
    settings
        The device's.
    wanted
        The pack.
    busy
        Whether the device trains: then nothing is fetched.
    waits
        Told why, when the pack cannot be had now.
    """
    attempt = 0
    while True:
        while busy():
            await asyncio.sleep(BUSY_SECONDS)
        answer = await _ask_process(settings, wanted)
        if answer.state in ("staged", "refused"):
            return answer
        waits(answer.reason)
        await asyncio.sleep(pause(attempt))
        attempt += 1


async def _ask_process(settings: EdgeSettings, wanted: Wanted) -> Answer:
    """What the process that fetches came to; one that crashes is no reason to try again."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "auricle_edge.ota.pack_upgrade",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    job = msgspec.json.encode({"settings": settings, "wanted": wanted})
    try:
        said, _ = await process.communicate(job)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        return msgspec.json.decode(said, type=Answer)
    except UNDECODABLE:
        reason = f"What tried the pack ended with {process.returncode}."
        return Answer(rollout=wanted.rollout, identity=wanted.identity, attempt=0, state="refused", reason=reason)


class Outcome(NamedTuple):
    """What became of a bundle so far."""

    state: State
    reason: str = ""
    again: bool = False
    """Root could not have it, and is to be asked once more."""


class BundleRequest:
    """Asks root, and reads what became of it.

    Parameters
    ----------
    folder
        Of the device's updates.
    installation
        The slots.
    runs
        The bundle that this process runs from.
    """

    def __init__(self, folder: Path, installation: Installation, runs: Installed | None) -> None:
        self._path, self._installation, self._runs = folder / WANTED, installation, runs
        self._again: float | None = None
        """When root is asked once more."""

    def write(self, wanted: Wanted) -> None:
        """Write down for root what is wanted: that starts it. StorageError: the disk cannot take it."""
        forget(self._path.with_name(FAILED))  # what an earlier trial of this bundle said is not of this one
        write_record(self._path, wanted)
        self._again = None

    def write_newest(self) -> bool:
        """Ask for the newest bundle that fits this device; False, and nothing, where it was not installed from one."""
        if self._runs is not None:
            write_record(self._path, Wanted(attempt=random.getrandbits(32)))
        return self._runs is not None

    def withdraw(self) -> None:
        """Nothing is wanted any more."""
        forget(self._path)

    def outcome(self, progress: Progress) -> Outcome:
        """What the installation's files say of the bundle of a rollout."""
        wanted, journal, runs = progress.wanted, self._installation.journal, self._runs
        last = journal.last
        if runs is None:
            return Outcome("refused", "This agent was not installed from a bundle: update it as it was installed.")
        if journal.trial is not None and journal.trial.identity == wanted.identity:
            return Outcome("trial")
        if runs.identity == wanted.identity and journal.active == runs.slot.name:
            return Outcome("confirmed")
        if last is not None and (last.rollout, last.identity) == (wanted.rollout, wanted.identity):
            return Outcome("refused" if last.outcome == "refused" else "failed", self._reason(last))
        if progress.state != "fetching":
            return Outcome("failed", "Another bundle was installed on the device.")
        return self._await_answer(progress)

    def _reason(self, last: SlotOutcome) -> str:
        """Why a trial ended: what the bundle's own agent said of it, else what the slots' journal says."""
        failed = own_record(self._path.with_name(FAILED), Failed)
        said = failed is not None and last.outcome == "reverted" and failed.identity == last.identity
        return failed.reason if failed is not None and said else outcome_reason(last)

    def _await_answer(self, progress: Progress) -> Outcome:
        """What root says while it fetches; it is asked again after a pause when it could not."""
        wanted, answer = progress.wanted, own_record(self._installation.place / ANSWER, Answer)
        unchanged = Outcome(progress.state, progress.reason)
        mine = answer is not None and (answer.rollout, answer.identity) == (wanted.rollout, wanted.identity)
        if answer is None or not mine or answer.attempt != wanted.attempt:
            return unchanged
        if answer.state == "refused":
            return Outcome("refused", answer.reason)
        if answer.state != "later":
            return unchanged
        self._again = self._again or time.monotonic() + pause(wanted.attempt)
        return Outcome("fetching", answer.reason, time.monotonic() >= self._again)
