"""Who of a synchronous round's cohort has answered, has given up or was refused, and who is waited for."""

from __future__ import annotations

import asyncio

from auricle.errors import StorageError
from auricle.wire.messages import Invite, Loss, Measure, Status, Update
from auricle_cloud.rounds.closing import GAVE_UP
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.doubts import Doubts
from auricle_cloud.states.round import State
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.rows import RoundRow


class CohortProgress:
    """What the devices of the round under way have said so far.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    """

    def __init__(self, site: RoundContext) -> None:
        self._site = site
        self.begin(None)

    def begin(self, number: int | None) -> None:
        """Nothing was said of this round yet; None: no round is under way."""
        self.number = number
        self._state: State = "planned"
        self.cohort: set[str] = set()
        self.answered: set[str] = set()
        self.failed: set[str] = set()
        self._refused: set[str] = set()
        """Whose update was refused: a device gives one for each round, and has been told."""
        self.doubts = Doubts()
        self.message: Invite | Measure | None = None
        """What whoever is waited for was sent: the question for a loss, or the invitation."""

    async def enter(self, row: RoundRow) -> None:
        """The round is in another state; know again who was invited, who failed, and who was refused."""
        self._state = row.state
        invited = await asyncio.to_thread(self._site.store.rounds.invited, self._site.task, row.round)
        self.cohort, self.answered = set(invited), set()
        self.failed |= {name for name, entry in invited.items() if entry.state in GAVE_UP}
        self._refused |= {name for name, entry in invited.items() if entry.state == "refused"}
        self.doubts.restore(invited)

    def waited_for(self) -> set[str]:
        """Who has neither answered nor given up, and was not refused."""
        return self.cohort - self.answered - self.failed - self._refused

    async def ask(self, message: Invite | Measure) -> None:
        """Ask everybody who is waited for, and from now on whoever says that it is idle."""
        self.message = message
        await self._site.messenger.ask(message, sorted(self.waited_for()))

    # -- what devices say

    async def idle(self, device: str) -> None:
        """A device asks what is next: tell it again what it is waited for."""
        if self.message is not None and device in self.waited_for():
            await self._site.messenger.ask(self.message, [device])

    async def on_loss(self, loss: Loss) -> None:
        """A device said its loss."""
        if loss.round == self.number and self._state == "losses":
            self.answered.add(loss.device)
            self._site.changed.set()

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """A device's update was counted, or was before."""
        if update.round == self.number and verdict.code in ("accepted", "duplicate"):
            self.answered.add(update.device)
            self._site.changed.set()

    async def note_late(self, update: Update, verdict: Verdict) -> None:
        """Note on its invitation that an update came late or was refused: nobody calls it silence, or waits for it.

        Not in an asynchronous round: there the device counts as idle once its invitation has ended, and would train at
        once for the same refusal.
        """
        if verdict.code in ("late", "closed"):
            state = "late"
        elif verdict.code.startswith("rejected:"):
            state = "refused"
        else:
            return

        def enter() -> bool:
            rounds, place = self._site.store.rounds, (update.task, update.round)
            try:
                mode = rounds.get(*place).mode
            except StorageError as error:
                if error.__cause__ is not None:
                    raise
                return False  # a round that never was
            reason = verdict.code.removeprefix("rejected:")
            return mode == "sync" and rounds.mark_failed(*place, update.device, state, reason)

        noted = await asyncio.to_thread(enter)
        if noted and state == "refused" and (update.task, update.round) == (self._site.task, self.number):
            self._refused.add(update.device)
            self._site.changed.set()

    async def mark_failed(self, status: Status) -> None:
        """A device failed or declined, or trains and doubts the round's model."""
        if status.round != self.number or status.device not in self.cohort:
            return
        rounds, place = self._site.store.rounds, (self._site.task, status.round, status.device)
        if status.state == "training":
            if self.doubts.hear(status.device, status.reason):
                await asyncio.to_thread(rounds.doubted, *place, status.reason)
                self._site.changed.set()
            return
        if await asyncio.to_thread(rounds.mark_failed, *place, status.state, status.reason):
            self.failed.add(status.device)
            self._site.changed.set()
