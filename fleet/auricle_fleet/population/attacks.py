"""Which devices of a run attack, and what they send instead of their updates. Formulas: docs/emulation.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, digest, encode
from auricle_fleet.population.conditions import RoundClips
from auricle_fleet.settings.groups import STRENGTHS, Group
from auricle_learning.training.train import Trainer

TOGETHER = ("alie", "inner-product")
"""Attacks for which the devices of a group put their honest updates together."""
MOST_COVERED = 0.999
"""Share of the honest devices that `alie` takes for farther out than its own, at most."""


def strength_of(group: Group, devices: int, invited: int) -> float:
    """The strength of a group's attack: as it is told, or what follows from the run.

    Of `replace` it is 1 / p, where p is the share of one device of a round in which all count the same (FedVSA eq. 10).

    Parameters
    ----------
    devices, invited
        Of the run, and to one of its rounds.
    """
    if group.strength is not None:
        return group.strength
    if group.attack == "replace":
        return float(invited)
    return supported(devices, group.count) if group.attack == "alie" else STRENGTHS.get(group.attack or "", 0.0)


def supported(devices: int, hostile: int) -> float:
    """How many standard deviations away a majority still covers an update: z of Baruch et al. 2019, algorithm 3.

    z is the largest with Phi(z) < (n - m - s) / (n - m), s = floor(n / 2 + 1) - m, of n devices and m hostile ones.
    """
    honest = max(devices - hostile, 1)
    supporters = devices // 2 + 1 - hostile
    return NormalDist().inv_cdf(min(max((honest - supporters) / honest, 0.5), MOST_COVERED))


def forged(attack: str | None, update: Flat, force: float, rng: np.random.Generator) -> Flat:
    """What a device sends (P,) in place of its own update (P,), both from the model that it received."""
    match attack:
        case "sign-flip":
            return -force * update
        case "scale" | "replace" | "backdoor":
            return force * update
        case "noise":
            noise = rng.standard_normal(len(update)).astype(np.float32)
            changed: Flat = noise * (force * np.linalg.norm(update) / np.linalg.norm(noise))
            return changed
        case _:
            return update


def forged_together(attack: str, updates: NDArray[np.float32], force: float) -> Flat:
    """What each device of a group sends (P,), by what its A devices would honestly send, (A, P).

    `alie` ("a little is enough", Baruch et al. 2019, eq. 1): their mean less `force` standard deviations of theirs,
    weight by weight. `inner-product` (Xie et al. 2020, section 4): their mean times -`force`.
    """
    mean: Flat = updates.mean(axis=0, dtype=np.float64).astype(np.float32)
    if attack == "inner-product":
        return -force * mean
    spread: Flat = updates.std(axis=0, dtype=np.float64).astype(np.float32)
    return mean - force * spread


class Colluders:
    """The devices of one hostile group, who train honestly to know what honest updates are like.

    Each round is trained once, when the first of them asks: by labels alone, from the model that this one received.
    Where a rule gives devices models of their own, it is trained for each of these models.

    Parameters
    ----------
    trainers, clips
        Of all its devices.
    """

    def __init__(self, trainers: Sequence[Trainer], clips: Sequence[RoundClips]) -> None:
        self._trainers, self._clips = trainers, clips
        self._lock = threading.Lock()
        self._asked: tuple[int, str] = 0, ""
        self._updates = np.zeros((0, 0), np.float32)

    def updates(self, plan: Plan, number: int, received: Flat, stopped: Callable[[], bool]) -> NDArray[np.float32]:
        """Their honest updates (A, P) of a round; TrainingStopped where `stopped` says so."""
        asked, plain = (
            (number, digest(encode(received))),
            msgspec.structs.replace(plan, mode="supervised", fixmatch=msgspec.UNSET),
        )
        with self._lock:
            if asked != self._asked:
                made = []
                for trainer, clips in zip(self._trainers, self._clips, strict=True):
                    trainer.renew(clips.at(number, honest=True))
                    result = trainer.run(plain, number, received, trainer.first_state(), stopped)
                    made.append(result.plugin - received)
                self._asked, self._updates = asked, np.stack(made)
            return self._updates


class Attackers(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a group that attacks."""

    group: str
    devices: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    """In which they attack; empty: in all."""

    def attack_in(self, number: int) -> bool:
        """Whether they attack in a round."""
        return not self.rounds or number in self.rounds


def attackers(names: Sequence[str], groups: Sequence[Group | None]) -> tuple[Attackers, ...]:
    """The devices (N,) of a run that attack, by their groups (N,), in the order of the devices."""
    found: dict[Group, list[str]] = {}
    for name, group in zip(names, groups, strict=True):
        if group is not None and group.attack is not None:
            found.setdefault(group, []).append(name)
    return tuple(
        Attackers(group=group.name, devices=tuple(devices), rounds=group.attack_rounds)
        for group, devices in found.items()
    )
