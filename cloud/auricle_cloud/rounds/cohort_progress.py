"""Who of a synchronous round has answered, doubts its model, has given up or was refused, and who is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set, Sized

from msgspec.structs import replace

from auricle.errors import StorageError
from auricle.wire.messages import WORSE_RECEIVED, Asked, Invite, Loss, Measure, Status, Update
from auricle.wire.secure_sum.messages import SumAnswer, SumKeys, SumReveal, SumShares
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.policy import Answers, quorum_of, uncounted_as
from auricle_cloud.states.round import GAVE_UP, TAKING, State
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.round_records import Rounds
from auricle_cloud.storage.rows import InvitationRow, RoundRow

ANSWERS: dict[State, type[SumAnswer]] = {
    "keys": SumKeys,
    "shares": SumShares,
    "revealing": SumReveal,
}
"""What answers the questions of a secure sum, by the round's state."""


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
        self.left: set[str] = set()
        """Who is not asked in this state: it dropped out of the round's secure sum."""
        self.broken: set[str] = set()
        """Who does not count for the round's quorum."""
        self._called: set[str] = set()
        """Who was sent the round's invitation, since the round began here or was taken up again."""
        self._refused: set[str] = set()
        """Whose update was refused: a device gives one for each round, and has been told."""
        self.needed = 0
        """Answers with which the round closes, while it waits for updates."""
        self.doubts = Doubts()
        if number is None and self._site.arrived is not None:
            self._site.arrived.clear()
        self.messages: Callable[[str], Sequence[Asked]] | None = None
        """What those who are waited for were sent: a question, or the invitation."""

    async def enter(self, row: RoundRow) -> None:
        """The round is in another state; know again who was invited, who failed, and who was refused."""
        self._state, self.needed = row.state, 0
        invited = await asyncio.to_thread(self._site.store.rounds.invited, self._site.task, row.round)
        self.cohort, self.answered, self.left = set(invited), set(), set()
        self.failed |= {name for name, entry in invited.items() if entry.state in GAVE_UP}
        self._refused |= {name for name, entry in invited.items() if entry.state == "refused"}
        self.broken = self.cohort & {*(row.report or {}).get("broken", ())}
        self.doubts.restore(invited)
        if self._site.arrived is not None and row.state in TAKING:
            self._site.arrived.begin(row.task, row.round, invited)

    def awaits(self, update: Update) -> bool:
        """Whether the round takes this device's update, as far as is known here; asked in threads as well."""
        return update.round == self.number and self._state in TAKING and self._waits_for(update.device)

    def expects(self, in_hand: int) -> bool:
        """Whether the round waits for other updates than those that are in hand."""
        return self.needed - len(self.answered) > in_hand

    def _waits_for(self, device: str) -> bool:
        """Whether a device is one of those that are waited for, without all the others."""
        over = device in self.answered or device in self.failed or device in self._refused or device in self.left
        return device in self.cohort and not over

    def waited_for(self) -> set[str]:
        """Who has neither answered nor given up, and was not refused."""
        return self.cohort - self.answered - self.failed - self._refused - self.left

    def quorum(self, share: float, fewest: int = 1) -> int:
        """Updates without which the round makes no model; parameters as of `quorum_of`."""
        return quorum_of(len(self.cohort - self.broken), share, fewest)

    def answers(self, wanted: int, online: Set[str], *, readable: bool, slow: Set[str] = frozenset()) -> Answers:
        """How many have answered, of a round that wants so many and has these online.

        `readable` as of `Answers`; `slow` are those for whom the round waits until its deadline.
        """
        waited = self.waited_for()
        return Answers(
            invited=len(self.cohort),
            wanted=wanted,
            answered=len(self.answered),
            outstanding=len(waited),
            online=len(waited & online),
            readable=readable,
            slow=len(waited & online & slow),
            broken=len(self.broken),
        )

    async def ask(self, message: Invite | Measure, bases: Mapping[str, str] | None = None) -> None:
        """Ask everybody who is waited for, and from now on each of them that says that it is idle.

        Parameters
        ----------
        bases
            Models that devices begin with of their own, by device.
        """
        messages, own = await self._site.for_each(message, self.cohort), bases or {}

        def of(device: str) -> Sequence[Asked]:
            said, base = messages(device), own.get(device)
            return said if base is None else [_begun_with(each, base) for each in said]

        await self.ask_each(of, invites=isinstance(message, Invite))

    async def ask_each(self, messages: Callable[[str], Sequence[Asked]], *, invites: bool = False) -> None:
        """The same with messages of its own for each device; invitations go out once, and then to who is idle."""
        self.messages = messages
        asked = self.waited_for() - (self._called if invites else set())
        if invites:
            self._called |= asked
        await self._site.messenger.tell(messages, sorted(asked))

    # -- what devices say

    async def idle(self, device: str) -> None:
        """A device asks what is next: tell it again what it is waited for."""
        if self.messages is not None and self._waits_for(device):
            await self._site.messenger.tell(self.messages, [device])

    async def on_loss(self, loss: Loss) -> None:
        """A device said its loss."""
        if loss.round == self.number and self._state == "losses":
            self.answered.add(loss.device)
            self._site.changed.set()

    async def on_sum(self, said: SumAnswer) -> None:
        """A device said what its round's secure sum waits for."""
        if said.round == self.number and isinstance(said, ANSWERS.get(self._state, ())):
            self.answered.add(said.device)
            self._site.changed.set()

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """A device's update was counted, or was before.

        One that comes again later, from a device that starts again, is no answer to what the round asks by then.
        """
        if update.round == self.number and verdict.code in ("accepted", "duplicate") and self._state in TAKING:
            self.answered.add(update.device)
            self._site.changed.set()

    async def note_late(self, update: Update, verdict: Verdict) -> None:
        """Note on its invitation that an update came late or was refused: nobody calls it silence, or waits for it.

        Not in an asynchronous round: there the device counts as idle once its invitation has ended, and would train at
        once for the same refusal.
        """
        state = uncounted_as(verdict.code)
        if state is None:
            return
        noted = await asyncio.to_thread(mark_uncounted, self._site.store.rounds, update, verdict)
        if noted and state == "refused" and (update.task, update.round) == (self._site.task, self.number):
            self._refused.add(update.device)
            self._site.changed.set()

    def read(self, number: int) -> tuple[set[str], set[str]]:
        """Devices that a round has an update of, and those whose was refused, as other coordinators wrote down."""
        store, task = self._site.store, self._site.task
        invited = store.rounds.invited(task, number)
        return store.updates.sent_for(task, number), {name for name, row in invited.items() if row.state == "refused"}

    def quorum_at(self, number: int, quorum: int) -> float | None:
        """When the quorum of a round was in, as other coordinators wrote down; None where it is not."""
        clock, times = self._site.clock, self._site.store.updates.times(self._site.task, number)
        return clock.monotonic() - max(0.0, clock.now() - times[quorum - 1]) if len(times) >= quorum else None

    def take_in(self, sent: set[str], refused: set[str]) -> None:
        """Take in what `read` returned, and tell who watches of each device that was not known to have answered."""
        others = sorted(sent - self.answered)
        self._site.metrics.count_of_workers(len(others))
        for device in others:
            self._site.announcements.tell("update", device=device, round=self.number, verdict="accepted")
        self.answered |= sent
        self._refused |= refused

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


