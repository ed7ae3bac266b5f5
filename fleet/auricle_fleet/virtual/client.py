"""A device without a link where it trains: it trains and judges as one that has an agent, and keeps nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from auricle.errors import AuricleError
from auricle.wire.messages import Invite, Update
from auricle.wire.plan import InferenceLoss, Plan
from auricle.wire.tensors import Flat
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_fleet.population.behaviour import GroupTrainer
from auricle_fleet.population.held_out import MODELS, HeldOutScore, ModelRole, score_labels
from auricle_learning.training.mechanism import NOTHING_LENT, LentData
from auricle_learning.training.noise import noised
from auricle_learning.training.train import LocalState, RoundResult, Trainer, TrainingStopped
from auricle_learning.training.update_body import update_body

FLEET, BOOT = "emulated", "virtual"
UNSENT = "unsent"
"""Name of what the codec left out of a device's updates, among what it keeps."""


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
    scores: Mapping[ModelRole, HeldOutScore] = field(default_factory=dict)
    """Of `MODELS` on its own held-out clips; empty where it has none."""

    @property
    def doubt(self) -> str | None:
        """What its judge finds worse in the round's model."""
        return None if self.verdict is None else self.verdict.received


class Client:
    """One device of a run where it trains.

    Parameters
    ----------
    name
        Who it is.
    trainer
        What trains it.
    judging
        What its rounds are judged by; None: they are not.
    folder
        Where its best states are kept.
    """

    def __init__(self, name: str, trainer: Trainer, judging: Judging | None, folder: Path) -> None:
        self.trainer, self._judging, self._folder = trainer, judging, folder
        self._messages = DeviceMessages(FLEET, name, BOOT, trainer, bytes(32))

    def _first_state(self, plan: Plan) -> LocalState:
        """What it begins with; nothing is drawn where a round trains the plug-in alone and keeps nothing else."""
        plain = plan.mode == "supervised" and not plan.method and self._judging is None
        return _NO_STATE if plain else self.trainer.first_state()

    def loss(self, plugin: Flat, kind: InferenceLoss, trained: int) -> tuple[float, int]:
        """The loss that it says a model (P,) has on its clips, and how many these are.

        Parameters
        ----------
        trained
            The last round that it trained in, whose clips they are; 0: none yet.
        """
        if isinstance(self.trainer, GroupTrainer):
            self.trainer.renew(self.trainer.clips_in(trained))
        return self.trainer.inference_loss(plugin, kind), len(self.trainer.data.train)

    def take_part(
        self,
        invite: Invite,
        plugin: Flat,
        known: LocalState | None,
        stopped: Callable[[], bool],
        lent: LentData = NOTHING_LENT,
    ) -> Answer:
        """Train from the round's model (P,), and what comes beside it; nothing is kept by this.

        Parameters
        ----------
        known
            What it has learnt; None: nothing yet.

        Raises
        ------
        TrainingStopped
            `stopped`, asked before every batch, said that the run ends.
        """
        local = self._first_state(invite.plan) if known is None else known
        try:
            result = self.trainer.run(invite.plan, invite.round, plugin, local, stopped, lent)
        except TrainingStopped:
            raise
        except AuricleError as error:
            return Answer(None, b"", str(error))
        verdict = None
        if self._judging is not None:
            judge = RoundJudge(self.trainer, self._judging, self._folder)
            verdict = judge.judge(invite.plan, invite.round, plugin, local, result)
            if verdict.reason is not None:
                return Answer(None, b"", verdict.reason, verdict.back, verdict)
            if invite.plan.noise:  # how the model does on its clips is not said
                verdict = replace(verdict, received=None)
        scores, table = self._scores(result), self.trainer.pack.plugin_table
        result = noised(result, plugin, invite.plan)
        body, vectors, unsent = update_body(result, plugin, invite.plan, table, local.variates.get(UNSENT))
        pending = self._messages.update(invite, result, body, vectors, travels=False)
        state = result.local if unsent is None else with_unsent(result.local, unsent)
        learnt = None if _as_before(state, local) else state
        if learnt is not None and local is _NO_STATE:
            learnt = replace(learnt, weights=self.trainer.first_state().weights)
        return Answer(pending.update, pending.body, "", learnt, verdict, scores)

    def _scores(self, result: RoundResult) -> dict[ModelRole, HeldOutScore]:
        """What its models recognise of the clips that it never trains on."""
        targets, found = self.trainer.data.held_out.targets, dict(result.recognised)
        if not len(targets) or not found:  # who only claims to have trained recognises nothing
            return {}
        if "trained" not in found:
            trained = result.plugin if result.trained is None else result.trained
            found["trained"] = self.trainer.recognise_held_out(self.trainer.pack.manifest.plugin, trained)
        return {model: score_labels(targets, found[model]) for model in MODELS}


_NO_STATE = LocalState(np.zeros(0, np.float32))
"""Of a device whose own model nobody asks for."""


def with_unsent(state: LocalState, unsent: Flat | None) -> LocalState:
    """A state with what the codec left out of its updates (P,); None: with nothing of it."""
    others = {name: each for name, each in state.variates.items() if name != UNSENT}
    return replace(state, variates=others if unsent is None else {**others, UNSENT: unsent})


def _as_before(after: LocalState, before: LocalState) -> bool:
    """Whether a round taught a device nothing that it keeps."""
    same = after.weights is before.weights and not (after.slots or before.slots)
    return same and not (after.variates or before.variates)
