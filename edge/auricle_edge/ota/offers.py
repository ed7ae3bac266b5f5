"""The owner's side of updates: what is on offer, what is under way, and the word to install it.

Everything that is said here is made of the files by which the agent and root speak to each other, so that it is as true
after a start as before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auricle import __version__
from auricle.errors import AuricleError
from auricle_edge.ota.bundle_request import BUSY_SECONDS, pause
from auricle_edge.ota.following import Following
from auricle_edge.ota.installation import ANSWER, Installation, outcome_reason
from auricle_edge.ota.newest_bundle import NewestBundle, ask_process
from auricle_edge.ota.records import FOLDER, WANTED, Answer, Wanted, own_record
from auricle_edge.settings import EdgeSettings

log = logging.getLogger("auricle.edge")

CHECK_SECONDS = 6 * 3600.0
"""Seconds between two looks for a newer bundle."""
TURN_SECONDS = 2.0
"""Seconds between two looks at what root has written."""
ROOT_SECONDS = 60.0
"""Seconds after which root should have begun."""
NO_ANSWER = "Root has not begun: systemctl status auricle-update.path on the device says why."
NO_BUNDLE = "This agent was not installed from a bundle: update it as it was installed."


@dataclass(frozen=True)
class Version:
    """What runs, and what comes after it."""

    running: str
    latest: str
    """The same where there is nothing newer; else a version, or the name of a rollout."""
    installing: bool = False
    reason: str = ""
    """Why it waits or has failed."""


class Offers:
    """Looks for newer bundles, and has one installed when the owner says so.

    Only bundles: which pack a device hears with is its owner's choice or a rollout's.

    Parameters
    ----------
    settings
        The device's.
    updates
        Follows the rollouts.
    busy
        Whether the device trains: then nothing is looked for.
    """

    def __init__(self, settings: EdgeSettings, updates: Following, busy: Callable[[], bool] = lambda: False) -> None:
        self._settings, self._updates, self._busy = settings, updates, busy
        self._installation = Installation()
        self._wanted = settings.folder / FOLDER / WANTED
        self._newest = NewestBundle()

    async def run(self) -> None:
        """Look now and then until cancelled; nothing where the agent was not installed from a bundle."""
        while self._updates.standing().bundle is None:
            await asyncio.sleep(CHECK_SECONDS)
        work = asyncio.create_task(self._keep_looking())
        try:
            while True:
                self._tidy()
                await asyncio.sleep(TURN_SECONDS)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _keep_looking(self) -> None:
        attempt = 0
        while True:
            while self._busy():
                await asyncio.sleep(BUSY_SECONDS)
            newest = await ask_process(self._settings)
            attempt = attempt + 1 if newest.reason else 0
            if newest.reason and newest.reason != self._newest.reason:
                log.warning("Nobody knows whether there is a newer bundle: %s", newest.reason)
            self._newest = newest
            await asyncio.sleep(pause(attempt - 1) if attempt else CHECK_SECONDS)

    async def install(self) -> None:
        """Go on now with a rollout that waits, or have root install the newest bundle that fits.

        Root finds that in the signed metadata itself; who calls this only chooses the moment.
        """
        if not await self._updates.hasten():
            log.warning("%s", NO_BUNDLE)

    @property
    def version(self) -> Version:
        """How it stands."""
        now = self._updates.standing()
        running = now.version or __version__
        if now.state in ("fetching", "trial"):
            waits = now.state == "fetching" and bool(now.reason)
            return Version(running, now.rollout or running, not waits, now.reason)
        latest = self._newest.version or running
        if not now.confirmed:
            return Version(running, latest, installing=True)
        asked, answer = self._asked, self._answer
        if asked is not None and (answer is None or answer.attempt != asked.attempt):
            late = _age(self._wanted) > ROOT_SECONDS
            return Version(running, latest, not late, NO_ANSWER if late else "")
        if asked is not None and answer is not None and answer.state == "fetching":
            return Version(running, latest, installing=True)
        return Version(running, latest, reason=self._last_failure(answer))

    def _last_failure(self, answer: Answer | None) -> str:
        """Why the newest attempt came to nothing; empty where it did not."""
        now, last = self._updates.standing(), self._installation.journal.last
        if answer is not None and answer.state in ("later", "refused"):
            return answer.reason
        if last is not None and not last.rollout and last.outcome != "confirmed":
            return f"{last.version or 'A newer version'} was given back: {outcome_reason(last)}"
        return f"Rollout {now.rollout}: {now.state}. {now.reason}" if now.state in ("failed", "refused") else ""

    @property
    def _asked(self) -> Wanted | None:
        """What root was asked for without a rollout, until that came to an end."""
        wanted = own_record(self._wanted, Wanted)
        return wanted if wanted is not None and wanted.path is None else None

    @property
    def _answer(self) -> Answer | None:
        """What root says of such a request."""
        answer = own_record(self._installation.place / ANSWER, Answer)
        return answer if answer is not None and answer.identity is None else None

    def _tidy(self) -> None:
        """Take the request back once it has come to an end: else root would install newer bundles at each boot."""
        asked, answer = self._asked, self._answer
        if asked is None or answer is None or answer.attempt != asked.attempt or self._settings.updates.check_every:
            return
        if answer.state in ("idle", "refused", "staged"):
            try:
                self._updates.withdraw()
            except (AuricleError, OSError) as error:
                log.warning("%s", error)


def _age(file: Path) -> float:
    """Seconds since it was written; 0 without one."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0