def mark_uncounted(rounds: Rounds, update: Update, verdict: Verdict) -> bool:
    """Note on a device's invitation to a synchronous round that its update does not count; whether that was noted."""
    state, place = uncounted_as(verdict.code), (update.task, update.round)
    if state is None:
        return False
    try:
        mode = rounds.get(*place).mode
    except StorageError as error:
        if error.__cause__ is not None:
            raise
        return False  # a round that never was
    reason = verdict.code.removeprefix("rejected:")
    return mode == "sync" and rounds.mark_uncounted(*place, update.device, state, reason)


class Doubts:
    """The doubts of one round's devices: their judges' reasons, by name."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def hear(self, device: str, reason: str) -> bool:
        """Take what a device that trains says; whether it is a doubt."""
        if not reason.startswith(WORSE_RECEIVED):
            return False
        self.said[device] = reason
        return True

    def restore(self, invited: Mapping[str, InvitationRow]) -> None:
        """Take up those that were noted on a round's invitations, by name."""
        for name, row in invited.items():
            self.hear(name, row.reason or "")

    def prevail(self, cohort: Sized) -> bool:
        """Whether more than half of the cohort doubts."""
        return 2 * len(self.said) > len(cohort)

    def sentence(self, cohort: Sized, version: int, back: int) -> str:
        """Why the round is given up, with what one of the devices said."""
        first = min(self.said)
        return (
            f"{len(self.said)} of {len(cohort)} devices find version {version} of the model worse than one that "
            f"they had before: the next round begins with version {back}; {first} says "
            f"{_without_prefix(self.said[first])}"
        )

    def as_report(self) -> dict[str, str]:
        """For a round's report: what each device found worse."""
        return {name: _without_prefix(reason) for name, reason in sorted(self.said.items())}


def _without_prefix(reason: str) -> str:
    return reason.removeprefix(WORSE_RECEIVED)


def _begun_with(asked: Asked, base: str) -> Asked:
    """The same, of a device that begins with a model of its own."""
    return replace(asked, base=base) if isinstance(asked, Invite) else asked
