"""A device without a link: it trains, judges and keeps as one that has an agent, called by its coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auricle.errors import AuricleError
from auricle.wire.messages import Invite, Update
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import Flat
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_fleet.emulation.behaviour import GroupTrainer
from auricle_fleet.emulation.traces import Timeline
from auricle_fleet.emulation.virtual_compute import Work
from auricle_learning.training.train import LocalState, Trainer, TrainingStopped
from auricle_learning.training.update_body import update_body

BOOT = "virtual"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a device says to an invitation, and what it would keep of the round."""

    update: Update | None
    """None: it failed, or its judge refused the round."""
    body: bytes
    """The update's weights as they travel."""
    reason: str = ""
    """Why there is no update."""
    local: LocalState | None = None
    """What it has learnt then; None: what it had learnt before."""
    verdict: Verdict | None = None
    """Its judge's."""

    @property
    def doubt(self) -> str | None:
        """What its judge finds worse in the round's model."""
        return None if self.verdict is None else self.verdict.received


@dataclass(frozen=True, eq=False)
class Beside:
    """What comes to devices beside a round's model."""

    prior: PriorKnowledge | None = None
    """What they tune their classifiers by."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """Of the plan's method, by name."""


NOTHING_BESIDE = Beside()


class VirtualDevice:
    """One device of a run.

    Parameters
    ----------
    fleet, name
        Who it is.
    trainer
        What trains it.
    judging
        What its rounds are judged by; None: they are not.
    folder
        Where its judge keeps the best states.
    local
        What it has learnt; None: nothing yet.
    timeline
        When it can take part; None: always.
    """

    def __init__(
        self,
        fleet: str,
        name: str,
        trainer: Trainer,
        judging: Judging | None,
        folder: Path,
        local: LocalState | None,
        timeline: Timeline | None = None,
    ) -> None:
        self.device, self.selected = name, 0
        """Its name, and the rounds it was invited to."""
        self.trainer, self._timeline = trainer, timeline
        self.registered = len(trainer.data.train)
        """Clips that it registers with."""
        self.local = local or trainer.first_state()
        self._messages = DeviceMessages(fleet, name, BOOT, trainer, bytes(32))
        self._judge: RoundJudge | None = None
        if judging is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._judge = RoundJudge(trainer, judging, folder)

    def comes(self, at: float) -> float:
        """The first time from `at` on, in seconds of the run's clock, at which it can be invited; infinity: never."""
        return at if self._timeline is None else self._timeline.comes(at)

    def arrival(self, number: int, began: float, sent: int, received: int, work: Work | None = None) -> float | None:
        """Seconds after the invitation at which it answers a round; None: never.

        Who cannot take part any more before it has answered never does.

        Parameters
        ----------
        number
            Of the round.
        began
            When it was invited, seconds of the run's clock.
        sent, received
            Bytes of an update and of the model.
        work
            What the round asks of devices; None: training takes no time.
        """
        trainer, late, compute = self.trainer, 0.0, 1.0
        data = trainer.data
        if isinstance(trainer, GroupTrainer):
            silent = trainer.late(number)
            if silent is None:
                return None
            late, compute, data = silent, trainer.group.compute, trainer.clips_in(number)
        trains = 0.0 if work is None else work.seconds(data, compute)
        return self._comes_back(began, late + trains, sent + received)

    def says_loss(self, began: float, received: int) -> float | None:
        """Seconds after the question at which it says the loss of a model; None: never.

        Parameters
        ----------
        began
            When it was asked, seconds of the run's clock.
        received
            Bytes of the model.
        """
        return self._comes_back(began, 0.0, received)

    def _comes_back(self, began: float, busy: float, travels: int) -> float | None:
        """Seconds after `began` at which an answer arrives that took so many and so many bytes; None: never."""
        if not isinstance(self.trainer, GroupTrainer):
            return busy
        network, timeline = self.trainer.group.network, self._timeline
        kilobits = (None if timeline is None else timeline.kilobits(began)) or network.kilobits
        answer = busy + 2 * network.latency + (0.0 if kilobits is None else 8e-3 * travels / kilobits)
        return None if timeline is not None and began + answer > timeline.leaves(began) else answer

    def loss(self, plugin: Flat, trained: int) -> tuple[float, int]:
        """The loss that it says a model (P,) has on its clips, in nats, and how many these are.

        Parameters
        ----------
        trained
            The last round that it trained in, whose clips they are; 0: none yet.
        """
        if isinstance(self.trainer, GroupTrainer):
            self.trainer.renew(self.trainer.clips_in(trained))
        return self.trainer.inference_loss(plugin), len(self.trainer.data.train)

    def take_part(
        self, invite: Invite, plugin: Flat, stopped: Callable[[], bool], beside: Beside = NOTHING_BESIDE
    ) -> Answer:
        """Train from the round's model (P,), and what comes beside it; nothing is kept by this.

        Raises
        ------
        TrainingStopped
            `stopped`, asked before every batch, said that the run ends.
        """
        try:
            result = self.trainer.run(
                invite.plan, invite.round, plugin, self.local, stopped, beside.prior, beside.vectors
            )
        except TrainingStopped:
            raise
        except AuricleError as error:
            return Answer(None, b"", str(error))
        verdict = None
        if self._judge is not None:
            verdict = self._judge.judge(invite.plan, invite.round, plugin, self.local, result)
            if verdict.reason is not None:
                return Answer(None, b"", verdict.reason, verdict.back, verdict)
        table = self.trainer.pack.plugin_table
        body, vectors, result = update_body(result, plugin, invite.plan, table, self.local.variates)
        pending = self._messages.update(invite, result, body, vectors)
        return Answer(pending.update, pending.body, "", result.local, verdict)

    def keep(self, answer: Answer) -> None:
        """Keep what the round taught, once it has ended."""
        if answer.local is not None:
            self.local = answer.local
        if self._judge is not None and answer.verdict is not None:
            self._judge.keep(answer.verdict)
