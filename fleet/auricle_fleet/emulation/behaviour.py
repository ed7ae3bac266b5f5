"""Devices that do not do what is asked of them: slow ones, silent ones, liars and attackers, by their group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.speech.augment import noise_factors
from auricle.speech.features import Energies
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.runtimes import Runtime
from auricle_edge.training.learn_settings import LearnSettings
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.train import LocalState, RoundResult, Trainer, TrainingStopped
from auricle_fleet.groups import Group

_LOOK = 0.05
"""Seconds between two looks whether the round is over, while a slow device waits."""


class GroupTrainer(Trainer):
    """Trains as the devices of a group do.

    Parameters
    ----------
    group
        Whose habits it has.
    runtime, architecture, data, seed, start, settings
        As of `Trainer`; data with flipped labels or a noisy room is made by `data_of`.
    """

    def __init__(
        self,
        group: Group,
        runtime: Runtime,
        architecture: str,
        data: DeviceData,
        seed: int,
        start: Flat | None = None,
        settings: LearnSettings | None = None,
    ) -> None:
        self.group = group
        super().__init__(runtime, architecture, data, seed, start, settings)

    def inference_loss(self, plugin: Flat) -> float:
        """The loss that the device says it has."""
        return self.group.force if self.group.attack == "loss" else super().inference_loss(plugin)

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
    ) -> RoundResult:
        """Train a round, and change what comes out of it; TrainingStopped in a round that is never answered."""
        rng = np.random.default_rng([self.seed, round_number, 29])
        silent, late = rng.random() < self.group.drop_out, rng.uniform(0.5, 1.5) * self.group.delay
        if silent:
            raise TrainingStopped("This device answers nothing in this round.")
        _wait(late, checkpoint)
        if self.group.attack == "free-ride":
            return RoundResult(
                plugin.copy(), state, self.inference_loss(plugin), 1, late, len(self.data.train), None, None, 0
            )
        return self._changed(super().run(plan, round_number, plugin, state, checkpoint), plugin, rng)

    def _changed(self, result: RoundResult, received: Flat, rng: np.random.Generator) -> RoundResult:
        """The update u of the model w as the group's attack has it."""
        force, update = self.group.force, result.plugin - received
        match self.group.attack:
            case "samples":
                return replace(result, samples=round(result.samples * force))
            case "sign-flip":
                forged = received - force * update
            case "scale":
                forged = received + force * update
            case "noise":
                noise = rng.standard_normal(len(update)).astype(np.float32)
                forged = received + noise * (force * np.linalg.norm(update) / np.linalg.norm(noise))
            case _:
                return result
        return replace(result, plugin=forged.astype(np.float32))


def _wait(seconds: float, checkpoint: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if checkpoint():
            raise TrainingStopped("The round was stopped.")
        time.sleep(min(_LOOK, left))


def data_of(group: Group, data: DeviceData, labels: int, seed: int) -> DeviceData:
    """The clips of a device in its group: in a noisy room, and to be trained on by other labels.

    Parameters
    ----------
    labels
        How many there are: y becomes labels - 1 - y, the middle one of an odd number its neighbour.
    """
    rng = np.random.default_rng([seed, 31])
    train, held_out = data.train, data.held_out
    if group.noise_db is not None:
        train, held_out = (
            Clips(in_noise(clips.energies, data.noise, group.noise_db, rng), clips.targets, clips.weights)
            for clips in (train, held_out)
        )
    if group.attack == "label-flip":
        train = Clips(train.energies, flipped(train.targets, labels), train.weights)
    return replace(data, train=train, held_out=held_out)


def flipped(targets: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    """Labels (N,) with y replaced by labels - 1 - y."""
    wrong = labels - 1 - targets
    return np.where(wrong == targets, (targets + 1) % labels, wrong)


def in_noise(energies: Energies, noise: NDArray[np.float32] | None, level: float, rng: np.random.Generator) -> Energies:
    """Clips (N, T, mels) with noise, the words so many decibels above it.

    Parameters
    ----------
    noise
        (F, mels), F at least T; None: as much in every band.
    """
    if not len(energies):
        return energies
    count, frames, mels = energies.shape
    if noise is None:
        noise = rng.gamma(1.0, 1.0, (frames, mels)).astype(np.float32)
    starts = rng.integers(0, len(noise) - frames + 1, count)
    pieces = noise[starts[:, None] + np.arange(frames)]
    factors = noise_factors(energies, pieces, level).astype(np.float32)
    mixed: Energies = energies + pieces * factors[:, None, None]
    return mixed
