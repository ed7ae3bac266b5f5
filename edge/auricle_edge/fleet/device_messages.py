"""What a device says to the coordinator: no audio, no features, no labels, no local model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from auricle import __version__
from auricle.wire.frames import UPGRADE
from auricle.wire.messages import (
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
from auricle.wire.tensors import CODECS, digest, encode
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.gate_watch import OPEN
from auricle_edge.fleet.outbox import Pending
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.standing import Standing
from auricle_edge.training.train import RoundResult, Trainer

LONGEST_REASON = 200


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
        self._who: dict[str, Any] = {"fleet": fleet, "device": device, "boot": boot}
        self._trainer, self._public_key = trainer, public_key
        self._kind: dict[str, Any] = {"pack": trainer.pack.identity, "architecture": trainer.architecture}

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
            codecs=tuple(CODECS),
            samples=len(self._trainer.data.train),
        )

    def release(self, standing: Standing) -> Release:
        """What the device runs, and how far the newest rollout has come."""
        return Release(
            **self._who,
            pack=self._kind["pack"],
            version=__version__,
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

    def status(self, asked: Invite | Measure, state: Literal["training", "declined", "failed"], reason: str) -> Status:
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

    def update(self, invite: Invite, result: RoundResult) -> Pending:
        """What was trained."""
        body = encode(result.plugin, invite.plan.codec)
        update = Update(
            **self._who,
            task=invite.task,
            round=invite.round,
            attempt=1,
            epoch=invite.epoch,
            base=invite.base,
            body=digest(body),
            length=len(body),
            codec=invite.plan.codec,
            samples=result.samples,
            loss=result.loss,
            steps=result.steps,
            seconds=result.seconds,
            personal_accuracy=result.personal_accuracy,
            plugin_accuracy=result.plugin_accuracy,
            held_out=result.held_out,
        )
        return Pending(update, body)
