"""What a device does in a secure sum, step by step, and how it answers the questions of one beside what it does.

Every step is on disk before it is said, so a device that was killed says the same again; asked for anything else of
the same sum, it refuses.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from auricle.errors import AuricleError, WireError
from auricle.wire.messages import Abort, Invite
from auricle.wire.plan import SecureSum
from auricle.wire.secure_sum.device import Secrets
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle.wire.secure_sum.messages import (
    JoinSum,
    RevealSum,
    SumAnswer,
    SumBoxes,
    SumKeys,
    SumNeighbours,
    SumQuestion,
    SumReveal,
    SumShares,
)
from auricle.wire.secure_sum.quantised import body_of, quantise
from auricle.wire.tensors import Flat
from auricle_edge.fleet.agent_context import AgentSettings, Uplink
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.secure_sum.kept import Kept, KeptSum


class SumPart:
    """A device's side of one sum after the other.

    Parameters
    ----------
    kept
        Where the newest one lies.
    messages
        Writes what is said.
    """

    def __init__(self, kept: KeptSum, messages: DeviceMessages) -> None:
        self._kept, self._messages = kept, messages

    def _of(self, task: str, number: int, sum_id: str) -> Kept:
        """The sum that is meant; WireError: this device knows nothing of it."""
        kept = self._kept.read()
        if kept is None or (kept.task, kept.round, kept.sum) != (task, number, sum_id):
            raise WireError("this device has no keys of this secure sum: it did not join it, or lost them")
        return kept

    def answer(self, asked: SumQuestion) -> SumAnswer | None:
        """What to say to a question; None for what is only taken in.

        Raises
        ------
        WireError
            It does not fit what was said before, or would give away more than a sum.
        StorageError
            The disk refuses.
        """
        match asked:
            case JoinSum():
                return self._join(asked)
            case SumNeighbours():
                return self._share(asked)
            case SumBoxes():
                self._take(asked)
                return None
            case RevealSum():
                return self._reveal(asked)

    def _join(self, asked: JoinSum) -> SumKeys:
        kept = self._kept.read()
        if kept is None or (kept.task, kept.round, kept.sum) != (asked.task, asked.round, asked.sum):
            kept = Kept(task=asked.task, round=asked.round, sum=asked.sum, secrets=Secrets.drawn())
            self._kept.put(kept)
        if kept.secrets is None:
            raise WireError("this secure sum is over: its shares were revealed")
        return self._messages.sum_keys(asked, kept.secrets.keys)

    def _share(self, told: SumNeighbours) -> SumShares:
        kept = self._of(told.task, told.round, told.sum)
        if kept.told is not None:
            if _about(kept.told) != _about(told):
                raise WireError("a secure sum names other neighbours than before")
            return self._messages.sum_shares(told, kept.shares)
        keys = None if kept.secrets is None else kept.secrets.keys
        if (
            keys is None
            or len(told.seats) < FEWEST_DEVICES - 1
            or not len(told.seats) == len(told.boxes) == len(told.masks)
            or list(told.seats) != sorted({*told.seats} - {told.seat})
            or len({*told.boxes, *told.masks, keys.boxes, keys.masks}) != 2 * len(told.seats) + 2
        ):
            raise WireError("a secure sum names neighbours that cannot be: twice, too few, or this device itself")
        sealed = kept.device_sum(told).shares(kept.keys(told))
        kept = replace(kept, told=told, shares=tuple(sealed[kept.name(seat)] for seat in told.seats))
        self._kept.put(kept)
        return self._messages.sum_shares(told, kept.shares)

    def _take(self, given: SumBoxes) -> None:
        kept = self._of(given.task, given.round, given.sum)
        if kept.told is None or len(given.seats) != len(given.boxes) or len({*given.seats}) != len(given.seats):
            raise WireError("shares of a secure sum came before its neighbours, or not one of each")
        boxes = dict(zip(given.seats, given.boxes, strict=True))
        if kept.boxes:
            if kept.boxes != boxes:
                raise WireError("shares of a secure sum are others than before")
            return
        own = kept.device_sum(kept.told)
        own.know(kept.keys(kept.told))
        own.hold({kept.name(seat): box for seat, box in boxes.items()})
        self._kept.put(replace(kept, boxes=boxes))

    def is_ready(self, invite: Invite, told: SecureSum) -> bool:
        """Whether the shares that the masks of an invitation need have come.

        Raises
        ------
        WireError
            It is another sum than this device joined, or its update was masked and sent.
        """
        kept = self._of(invite.task, invite.round, told.id)
        if kept.masked:
            raise WireError("the update of this secure sum was masked before: a second one would give both away")
        return bool(kept.boxes)

    def masked(self, invite: Invite, told: SecureSum, received: Flat, trained: Flat) -> bytes:
        """The body that leaves: w_k - w^t in whole steps, under all masks. `note_masked` comes before it is kept."""
        kept = self._of(invite.task, invite.round, told.id)
        if kept.told is None or kept.masked:
            raise WireError("the update of this secure sum was masked before, or its neighbours are not known")
        own = kept.device_sum(kept.told)
        own.know(kept.keys(kept.told))
        words = quantise(trained.astype("f8") - received, told.bound)
        return body_of(own.masked(words, {kept.name(seat): box for seat, box in kept.boxes.items()}))

    def note_masked(self) -> None:
        """No further update is masked in this sum, whatever becomes of the one that was."""
        kept = self._kept.read()
        if kept is not None:
            self._kept.put(replace(kept, masked=True))

    def _reveal(self, asked: RevealSum) -> SumReveal:
        kept = self._of(asked.task, asked.round, asked.sum)
        if kept.revealed is not None and kept.asked is not None:
            if (kept.asked.came, kept.asked.missing) != (asked.came, asked.missing):
                raise WireError("a secure sum asks for other shares than before: that could uncover an update")
            return self._messages.sum_reveal(asked, kept.revealed.own, kept.revealed.masks)
        if kept.told is None or not kept.masked or sorted((*asked.came, *asked.missing)) != sorted(kept.boxes):
            raise WireError("a secure sum asks for shares of others than those that this device masked with")
        own = kept.device_sum(kept.told)
        own.know(kept.keys(kept.told))
        own.hold({kept.name(seat): box for seat, box in kept.boxes.items()})
        came, missing = ([kept.name(seat) for seat in seats] for seats in (asked.came, asked.missing))
        found = own.reveal(came, missing)
        said = self._messages.sum_reveal(
            asked, tuple(found.own[name].share for name in came), tuple(found.masks[name].share for name in missing)
        )
        self._kept.put(replace(kept, secrets=None, shares=(), boxes={}, asked=asked, revealed=said))
        return said

    def forget(self, task: str, number: int) -> None:
        """The round was aborted: nothing of its sum is needed any more."""
        kept = self._kept.read()
        if kept is not None and (kept.task, kept.round) == (task, number):
            self._kept.forget()


def _about(told: SumNeighbours) -> tuple[object, ...]:
    """What a secure sum says of its neighbours, whichever coordinator process says it."""
    return told.seat, told.threshold, told.seats, told.boxes, told.masks


log = logging.getLogger("auricle.edge")


class SumTalk:
    """Speaks for one device.

    Parameters
    ----------
    settings
        Its name, and the folder in which it keeps what it has to know.
    messages, uplink
        Write and send what it says.
    """

    def __init__(self, settings: AgentSettings, messages: DeviceMessages, uplink: Uplink) -> None:
        kept = KeptSum(settings.folder, durable=settings.durable)
        self._device, self._part = settings.device, SumPart(kept, messages)
        self._messages, self._uplink = messages, uplink
        self._lock = asyncio.Lock()

    async def answer(self, asked: SumQuestion) -> None:
        """Answer a question, or say why not: the round goes on without this device then."""
        async with self._lock:
            try:
                said = await asyncio.to_thread(self._part.answer, asked)
            except AuricleError as error:
                log.warning("%s: round %d: %s", self._device, asked.round, error)
                await self._uplink.say("st", self._messages.status(asked, "failed", str(error)))
                return
        if said is not None:
            await self._uplink.say("sum", said)

    async def is_ready(self, invite: Invite, told: SecureSum) -> bool:
        """As of `SumPart.is_ready`."""
        async with self._lock:
            return await asyncio.to_thread(self._part.is_ready, invite, told)

    async def masked(self, invite: Invite, told: SecureSum, received: Flat, trained: Flat) -> bytes:
        """As of `SumPart.masked`."""
        async with self._lock:
            return await asyncio.to_thread(self._part.masked, invite, told, received, trained)

    def note_masked(self) -> None:
        """As of `SumPart.note_masked`; in a thread."""
        self._part.note_masked()

    async def forget(self, abort: Abort) -> None:
        """The round was aborted."""
        async with self._lock:
            await asyncio.to_thread(self._part.forget, abort.task, abort.round)
