"""What devices send: hostile until checked, counted, and answered only after the commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from auricle.errors import BrokerError, LinkStoppedError, StorageError, WireError
from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import UPGRADE, device_of, open_frame
from auricle.wire.kinds import plain, plain_fields
from auricle.wire.messages import (
    DeviceState,
    Get,
    HearingReport,
    Loss,
    Message,
    Register,
    Release,
    Status,
    Update,
    WireMessage,
)
from auricle.wire.secure_sum.messages import SumKeys, SumReveal, SumShares
from auricle.wire.tensors import TensorTable
from auricle.wire.vectors import Declared
from auricle_cloud.link.admission import RateLimit, Receiver, Refusals
from auricle_cloud.link.batch import Batch
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.link.update_intake import Assembling, UpdateIntake
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import Verdict, refusal_code
from auricle_cloud.storage.rows import Standing
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud")

TAKEN = (
    "identity: this name is in use with another key. A board that was flashed again: auricle cloud enrol token "
    "--device NAME --replace. A second board: give it another name"
)
"""What is said of a registration whose key is not that of the device of this name."""


class Inbox:
    """Handles uplink frames of one fleet.

    Parameters
    ----------
    fleet
        Its name.
    table
        Tensor table of the plug-in.
    store, ledger
        Where devices are entered and updates counted.
    receiver
        Who acts on what passed.
    standing, approve_claimed
        What a device is when it registers for the first time; one that has exchanged a claim token is approved even so.
    limits
        What a device may claim and do.
    declared, assemblies
        See `UpdateIntake`.
    notes_presence
        Whether a device that speaks is noted to be here; not where another coordinator hears who comes and goes.
    """

    def __init__(
        self,
        fleet: str,
        table: TensorTable,
        store: Store,
        ledger: Ledger,
        receiver: Receiver,
        *,
        standing: Standing = "approved",
        approve_claimed: bool = False,
        limits: Limits | None = None,
        declared: Sequence[Declared] = (),
        assemblies: Assembling | None = None,
        notes_presence: bool = True,
    ) -> None:
        self._fleet, self._store, self._receiver = fleet, store, receiver
        self._standing, self._approve_claimed, self._limits = standing, approve_claimed, limits or Limits()
        self._batch, self._notes_presence = Batch(store.database), notes_presence
        self._updates = UpdateIntake(table, self._limits, ledger, store.journal, receiver, declared, assemblies)
        self._rate, self._refusals = RateLimit(self._limits.frames, self._limits.burst), Refusals(store.devices)
        self.keys, self.revoked = dict[str, bytes](), set[str]()
        self._reading = threading.Lock()
        self._here: set[str] = set()
        """Devices that were heard, and have not gone since."""
        self._heard: dict[str, float] = {}
        """When the last message of a device came, of those that are not written down yet."""
        self.refused: dict[str, int] = {}
        """How many frames were refused, by reason."""
        self.reload()

    @property
    def unfinished(self) -> int:
        """Bytes of updates that are not whole yet."""
        return self._updates.unfinished

    def reload(self) -> None:
        """Read again whose key is believed: a device may have been revoked, forgotten, or replaced by another board."""
        with self._reading:  # or what was read first could be entered last
            before = set(self.keys)
            self.revoked = self._store.devices.revoked()
            found = self._store.devices.keys()
            # Added to, never replaced: a device that registers meanwhile is not in what was read.
            self.keys.update(found)
            for device in self.revoked | (before - found.keys()):  # revoked, or forgotten: its name is free
                self.keys.pop(device, None)
                self._here.discard(device)

    def flush(self) -> None:
        """Write down what was heard and refused since; StorageError when it has to wait for the next time."""
        heard, self._heard = self._heard, {}
        try:
            self._store.devices.heard(heard)
        except StorageError:
            self._heard = {**heard, **self._heard}
            raise
        self._refusals.flush()

    def _refuse(self, device: str, reason: str) -> None:
        code, reason = refusal_code(reason), plain(reason)
        self.refused[code] = self.refused.get(code, 0) + 1
        if device in self.keys or device in self.revoked:
            self._refusals.add(device, code, reason)
        self._receiver.refused(device, code, reason)
        log.warning("refused a frame of %s: %s", device, reason)

    def _key(self, message: Message) -> bytes | None:
        if isinstance(message, Register) and message.device not in self.keys:
            return message.public_key
        return self.keys.get(message.device)

    async def handle(self, arrived: Delivery) -> None:
        """Check a frame and act on it; whatever is wrong with it is counted and logged, never raised."""
        if not arrived.payload:
            return
        device = device_of(arrived.topic)
        try:
            await self._check_and_act(device, arrived)
        except (BrokerError, StorageError) as error:  # an end of ours is nothing to worry about: the device asks again
            level = logging.INFO if isinstance(error, LinkStoppedError) else logging.ERROR
            log.log(level, "%s's message is not acknowledged: %s", device, error)

    async def _check_and_act(self, device: str, arrived: Delivery) -> None:
        if not self._rate.take(device):
            self._refuse(device, "rate: more frames than a device may send")
            return
        if device in self.revoked:
            self._refuse(device, "standing: the device was revoked")
            return
        try:
            message, body = open_frame(arrived.payload, arrived.topic, self._key)
            if message.device != device or message.fleet != self._fleet:
                raise WireError("identity: the header names another device than the topic")
        except WireError as error:
            if device in self.keys and str(error).startswith("signature:"):
                await self._other_key(device, arrived)
            elif device in self.keys or str(error) == UPGRADE:
                self._refuse(device, str(error))
            else:
                await self._stranger(device)
            return
        message = plain_fields(message)
        if arrived.retain and isinstance(message, DeviceState):
            await self._take_retained(message, arrived.generation)
            return
        await self._note_heard(message)
        await self._act(message, body)

    async def _note_heard(self, message: Message) -> None:
        """Whoever speaks is here."""
        if isinstance(message, DeviceState) and not message.online:
            self._here.discard(message.device)
            self._heard.pop(message.device, None)
            return
        self._heard[message.device] = now = time.time()
        if message.device in self._here or not self._notes_presence:
            return
        if not isinstance(message, Register | DeviceState):  # those two say more, and are entered for themselves
            await self._batch.run(lambda tx: self._store.devices.heard_again(tx, message.device, now))
        if message.device in self.keys:
            self._here.add(message.device)

    async def _take_retained(self, message: DeviceState, generation: int) -> None:
        """What a device said last, which the broker kept: that it was here does not say that it is."""
        if message.device in self._here and message.online:
            return
        self._here.discard(message.device)
        await self._batch.run(lambda tx: self._store.devices.notice(tx, message, kept=True))
        if message.online and generation > 1:  # to the first connection devices answer by themselves
            await self._receiver.on_kept(message.device)
        else:
            await self._receiver.on_presence(message)

    async def _other_key(self, device: str, arrived: Delivery) -> None:
        """A name is used with another key: say whether a board asks for it, or somebody only signs so."""
        try:
            message, _ = open_frame(arrived.payload, arrived.topic, _own_key)
        except WireError:
            self._refuse(device, f"signature: not made with the key that {device} registered with")
            return
        self._refuse(device, TAKEN)
        if isinstance(message, Register) and message.device == device and message.fleet == self._fleet:
            await self._receiver.on_taken(message, TAKEN)

    async def _stranger(self, device: str) -> None:
        """Somebody who is not registered here: ask for a registration, and believe nothing until it came."""
        self.refused["unregistered"] = self.refused.get("unregistered", 0) + 1
        self._receiver.refused(device, "unregistered", "not registered here")
        log.info("%s is not registered: asked it to", device)
        await self._receiver.on_unregistered(device)

    async def _act(self, message: WireMessage, body: bytes) -> None:
        match message:
            case Register():
                await self._register(message)
            case DeviceState():
                await self._batch.run(lambda tx: self._store.devices.notice(tx, message))
                await self._receiver.on_presence(message)
            case Get():
                await self._receiver.on_get(message)
            case Status():
                log.warning("%s: round %d %s: %r", message.device, message.round, message.state, message.reason)
                if message.reason.startswith(UPGRADE):
                    self._refuse(message.device, f"{UPGRADE}: {message.reason.removeprefix(UPGRADE).lstrip(': ')}")
                await self._receiver.on_status(message)
            case Release():
                changed = await self._batch.run(lambda tx: self._store.rollouts.enter(tx, message))
                await self._receiver.on_release(message, changed)
            case HearingReport():
                await self._hearing(message)
            case Loss():
                await self._loss(message)
            case SumKeys() | SumShares() | SumReveal():
                refusal = await self._batch.run(lambda tx: self._store.sums.enter(tx, message))
                if refusal is not None:
                    self._refuse(message.device, f"{refusal} (round {message.round})")
                else:
                    await self._receiver.on_sum(message)
            case Update():
                await self._update(message, body)
            case _:
                self._refuse(message.device, "type: not a message of a device")

    async def _register(self, message: Register) -> None:
        if not await self._batch.run(
            lambda tx: self._store.devices.enter(tx, message, self._standing, approve_claimed=self._approve_claimed)
        ):
            self._refuse(message.device, TAKEN)
            await self._receiver.on_taken(message, TAKEN)
            return
        # Whoever had a key keeps it: while this was written, a board may have been replaced.
        self.keys.setdefault(message.device, message.public_key)
        self._here.add(message.device)  # as was entered just now
        await self._receiver.on_register(message)

    async def _hearing(self, message: HearingReport) -> None:
        refusal = await self._batch.run(lambda tx: self._store.hearing.enter(tx, message))
        if refusal is not None:
            self._refuse(message.device, refusal)
        else:
            await self._receiver.on_hearing(message)

    async def _loss(self, message: Loss) -> None:
        if not 1 <= message.samples <= self._limits.samples:
            self._refuse(message.device, "samples: none, or more than a device can have")
            return
        # A loss that is not a finite number is a vote for the alarm (A39): it is kept, as unknown.
        known = 0 <= message.loss <= self._limits.loss
        loss = message.loss if known else None
        if await self._batch.run(lambda tx: self._store.rounds.enter_loss(tx, message, loss)):
            await self._receiver.on_loss(message)
        else:
            self._refuse(message.device, "not invited: a loss for a round of others")

    async def _update(self, update: Update, body: bytes) -> None:
        try:
            verdict = await self._updates.take(update, body)
        except WireError as error:
            self._refuse(update.device, str(error))
            if not str(error).startswith("memory:"):  # for that one there is room when the device sends it again
                await self._receiver.on_update(update, Verdict(f"rejected:{error}"))
            return
        if verdict is None:
            return
        if verdict.code.startswith("rejected:"):
            self._refuse(update.device, f"{verdict.code.removeprefix('rejected:')}: of round {update.round}")
        await self._receiver.on_update(update, verdict)


def _own_key(message: Message) -> bytes | None:
    """The key that a registration says it is signed with."""
    return message.public_key if isinstance(message, Register) else None
