"""A device's part in rounds: its consent, the model it fetches, the training, and what is kept of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Literal

from auricle.errors import AuricleError, MessageTooLargeError, WireError
from auricle.wire.messages import Asked, Invite, Measure, Update
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.secure_sum.messages import JoinSum
from auricle.wire.tensors import Flat, decode
from auricle.wire.update_codec import MOVES
from auricle_edge.fleet.agent_context import AgentSettings, Declined, Uplink
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.gate_watch import GateWatch, RoundControl
from auricle_edge.fleet.round_work import Readiness, require_room
from auricle_edge.fleet.secure_sum.part import SumTalk
from auricle_edge.fleet.sent_updates import SentLedger
from auricle_edge.fleet.update_delivery import Pending, UpdateDelivery
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.local_store import LocalStore
from auricle_learning.methods.vectors import lent_sizes
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.noise import noised
from auricle_learning.training.train import LocalState, RoundResult, Trainer, TrainingStopped
from auricle_learning.training.update_body import update_body

log = logging.getLogger("auricle.edge")

Learnt = Callable[[Flat, RoundResult], None]
"""Told, in the training thread, the plug-in (P,) to listen with and what came out of a round."""


class DeviceRounds:
    """What one device does in rounds.

    Parameters
    ----------
    settings
        Its name and folder.
    trainer
        Its models and clips.
    executor
        Where training runs, so that the link stays alive.
    messages, uplink
        Write and send what it says.
    gate, readiness
        Whether it trains now.
    delivery
        Keeps and sends the update.
    sums
        The device in secure sums.
    judging
        What the judge listens by, where the trainer's settings ask for one.
    learnt
        See `Agent`.
    """

    def __init__(
        self,
        settings: AgentSettings,
        trainer: Trainer,
        executor: Executor,
        messages: DeviceMessages,
        uplink: Uplink,
        *,
        gate: GateWatch,
        readiness: Readiness,
        delivery: UpdateDelivery,
        sums: SumTalk,
        judging: Judging | None,
        learnt: Learnt | None,
    ) -> None:
        self._settings, self._trainer, self._executor = settings, trainer, executor
        self._messages, self._uplink = messages, uplink
        self._gate, self._readiness, self._delivery, self._learnt = gate, readiness, delivery, learnt
        self._sums = sums
        pack = trainer.pack
        table, durable = pack.table(trainer.architecture), settings.durable
        self._store = LocalStore(settings.folder, pack.identity, table, durable=durable)
        self.local: LocalState = self._store.read() or self._store.previous() or trainer.first_state()
        """What the device has learnt and never sends."""
        self.sent = SentLedger(settings.folder, trainer.settings, durable=durable)
        """What left the device in rounds."""
        self.base: str | None = None
        """The fleet's model of the last round that was kept since the start."""
        self._judge: RoundJudge | None = None
        if trainer.settings.judge:
            listens = judging or Judging(detect_settings(DetectTable(), pack))
            self._judge = RoundJudge(trainer, listens, settings.folder, durable=durable)
        self._model: tuple[str, Flat] | None = None
        """The newest model that was fetched, by its digest."""

    # -- what the coordinator asks

    async def take_part(self, invite: Invite) -> None:
        """Train, keep what was learnt, and send the update until it is answered; AuricleError: the device does not."""
        deadline = self._settings.clock.monotonic() + invite.ttl
        await self._consent(invite)
        try:
            told = invite.plan.secure_sum
            if told and not await self._sums.is_ready(invite, told):
                log.info("%s: round %d waits for the shares of its secure sum", self._settings.device, invite.round)
                return  # both are sent again
            pending, result, verdict = await self._learn(invite, deadline)
        except TrainingStopped:
            raise
        except AuricleError as error:
            await self._report(invite, error)
            raise
        self.local, self.base = result.local, invite.base
        await self._let_listen(verdict.listen, result)
        self._uplink.enter("outbox")
        await self.deliver(pending)

    async def deliver(self, pending: Pending) -> None:
        """Send an update until it is answered; one that the broker does not take is reported as why there is none.

        Raises
        ------
        MessageTooLargeError
            The broker does not take it.
        """
        try:
            await self._delivery.deliver(pending)
        except MessageTooLargeError as error:
            await self._report(pending.update, error)
            raise

    async def say_loss(self, asked: Measure) -> None:
        """Answer the first phase of a two-phase round; a lost answer is asked for again."""
        await self._consent(asked)
        plugin = await self._fetch_model(asked)
        loop = asyncio.get_running_loop()
        loss = partial(self._trainer.inference_loss, plugin, asked.inference_loss)
        value = await loop.run_in_executor(self._executor, loss)
        await self._uplink.say("loss", self._messages.loss(asked, value))

    async def join(self, asked: JoinSum) -> None:
        """Take part in a round whose updates only become known as a sum: consent to it, and say the keys."""
        await self._consent(asked)
        await self._sums.answer(asked)

    async def _consent(self, asked: Asked) -> None:
        """Go on, or report why not; the coordinator hears how many clips there are now."""
        try:
            await self._readiness.require_gate()
            if await self._readiness.renew():
                await self._uplink.say("reg", self._messages.register())
            self._readiness.require_willing(asked.plan if isinstance(asked, Invite) else None)
            await asyncio.to_thread(self.sent.require, asked)
        except AuricleError as error:
            await self._report(asked, error)
            raise

    async def _report(self, asked: Asked | Update, error: AuricleError) -> None:
        state: Literal["declined", "failed"] = "declined" if isinstance(error, Declined) else "failed"
        await self._uplink.say("st", self._messages.status(asked, state, str(error)))

    async def _fetch_model(self, asked: Invite | Measure) -> Flat:
        """The round's model (P,), fetched unless it is the one that was fetched last."""
        if self._model is None or self._model[0] != asked.base:
            block = await self._uplink.fetch(asked)
            self._model = (asked.base, decode(block, self._trainer.pack.plugin_table.size, asked.codec))
        return self._model[1]

    async def _lent(self, invite: Invite) -> LentData:
        """What the round lends beside the model, as far as it may take it.

        Raises
        ------
        WireError
            A vector of the plan's method cannot be had: without it the round would be another algorithm's.
        """
        prior, vectors = await self._prior(invite), {}
        sizes, lent_with = lent_sizes(invite.plan, self._trainer.pack), invite.vectors or ()
        if sorted(each.name for each in lent_with) != sorted(sizes):
            raise WireError("The round does not lend the vectors that its method declares.")
        for each in lent_with:
            vectors[each.name] = decode(await self._uplink.fetch(each), sizes[each.name], each.codec)
        return LentData(prior, vectors)

    async def _prior(self, invite: Invite) -> PriorKnowledge | None:
        """What the round lends to tune the classifier by; None where it lends nothing, or it cannot be had or used."""
        if not invite.prior:
            return None
        who, number = self._settings.device, invite.round
        classes, width = self._trainer.pack.plugin_table.specs[-2].shape
        try:
            data = await self._uplink.fetch(invite.prior)
            return await asyncio.to_thread(PriorKnowledge.from_bytes, data, classes, width)
        except WireError as error:
            log.warning("%s: trains round %d without what it lends: %s", who, number, error)
            return None

    # -- training

    async def _learn(self, invite: Invite, deadline: float) -> tuple[Pending, RoundResult, Verdict]:
        """Train and keep: the update, which is on disk, and what came out. Declined: the judge refused the round."""
        judged = 0 if self._judge is None else self._judge.nbytes
        left_over = 2 * invite.length if invite.plan.codec in MOVES else 0
        needed = self.local.nbytes + invite.length + judged + left_over
        await asyncio.to_thread(require_room, self._settings.folder, needed)
        plugin, lent = await self._fetch_model(invite), await self._lent(invite)
        self._uplink.enter("training")
        control = self._gate.begin(deadline - self._settings.clock.monotonic())
        result, verdict = await asyncio.get_running_loop().run_in_executor(
            self._executor, self._train, invite, plugin, self.local, control, lent
        )
        if verdict.received is not None and not invite.plan.noise and not invite.plan.secure_sum:
            await self._uplink.say("st", self._messages.status(invite, "training", verdict.received))
        if verdict.reason is not None:
            await self._refuse(verdict, result)
            raise Declined(verdict.reason)
        pending, unsent = await self._pending(invite, plugin, result)
        await self._delivery.keep(pending, lambda: self._keep(invite, result.local, verdict, pending, unsent))
        return pending, result, verdict

    async def _pending(self, invite: Invite, received: Flat, result: RoundResult) -> tuple[Pending, Flat | None]:
        """The update that leaves, masked where the plan has a secure sum, and what its codec leaves out (P,)."""
        told, leaves = invite.plan.secure_sum, noised(result, received, invite.plan)
        if told:
            masked = await self._sums.masked(invite, told, received, leaves.plugin)
            return self._messages.update(invite, leaves, masked), None
        table, before = self._trainer.pack.plugin_table, None
        if invite.plan.codec in MOVES:
            before = await asyncio.to_thread(self._delivery.unsent.of, invite.task)
        body, vectors, unsent = update_body(leaves, received, invite.plan, table, before)
        return self._messages.update(invite, leaves, body, vectors), unsent

    def _train(
        self,
        invite: Invite,
        plugin: Flat,
        local: LocalState,
        control: RoundControl,
        lent: LentData,
    ) -> tuple[RoundResult, Verdict]:
        """In the training thread: train, and ask the judge."""
        result = self._trainer.run(invite.plan, invite.round, plugin, local, control, lent)
        if self._judge is None:
            return result, Verdict(None, plugin)
        return result, self._judge.judge(invite.plan, invite.round, plugin, local, result)

    def _keep(self, invite: Invite, local: LocalState, verdict: Verdict, pending: Pending, unsent: Flat | None) -> None:
        """The best states first: a crash after that leaves one that was judged but not kept, which is still a state."""
        self.sent.note(invite.plan, invite.round, len(pending.body))
        if pending.update.sum:
            self._sums.note_masked()
        if self._judge is not None:
            self._judge.keep(verdict)
        self._store.save(local)
        self._delivery.unsent.keep(pending.update, unsent)

    async def _refuse(self, verdict: Verdict, result: RoundResult) -> None:
        """Keep nothing of a round, and go back to the best state where the one before was worse than it."""
        if verdict.back is not None:
            back = replace(verdict.back, variates=self.local.variates)  # of the rounds that were sent, which stand
            await asyncio.to_thread(self._store.save, back)
            self.local = back
            log.info("%s: went back to its best state", self._settings.device)
        if self._judge is not None:
            await asyncio.to_thread(self._judge.keep, verdict)
        await self._let_listen(verdict.listen, replace(result, local=self.local))

    async def _let_listen(self, plugin: Flat, result: RoundResult) -> None:
        if self._learnt is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._learnt, plugin, result)
