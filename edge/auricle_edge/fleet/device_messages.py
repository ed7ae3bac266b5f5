"""What a device says to the coordinator: no audio, no features, no labels, no local model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal, TypedDict

from msgspec import UNSET

from auricle import __version__
from auricle.wire.frames import UPGRADE
from auricle.wire.messages import (
    Asked,
    DeviceState,
    Get,
    HearingReport,
    Invite,
    Loss,
    Measure,
    Register,
    Release,
    Status,
    Update,
)
from auricle.wire.plan import BAVD, FIXMATCH, METHODS, NOISE, SECURE_SUM
from auricle.wire.secure_sum.device import Keys
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumKeys, SumNeighbours, SumReveal, SumShares
from auricle.wire.secure_sum.quantised import MASKED
from auricle.wire.tensors import digest
from auricle.wire.update_codec import UPDATE_CODECS
from auricle.wire.vector_headers import VectorHeader
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import Standing
from auricle_edge.fleet.gate_watch import OPEN
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.update_delivery import Pending
from auricle_learning.training.train import RoundResult, Trainer

LONGEST_REASON = 200
STAYS = "0" * 64
"""In place of the digest of a body that does not travel."""


class _Who(TypedDict):
    fleet: str
    device: str
    boot: str


class _Kind(TypedDict):
    pack: str
    architecture: str


class DeviceMessages:
    """Writes the messages of one device.

    Parameters
    ----------
    fleet, device, boot
        Who speaks.
    trainer
        Says with which pack, architecture and number of clips.
    public_key
        Of the device, 32 bytes.
    """

    def __init__(self, fleet: str, device: str, boot: str, trainer: Trainer, public_key: bytes) -> None:
        self._who: _Who = {"fleet": fleet, "device": device, "boot": boot}
        self._trainer, self._public_key = trainer, public_key
        self._kind: _Kind = {"pack": trainer.pack.identity, "architecture": trainer.architecture}

    def presence(self, *, online: bool, gate: Decision, sensitivity: int | None = None) -> DeviceState:
        """Birth and last will, with what the gate says, and the sensitivity if the coordinator may change it."""
        return DeviceState(
            **self._who,
            **self._kind,
            online=online,
            agent=__version__,
            gate=gate.gate,
            gate_reason="" if gate is OPEN else gate.reason[:LONGEST_REASON],
            sensitivity=sensitivity,
        )

    def register(self) -> Register:
        """Who the device is."""
        return Register(
            **self._who,
            **self._kind,
            public_key=self._public_key,
            agent=__version__,
            codecs=UPDATE_CODECS,
            samples=len(self._trainer.data.train),
            capabilities=(NOISE, SECURE_SUM, FIXMATCH, BAVD, METHODS),
        )

    def release(self, standing: Standing) -> Release:
        """What the device runs, and how far the newest rollout has come."""
        return Release(
            **self._who,
            pack=self._kind["pack"],
            version=standing.version or __version__,
            board=standing.board,
            os=standing.os,
            bundle=standing.bundle,
            confirmed=standing.confirmed,
            rollout=standing.rollout,
            state=standing.state or "idle",
            reason=standing.reason,
        )

    def hearing(self, number: int, figures: HearingFigures) -> HearingReport:
        """How well it hears."""
        return HearingReport(**self._who, pack=self._kind["pack"], period=number, **asdict(figures))

    def get(self, round_number: int) -> Get:
        """What is next?"""
        return Get(**self._who, round=round_number)

    def status(self, asked: Asked | Update, state: Literal["training", "declined", "failed"], reason: str) -> Status:
        """Why the device does not take part, or, while it trains, what is wrong with what it received."""
        return Status(**self._who, task=asked.task, round=asked.round, state=state, reason=reason[:LONGEST_REASON])

    def outdated(self, round_number: int) -> Status:
        """The coordinator speaks a newer major version than this agent understands."""
        return Status(
            **self._who, task="", round=round_number, state="failed", reason=f"{UPGRADE}: agent {__version__}"
        )

    def loss(self, asked: Measure, value: float) -> Loss:
        """The answer to the first phase of a two-phase round."""
        return Loss(
            **self._who,
            task=asked.task,
            round=asked.round,
            epoch=asked.epoch,
            base=asked.base,
            loss=value,
            samples=len(self._trainer.data.train),
        )

    def sum_keys(self, asked: JoinSum, keys: Keys) -> SumKeys:
        """The keys of a device that joins a secure sum."""
        return SumKeys(**self._who, **_sum(asked), boxes=keys.boxes, masks=keys.masks)

    def sum_shares(self, asked: SumNeighbours, boxes: tuple[bytes, ...]) -> SumShares:
        """What it sealed to its neighbours."""
        return SumShares(**self._who, **_sum(asked), boxes=boxes)

    def sum_reveal(self, asked: RevealSum, own: tuple[bytes, ...], masks: tuple[bytes, ...]) -> SumReveal:
        """The shares that were asked for."""
        return SumReveal(**self._who, **_sum(asked), own=own, masks=masks)

    def update(
        self,
        invite: Invite,
        result: RoundResult,
        body: bytes,
        vectors: tuple[VectorHeader, ...] = (),
        *,
        travels: bool = True,
    ) -> Pending:
        """What was trained: weights in the plan's codec and vectors after them, or in a secure sum masked words.

        One that does not travel has zeros in place of its body's digest: nobody has to know it again.
        """
        told = invite.plan.secure_sum
        update = Update(
            **self._who,
            task=invite.task,
            round=invite.round,
            attempt=1,
            epoch=invite.epoch,
            base=invite.base,
            body=digest(body) if travels else STAYS,
            length=len(body),
            codec=MASKED if told else invite.plan.codec,
            samples=result.samples,
            loss=result.loss,
            steps=result.steps,
            seconds=result.seconds,
            personal_accuracy=result.personal_accuracy,
            plugin_accuracy=result.plugin_accuracy,
            held_out=result.held_out,
            unsupervised=UNSET if result.unsupervised is None else result.unsupervised,
            sum=told.id if told else UNSET,
            vectors=vectors or UNSET,
        )
        return Pending(update, body)


class _Sum(TypedDict):
    task: str
    round: int
    sum: str


def _sum(asked: JoinSum | SumNeighbours | RevealSum) -> _Sum:
    return {"task": asked.task, "round": asked.round, "sum": asked.sum}
