"""A new pack on trial: it stays once all is well, and goes by itself when it crashes or never gets there.

The order of the writes is such that the power may be cut between any two. `trial.json` is written before the switch; a
trial of a pack that is not the one that runs is void. Going back writes the verdict first, then the switch, and removes
the trial last.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from auricle.errors import AuricleError
from auricle_edge.fleet.agent_context import State
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.records import (
    FOLDER,
    KEPT,
    PROGRESS,
    TRIAL,
    PackKept,
    PackTrial,
    Progress,
    forget,
    own_record,
    short,
    write_record,
)

log = logging.getLogger("auricle.edge")

STARTS = 3
"""Starts within which a pack has to get healthy."""


class Trials:
    """The trial of a device's pack, and what is remembered of the newest rollout.

    Parameters
    ----------
    state
        The device's state folder.
    shelf
        Its packs.
    """

    def __init__(self, state: Path, shelf: PackShelf) -> None:
        self._folder, self._shelf = state / FOLDER, shelf

    @property
    def progress(self) -> Progress | None:
        """The newest rollout that was asked for."""
        return own_record(self._folder / PROGRESS, Progress)

    @property
    def trial(self) -> PackTrial | None:
        """The pack on trial."""
        return own_record(self._folder / TRIAL, PackTrial)

    def put(self, progress: Progress) -> None:
        """Remember how far a rollout has come, durably."""
        write_record(self._folder / PROGRESS, progress)

    @property
    def kept(self) -> PackKept | None:
        """The newest released pack that has proved itself here."""
        return own_record(self._folder / KEPT, PackKept)

    def install(self, source: Path, identity: str, version: str) -> None:
        """Put a pack on trial: it runs from the next start on. Errors as of `PackShelf.install`."""
        write_record(self._folder / TRIAL, PackTrial(identity=identity, version=version))
        try:
            self._shelf.install(str(source))
        except AuricleError:
            forget(self._folder / TRIAL)
            raise

    def start(self) -> None:
        """The device starts: count it, or go back when it has started too often with a pack on trial."""
        trial = self.trial
        if trial is None:
            return
        progress = self.progress
        about = progress is not None and progress.kind == "pack" and progress.wanted.identity == trial.identity
        if self._shelf.switch.current != trial.identity:
            forget(self._folder / TRIAL)
            if about and progress is not None and progress.state == "trial":
                self._settle("failed", "Another pack was chosen on the device.")
        elif about and progress is not None and progress.state == "failed":
            self.take_back(progress.reason)
        elif trial.starts >= STARTS:
            self.take_back(f"The device did not get healthy with it in {STARTS} starts.")
        else:
            write_record(self._folder / TRIAL, msgspec.structs.replace(trial, starts=trial.starts + 1))
            self._settle("trial")

    def confirm(self) -> None:
        """All is well: the pack stays."""
        trial = self.trial
        if trial is not None and trial.version:
            write_record(self._folder / KEPT, PackKept(identity=trial.identity, version=trial.version))
        self._settle("confirmed")
        forget(self._folder / TRIAL)

    def take_back(self, reason: str) -> None:
        """Go back to the pack before; it runs from the next start on. PackError: that one is not sound any more."""
        trial = self.trial
        log.warning("The pack %s is taken back: %s", "" if trial is None else trial.identity[:12], reason)
        self._settle("failed", reason)
        if trial is not None and self._shelf.switch.current == trial.identity:
            self._shelf.roll_back()
        forget(self._folder / TRIAL)

    def _settle(self, state: State, reason: str = "") -> None:
        progress, trial = self.progress, self.trial
        if progress is not None and (trial is None or progress.wanted.identity == trial.identity):
            self.put(msgspec.structs.replace(progress, state=state, reason=short(reason)))
