"""What devices say, once it has passed the inbox, goes to whom it concerns: rounds, rollouts, operators who watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from auricle.errors import AuricleError
from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Register, Release, Status, Update
from auricle.wire.secure_sum.messages import SumAnswer
from auricle.wire.tensors import Flat
from auricle.wire.vectors import Declared
from auricle_cloud.link.batch import Batcher
from auricle_cloud.ota.conductor import Conductor
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.rounds.round_loop import RoundLoop
from auricle_cloud.rounds.upkeep import Tuner
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.rows import DeviceRow

AT_HAND = 4
"""Models that updates started from, and rounds whose updates are read, that are kept in memory."""

log = logging.getLogger("auricle.cloud")


class Dispatcher:
    """Acts on messages that passed: the `Receiver` of the inbox.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    rounds
        The round that is under way.
    conductor, tuner
        Heed what devices run, and how keen they listen.
    """

    def __init__(self, site: RoundContext, rounds: RoundLoop, conductor: Conductor, tuner: Tuner) -> None:
        self._site, self._rounds, self._conductor, self._tuner = site, rounds, conductor, tuner
        self._bases: dict[str, Flat] = {}
        self._declared: dict[int, Sequence[Declared]] = {}
        self._said_waiting: set[str] = set()
        """Devices of which the log has said that they wait for approval."""
        self._standings: dict[str, str] = {}
        """What devices were told of their standing."""
        self._rows = Batcher[str, "DeviceRow | None"](site.store.devices.several)
        self._came: dict[str, float] = {}
        """When the last part of an update came, of devices that are registered."""

    def update_came(self, device: str) -> None:
        """Note when a part of an update came, for the metrics."""
        self._came[device] = self._site.clock.monotonic()

    async def on_register(self, message: Register) -> None:
        """A device is known now."""
        self._site.announcements.tell("device", device=message.device, online=True)
        self._conductor.came(message.device)
        self._tuner.came(message.device)
        row = await self._tell_standing(message.device)
        manual = self._site.settings.approval != "auto"
        if row.standing == "pending" and manual and message.device not in self._said_waiting:
            self._said_waiting.add(message.device)
            log.warning("%s waits: auricle cloud devices approve %s", message.device, message.device)
        await self._idle(message.device)

    async def _tell_standing(self, device: str) -> DeviceRow:
        """Tell a device whether it may take part."""
        row = await self._rows.add(device)
        if row is None:  # says so
            row = await asyncio.to_thread(self._site.store.devices.get, device)
        self._standings[device] = row.standing
        await self._site.messenger.tell_standing(device, row.standing, row.reason)
        return row

    async def on_taken(self, message: Register, reason: str) -> None:
        """Another board has the name of one that is registered: tell it, not the other."""
        await self._site.messenger.tell_standing(message.device, "refused", reason, message.public_key)

    async def on_presence(self, message: DeviceState) -> None:
        """A device came or went."""
        self._site.announcements.tell("device", device=message.device, online=message.online)
        self._site.stirred.set()
        self._site.changed.set()

    async def on_get(self, message: Get) -> None:
        """A device asks what is next."""
        if self._standings.get(message.device, "approved") != "approved":
            await self._tell_standing(message.device)
        await self._idle(message.device)

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """A device says what it runs."""
        await self._conductor.released(message, changed)

    async def on_hearing(self, message: HearingReport) -> None:
        """A device says how well it hears."""
        self._site.announcements.tell("hearing", device=message.device)

    async def _idle(self, device: str) -> None:
        self._site.changed.set()
        if self._rounds.current is not None:
            await self._rounds.current.idle(device)

    async def on_status(self, message: Status) -> None:
        """A device says how it fares."""
        if self._rounds.current is not None and message.task == self._site.task:
            await self._rounds.current.mark_failed(message)

    async def on_loss(self, message: Loss) -> None:
        """A device's inference loss."""
        self._site.announcements.tell("update", device=message.device, round=message.round, verdict="loss")
        await self._rounds.progress.on_loss(message)

    async def on_sum(self, message: SumAnswer) -> None:
        """What the secure sum of a round waits for."""
        if message.task == self._site.task:
            await self._rounds.progress.on_sum(message)

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted or refused: tell the round, so that it does not ask again, then the device."""
        site = self._site
        if self._rounds.current is not None and update.task == site.task:
            await self._rounds.current.on_update(update, verdict)
        await self._rounds.progress.note_late(update, verdict)
        await site.messenger.acknowledge(update, verdict)
        site.metrics.update(
            verdict.code, self._site.clock.monotonic() - self._came.pop(update.device, self._site.clock.monotonic())
        )
        site.announcements.tell("update", device=update.device, round=update.round, verdict=verdict.code)

    def awaits(self, update: Update) -> bool:
        """Whether the round under way waits for this update, as far as is known without the database."""
        return update.task == self._site.task and self._rounds.progress.awaits(update)

    async def on_kept(self, device: str) -> None:
        """Nobody knows whether a device is here: ask it."""
        await self._site.messenger.greet(device)

    async def on_unregistered(self, device: str) -> None:
        """Somebody speaks who is not registered."""
        await self._site.messenger.greet(device)

    def refused(self, device: str, code: str, detail: str) -> None:
        """A frame was refused."""
        self._site.metrics.refusal(code)
        self._site.announcements.tell("refusal", device=device, code=code)

    def base(self, sha256: str) -> Flat | None:
        """The model (P,) of this hash: the last few are kept at hand; None for one that no round started from."""
        if sha256 not in self._bases:
            try:
                self._bases[sha256] = self._site.weights(sha256)
            except AuricleError:
                return None
            while len(self._bases) > AT_HAND:
                self._bases.pop(next(iter(self._bases)))
        return self._bases[sha256]

    async def declared(self, task: str, number: int) -> Sequence[Declared] | None:
        """The vectors that a round's updates may bring; None where it has not begun, or is of another task.

        Those of the last few rounds are kept at hand.
        """
        if task != self._site.task:
            return None
        known = self._declared.get(number)
        if known is None and (known := await asyncio.to_thread(self._site.vectors_in, number)) is not None:
            self._declared[number] = known
            if len(self._declared) > AT_HAND:
                self._declared.pop(next(iter(self._declared)))
        return known
