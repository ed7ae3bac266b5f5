"""A device's part in rounds: its consent, the model it fetches, the training, and what is kept of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Literal

from auricle.errors import AuricleError
from auricle.wire.messages import Invite, Measure
from auricle.wire.tensors import Flat, decode
from auricle_edge.fleet.agent_context import AgentSettings, Uplink
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.gate_watch import Declined, GateWatch, RoundControl
from auricle_edge.fleet.outbox import Pending
from auricle_edge.fleet.readiness import Readiness, require_room
from auricle_edge.fleet.update_delivery import UpdateDelivery
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.local_store import LocalStore
from auricle_edge.training.train import LocalState, RoundResult, Trainer, TrainingStopped

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
        judging: Judging | None,
        learnt: Learnt | None,
    ) -> None:
        self._settings, self._trainer, self._executor = settings, trainer, executor
        self._messages, self._uplink = messages, uplink
        self._gate, self._readiness, self._delivery, self._learnt = gate, readiness, delivery, learnt
        pack = trainer.pack
        self._store = LocalStore(settings.folder, pack.identity, pack.table(trainer.architecture))
        self.local: LocalState = self._store.read() or self._store.previous() or trainer.first_state()
        """What the device has learnt and never sends."""
        self.base: str | None = None
        """The fleet's model of the last round that was kept since the start."""
        self._judge: RoundJudge | None = None
        if trainer.settings.judge:
            listens = judging or Judging(detect_settings(DetectTable(), pack))
            self._judge = RoundJudge(trainer, listens, settings.folder)
        self._model: tuple[str, Flat] | None = None
        """The newest model that was fetched, by its digest."""

    # -- what the coordinator asks

    async def take_part(self, invite: Invite) -> None:
        """Train, keep what was learnt, and send the update until it is answered; AuricleError: the device does not."""
        deadline = time.monotonic() + invite.ttl
        await self._consent(invite)
        try:
            pending, result, verdict = await self._learn(invite, deadline)
        except TrainingStopped:
            raise
        except AuricleError as error:
            await self._report(invite, error)
            raise
        log.info("%s: round %d intends body %s", self._settings.device, invite.round, pending.update.body)
        self.local, self.base = result.local, invite.base
        await self._let_listen(verdict.listen, result)
        self._uplink.enter("outbox")
        await self._delivery.deliver(pending)

    async def say_loss(self, asked: Measure) -> None:
        """Answer the first phase of a two-phase round; a lost answer is asked for again."""
        await self._consent(asked)
        plugin = await self._fetched(asked)
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._executor, self._trainer.inference_loss, plugin)
        await self._uplink.say("loss", self._messages.loss(asked, value))

    async def _consent(self, asked: Invite | Measure) -> None:
        """Go on, or report why not; the coordinator hears how many clips there are now."""
        try:
            await self._readiness.require_gate()
            if await self._readiness.renew():
                await self._uplink.say("reg", self._messages.register())
            self._readiness.require_clips()
        except AuricleError as error:
            await self._report(asked, error)
            raise

    async def _report(self, asked: Invite | Measure, error: AuricleError) -> None:
        state: Literal["declined", "failed"] = "declined" if isinstance(error, Declined) else "failed"
        await self._uplink.say("st", self._messages.status(asked, state, str(error)))

    async def _fetched(self, asked: Invite | Measure) -> Flat:
        """The round's model (P,), fetched unless it is the one that was fetched last."""
        if self._model is None or self._model[0] != asked.base:
            block = await self._uplink.fetch(asked)
            self._model = (asked.base, decode(block, self._trainer.pack.plugin_table.size, asked.codec))
        return self._model[1]

    # -- training

    async def _learn(self, invite: Invite, deadline: float) -> tuple[Pending, RoundResult, Verdict]:
        """Train and keep: the update, which is on disk, and what came out. Declined: the judge refused the round."""
        judged = 0 if self._judge is None else self._judge.nbytes
        await asyncio.to_thread(require_room, self._settings.folder, self.local.nbytes + invite.length + judged)
        plugin = await self._fetched(invite)
        self._uplink.enter("training")
        control = self._gate.begin(deadline - time.monotonic())
        result, verdict = await asyncio.get_running_loop().run_in_executor(
            self._executor, self._train, invite, plugin, self.local, control
        )
        if verdict.received is not None:
            await self._uplink.say("st", self._messages.status(invite, "training", verdict.received))
        if verdict.reason is not None:
            await self._refuse(verdict, result)
            raise Declined(verdict.reason)
        pending = self._messages.update(invite, result)
        await self._delivery.keep(pending, lambda: self._keep(result.local, verdict))
        return pending, result, verdict

    def _train(
        self, invite: Invite, plugin: Flat, local: LocalState, control: RoundControl
    ) -> tuple[RoundResult, Verdict]:
        """In the training thread: train, and ask the judge."""
        result = self._trainer.run(invite.plan, invite.round, plugin, local, control)
        if self._judge is None:
            return result, Verdict(None, plugin)
        return result, self._judge.judge(invite.plan, invite.round, plugin, local, result)

    def _keep(self, local: LocalState, verdict: Verdict) -> None:
        """The best states first: a crash after that leaves one that was judged but not kept, which is still a state."""
        if self._judge is not None:
            self._judge.keep(verdict)
        self._store.save(local)

    async def _refuse(self, verdict: Verdict, result: RoundResult) -> None:
        """Keep nothing of a round, and go back to the best state where the one before was worse than it."""
        if verdict.back is not None:
            await asyncio.to_thread(self._store.save, verdict.back)
            self.local = verdict.back
            log.info("%s: went back to its best state", self._settings.device)
        if self._judge is not None:
            await asyncio.to_thread(self._judge.keep, verdict)
        await self._let_listen(verdict.listen, replace(result, local=self.local))

    async def _let_listen(self, plugin: Flat, result: RoundResult) -> None:
        if self._learnt is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._learnt, plugin, result)
