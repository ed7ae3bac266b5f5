"""An update on its way: on disk before it is sent, and sent until the coordinator says what became of it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import MessageTooLargeError, StorageError
from auricle.files import read_kept, remove_file, write_whole
from auricle.wire.frames import CHUNK
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.messages import Ack, Invite, Update
from auricle.wire.tensors import digest
from auricle_edge.fleet.agent_context import AgentSettings, Uplink
from auricle_edge.fleet.unsent_moves import UnsentMoves


@dataclass(frozen=True)
class Pending:
    """An update and its body."""

    update: Update
    body: bytes

    def is_for(self, invite: Invite) -> bool:
        """Whether it is what an invitation asks for: of its round, and of its secure sum where it has one."""
        sum_id = invite.plan.secure_sum.id if invite.plan.secure_sum else msgspec.UNSET
        update = self.update
        return (update.task, update.round, update.sum) == (invite.task, invite.round, sum_id)

    def parts(self) -> list[tuple[Update, bytes]]:
        """The update as one message a chunk; each says its part and how many there are."""
        pieces = [self.body[i : i + CHUNK] for i in range(0, len(self.body), CHUNK)]
        return [
            (msgspec.structs.replace(self.update, part=i, parts=len(pieces)), piece) for i, piece in enumerate(pieces)
        ]


class Outbox:
    """One pending update at most: a newer round replaces it.

    Parameters
    ----------
    folder
        Where `pending.update` lies; made when it is first needed.
    durable
        What it keeps survives a power cut.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._path, self._durable = folder / "pending.update", durable

    def put(self, pending: Pending) -> None:
        """Keep an update; only then may it be sent. StorageError: the disk cannot take it."""
        header = msgspec.msgpack.encode(pending.update)
        write_whole(self._path, len(header).to_bytes(4, "little") + header + pending.body, durable=self._durable)

    def read(self) -> Pending | None:
        """The pending update; None without one or when what lies there is not whole."""
        try:
            data = read_kept(self._path)
            length = int.from_bytes(data[:4], "little")
            update = msgspec.msgpack.decode(data[4 : 4 + length], type=Update)
            body = data[4 + length :]
        except (FileNotFoundError, *UNDECODABLE):
            return None
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read ({error.strerror}).") from error
        if not body or len(body) != update.length or digest(body) != update.body:
            return None
        return Pending(update, body)

    def clear(self) -> None:
        """Forget the pending update: it was acknowledged, or is of no more use. StorageError: the disk refuses."""
        remove_file(self._path, durable=self._durable)


log = logging.getLogger("auricle.edge")

LONGEST_WAIT = 300.0
"""Seconds between two sendings of an update that nobody answers."""
UNANSWERED_SENDINGS = 2
"""Sendings in a row without an answer after which it is said what that may come from."""


class UpdateDelivery:
    """Keeps and sends one device's update.

    Parameters
    ----------
    settings
        The device's name, its folder, and after how long an update is sent again.
    uplink
        Sends messages.
    unsent
        Told what became of an update, before that is forgotten.
    """

    def __init__(self, settings: AgentSettings, uplink: Uplink, unsent: UnsentMoves) -> None:
        self._device, self._resend_every, self._uplink = settings.device, settings.resend_every, uplink
        self._clock, self._outbox = settings.clock, Outbox(settings.folder, durable=settings.durable)
        self.unsent = unsent
        self._known: Pending | Literal["look"] | None = "look"
        """What lies in the outbox, which nobody else writes."""
        self._answered = False
        self._settled: tuple[int, str, int] | None = None
        """Epoch, task and round of the newest acknowledgement: an invitation to it was on its way and is void."""
        self._wake = asyncio.Event()
        self._disk = asyncio.Lock()
        """Held while the outbox changes: an acknowledgement must not clear what a newer round just put there."""

    def read(self) -> Pending | None:
        """The update that is on its way; None without one. The disk is read the first time."""
        if self._known == "look":
            self._known = self._outbox.read()
        return self._known

    @property
    def is_empty(self) -> bool:
        """Whether it is known, without a look at the disk, that none is on its way."""
        return self._known is None

    def is_settled(self, invite: Invite) -> bool:
        """Whether the round of an invitation was acknowledged just before it came."""
        return (invite.epoch, invite.task, invite.round) == self._settled

    async def keep(self, pending: Pending, first: Callable[[], None]) -> None:
        """Put an update where no crash loses it, once `first` has kept what belongs to it; both in a thread."""
        async with self._disk:
            await asyncio.to_thread(self._keep, pending, first)

    def _keep(self, pending: Pending, first: Callable[[], None]) -> None:
        update = pending.update  # said before it is kept: what ends in between sends it when it comes back
        log.info("%s: round %d intends body %s", self._device, update.round, update.body)
        first()
        self._known = "look"  # until it is there
        self._outbox.put(pending)
        self._known = pending

    def _clear(self, named: Update | Ack) -> bool:
        """Forget what is on its way, where it is the one that is named; whether it was."""
        pending = self.read()
        if pending is None or _identity_of(pending.update) != _identity_of(named):
            return False
        self.unsent.settle(pending.update, named if isinstance(named, Ack) else None)
        self._known = "look"
        self._outbox.clear()
        self._known = None
        return True

    async def deliver(self, pending: Pending) -> None:
        """Send until the coordinator says what became of it.

        Raises
        ------
        MessageTooLargeError
            The broker does not take it: it is forgotten, for it would never arrive.
        """
        self._answered = False
        wait = self._resend_every
        unanswered = 0
        while not self._answered:
            self._wake.clear()
            try:
                for update, piece in pending.parts():
                    await self._uplink.say("upd", update, piece)
            except MessageTooLargeError:
                async with self._disk:
                    await asyncio.to_thread(self._clear, pending.update)
                raise
            self._uplink.enter("sent")
            if not await self._clock.wait_set(self._wake, wait * random.uniform(0.8, 1.2)):
                wait = min(wait * 2, LONGEST_WAIT)
                unanswered += 1
                if unanswered == UNANSWERED_SENDINGS:
                    self._say_unanswered(pending)
        self._uplink.enter("idle")

    def _say_unanswered(self, pending: Pending) -> None:
        """A broker of MQTT 3.1.1 cannot say that it dropped a message: tell who can find out."""
        log.warning(
            "%s: the broker took the update of round %d (%d bytes) %d times, and the coordinator has not answered it. "
            "If it answers smaller messages, the broker drops large ones without a word: auricle cloud preflight tries "
            "one.",
            self._device,
            pending.update.round,
            len(pending.body),
            UNANSWERED_SENDINGS,
        )

    def send_again(self) -> None:
        """Send at once what is waited for: somebody may have lost it."""
        self._wake.set()

    async def acknowledged(self, ack: Ack) -> bool:
        """Forget the update that an acknowledgement names; False: it is for another one, and changes nothing."""
        async with self._disk:
            if not await asyncio.to_thread(self._clear, ack):
                return False
        self._settled = (ack.epoch, ack.task, ack.round)
        log.info(
            "%s: round %d attempt %d body %s epoch %d: %s",
            self._device,
            ack.round,
            ack.attempt,
            ack.body,
            ack.epoch,
            ack.verdict,
        )
        if ack.verdict.startswith("rejected"):
            log.warning("%s: the update of round %d was %s", self._device, ack.round, ack.verdict)
        self._uplink.enter("idle")
        self._answered = True
        self._wake.set()
        return True


def _identity_of(message: Update | Ack) -> tuple[str, int, str]:
    """What says that an acknowledgement is for this update."""
    return message.task, message.round, message.body
