"""The agent's side of updates: follows what the coordinator names, and says truly how far that has come.

A bundle is root's business: the agent writes down what is wanted, and reads in the installation's files what became of
it. A pack is its own: a process fetches it and puts it on trial, the device starts again with it, and keeps it or goes
back. Nothing of python-tuf is loaded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from auricle.errors import AuricleError, StorageError
from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.tasks import start_task
from auricle.packs.signature import read_trusted_key
from auricle.wire.messages import Target
from auricle_edge.fleet.agent_context import Standing, State
from auricle_edge.ota.bundle_request import BundleRequest, fetch_pack
from auricle_edge.ota.health import Health
from auricle_edge.ota.installation import Installation, Installed
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_trial import Trials
from auricle_edge.ota.records import FAILED, FOLDER, Failed, Progress, Wanted, short, write_record
from auricle_edge.settings import PATIENCE_FACTOR, EdgeSettings

log = logging.getLogger("auricle.edge")

LOOK_SECONDS = 2.0
"""Seconds between two looks at what root has written."""


class Following:
    """Follows updates.

    Parameters
    ----------
    settings
        The device's.
    pack
        Identity of the pack that runs in this process.
    restart
        Ends this process's work and starts it again.
    busy
        Whether the device trains: then nothing is fetched.
    """

    def __init__(
        self,
        settings: EdgeSettings,
        pack: str,
        *,
        restart: Callable[[], None],
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings, self._pack, self._restart, self._busy = settings, pack, restart, busy
        self._installation = Installation()
        self._runs = self._running_bundle()
        self._request = BundleRequest(settings.folder / FOLDER, self._installation, self._runs)
        shelf = PackShelf(settings.folder, settings.pack, read_trusted_key(settings.pack_key))
        self._trials = Trials(settings.folder, shelf)
        self._progress, self._trial = self._trials.progress, self._trials.trial
        own = "" if self._runs is None else self._runs.identity
        self.health = Health(own, os.urandom(8).hex(), settings.updates.health_seconds)
        self.health.write(time.monotonic())
        self._began, self._trouble = time.monotonic(), ""
        self._news = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._next_check = time.monotonic() + (settings.updates.check_every or 0)

    def _running_bundle(self) -> Installed | None:
        """The bundle that runs here; a device listens, too, whose installation is damaged."""
        try:
            return self._installation.running()
        except StorageError as error:
            log.warning("%s", error)
            return None

    # -- what is told

    def standing(self) -> Standing:
        """How the device stands now."""
        runs, progress, journal = self._runs, self._progress, self._installation.journal
        settled = journal.trial is None and journal.confirmed and self._trial is None
        active = runs is None or journal.active == runs.slot.name  # not so in one that is about to be ended
        wanted = None if progress is None else progress.wanted
        return Standing(
            board="" if runs is None else runs.facts.board,
            os="" if runs is None else runs.facts.os,
            bundle=None if runs is None else runs.identity,
            version="" if runs is None else runs.facts.version,
            confirmed=settled and active,
            rollout="" if wanted is None else wanted.rollout,
            state=None if progress is None else progress.state,
            reason="" if progress is None else progress.reason,
        )

    async def follow(self, target: Target) -> None:
        """Take in what the coordinator names; the answer is in `standing`."""
        wanted = Wanted(rollout=target.rollout, path=target.path, identity=target.identity)
        before = self._progress
        if before is not None and before.kind == target.kind and _same(before.wanted, wanted):
            return
        if before is not None and before.state == "trial":
            log.warning(
                "Another update was named while one is on trial; it is looked at when the coordinator asks again."
            )
            return
        await self._halt()
        self._put(Progress(kind=target.kind, wanted=wanted))
        log.info("An update was named: %s", target.path)
        self._resume()

    async def hasten(self) -> bool:
        """Go on at once with what waits, or ask for the newest bundle; False where neither can be."""
        progress = self._progress
        if progress is None or progress.state not in ("fetching", "trial"):
            return self._request.write_newest()
        if progress.state == "fetching" and progress.reason:
            await self._halt()
            self._settle("fetching")
            self._resume()
        return True

    def withdraw(self) -> None:
        """Ask for the newest bundle no more."""
        self._request.withdraw()

    # -- life

    async def run(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Follow until cancelled.

        Parameters
        ----------
        changed
            Called when `standing` is another than before.
        """
        said: Standing | None = None
        try:
            with self._report_trouble():
                self._resume()
            while True:
                self._news.clear()
                with self._report_trouble():
                    self._look()
                now = self.standing()
                if now != said:
                    with self._report_trouble():
                        await changed()
                    said = now
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(self._news.wait(), LOOK_SECONDS)
        finally:
            await self._halt()

    def watch(self, well: bool) -> None:
        """Take in whether all is well at this moment: what is on trial stays once it has been for long enough."""
        with self._report_trouble():
            self._watch(well, time.monotonic())

    @contextlib.contextmanager
    def _report_trouble(self) -> Iterator[None]:
        """A full disk, or a pack that cannot be gone back to, is said once and does not end the listening."""
        try:
            yield
        except AuricleError as error:
            if str(error) != self._trouble:
                log.warning("%s", error)
            self._trouble = str(error)

    def _watch(self, well: bool, now: float) -> None:
        healthy = self.health.look(well, now)
        if self._trial is None:
            return
        if healthy:
            self._trials.confirm()
            self._reread()
        elif now - self._began > PATIENCE_FACTOR * self._settings.updates.health_seconds:
            self._trials.take_back("The device did not get healthy with it in time.")
            self._reread()
            self._restart()

    def _reread(self) -> None:
        self._progress, self._trial = self._trials.progress, self._trials.trial
        self._news.set()

    def _put(self, progress: Progress) -> None:
        self._trials.put(progress)
        self._progress = progress
        self._news.set()

    def _settle(self, state: State, reason: str = "") -> None:
        assert self._progress is not None
        if (self._progress.state, self._progress.reason) != (state, short(reason)):
            log.info("The update is %s. %s", state, reason)
            self._put(msgspec.structs.replace(self._progress, state=state, reason=short(reason)))

    def _resume(self) -> None:
        """See what is true of the newest rollout, and go on with what is not at its end."""
        progress = self._progress
        if progress is None or progress.state in ("failed", "refused"):
            return
        wanted = progress.wanted
        if progress.kind == "bundle":
            self._judge(progress)
        elif wanted.identity == self._pack:
            self._settle("confirmed" if self._trial is None else "trial")
        elif progress.state != "fetching":
            self._settle("failed", "Another pack was chosen on the device.")
        else:
            self._work = start_task(self._fetch_pack(wanted), log, "Fetching a pack")
        if progress.kind == "bundle" and self._progress is not None and self._progress.state == "fetching":
            self._ask(progress)

    async def _halt(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
            self._work = None

    # -- bundles

    def _ask(self, progress: Progress) -> None:
        """Ask root once more."""
        again = msgspec.structs.replace(progress.wanted, attempt=progress.wanted.attempt + 1)
        self._put(msgspec.structs.replace(progress, wanted=again))
        self._request.write(again)

    def _look(self) -> None:
        """See what root has done, or ask for newer bundles when it is time."""
        progress, every = self._progress, self._settings.updates.check_every
        if progress is not None and progress.kind == "bundle" and progress.state in ("fetching", "trial"):
            self._judge(progress)
        elif every is not None and time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + every
            self._request.write_newest()

    def _judge(self, progress: Progress) -> None:
        """Go on by what became of a bundle."""
        state, reason, again = self._request.outcome(progress)
        self._settle(state, reason)
        if again and self._progress is not None:
            self._ask(self._progress)
        if state != "fetching":
            self._request.withdraw()

    # -- packs

    async def _fetch_pack(self, wanted: Wanted) -> None:
        """Until the pack is on trial or refused."""
        answer = await fetch_pack(self._settings, wanted, self._busy, lambda reason: self._settle("fetching", reason))
        if answer.state == "refused":
            self._settle("refused", answer.reason)
            return
        log.info("The pack %s is on trial from the next start on", (wanted.identity or "")[:12])
        self._restart()


def _same(a: Wanted, b: Wanted) -> bool:
    return (a.rollout, a.path, a.identity) == (b.rollout, b.path, b.identity)


def count_start(settings: EdgeSettings) -> None:
    """Before anything of a pack is loaded: count the start, or go back from a pack that started too often.

    A disk that is full keeps no device from starting; the start is then not counted.

    Raises
    ------
    PackError
        The pack before is not sound any more.
    """
    shelf = PackShelf(settings.folder, settings.pack, read_trusted_key(settings.pack_key))
    try:
        Trials(settings.folder, shelf).start()
    except StorageError as error:
        log.warning("%s", error)


def note_failure(settings: EdgeSettings, reason: str) -> None:
    """Keep why this bundle cannot start, for the agent of the version before to tell; nothing where it is no bundle."""
    try:
        runs = Installation().running()
        if runs is not None:
            write_record(settings.folder / FOLDER / FAILED, Failed(identity=runs.identity, reason=short(reason)))
    except StorageError as error:
        log.warning("%s", error)
