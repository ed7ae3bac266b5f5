"""What attackers upload instead of their own update: one function an attack, over arrays alone.

Each takes the round as the attackers know it: all honest uploads and their own. A device can know less, so a
rule that holds here holds against less. `MOVES` says what they train on for it, and whether they lie of themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """A round before the attackers upload."""

    start: Array
    """(P,) the model that was sent."""
    honest: Array
    """(H, P) the uploads of the others."""
    own: Array
    """(A, P) what the attackers trained, on the clips of their attack (`Move.clips`)."""
    seed: int = 0
    """Of what they draw."""


def label_flip(view: View) -> Array:
    """Train as the others do, on labels y -> C-1-y."""
    return view.own


def sign_flip(view: View) -> Array:
    """Three times the opposite of the own update."""
    return view.start - 3 * (view.own - view.start)


def scaling(view: View) -> Array:
    """Ten times the update to flipped labels."""
    return view.start + 10 * (view.own - view.start)


def hundredfold(view: View) -> Array:
    """A hundred times the own update."""
    return view.start + 100 * (view.own - view.start)


def noise(view: View) -> Array:
    """Gaussian noise, each ten times as long as the own update."""
    moved = np.linalg.norm(view.own - view.start, axis=1, keepdims=True)
    drawn = np.random.default_rng([view.seed, len(view.own)]).standard_normal(view.own.shape)
    return np.asarray(view.start + 10 * moved * drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def replacement(view: View) -> Array:
    """FedVSA eq. 10: together the attackers make the mean of all their first one's model, if all count the same."""
    count = len(view.honest) + len(view.own)
    wanted = view.own[0] - view.start - (view.honest - view.start).sum(axis=0) / count
    return np.repeat((view.start + wanted * count / len(view.own))[None], len(view.own), axis=0)


def little_is_enough(view: View) -> Array:
    """ALIE (Baruch et al. 2019): the mean less z standard deviations, z as far as a majority still covers it."""
    count, lying = len(view.honest) + len(view.own), len(view.own)
    supporters = count // 2 + 1 - lying
    z = NormalDist().inv_cdf(max(0.5, (count - lying - supporters) / (count - lying)))
    made = view.honest.mean(axis=0) - z * view.honest.std(axis=0)
    return np.repeat(made[None], lying, axis=0)


def inner_product(view: View) -> Array:
    """Inner product manipulation (Xie et al. 2020): the opposite of the honest mean, 1.1 times as long."""
    moved = view.honest.mean(axis=0) - view.start
    return np.repeat((view.start - 1.1 * moved)[None], len(view.own), axis=0)


def min_max(view: View) -> Array:
    """Min-max (Shejwalkar and Houmansadr 2021): the mean less g deviations, as far as the honest are from each other.

    No honest upload is farther from it than the two that are farthest apart are from each other: g is the least
    positive root of g^2 |s|^2 - 2 g <m - h_k, s> + |m - h_k|^2 = D^2 over the h_k, with mean m and deviations s.
    """
    away, gaps = -view.honest.std(axis=0), view.honest.mean(axis=0) - view.honest
    products = gaps @ gaps.T
    squares = np.diag(products)
    widest = float((squares[:, None] + squares - 2 * products).max())
    along, length = gaps @ away, max(float(away @ away), 1e-300)
    reach = (-along + np.sqrt(np.maximum(along**2 - length * (squares - widest), 0.0))) / length
    return np.repeat((view.honest.mean(axis=0) + reach.min() * away)[None], len(view.own), axis=0)


def zeros(view: View) -> Array:
    """A model of zeros."""
    return np.zeros_like(view.own)


def free_rider(view: View) -> Array:
    """The model as it was sent."""
    return np.repeat(view.start[None], len(view.own), axis=0)


def together(view: View) -> Array:
    """Small deviations of all attackers in one direction: half an honest standard deviation towards flipped labels."""
    mean, spread = view.honest.mean(axis=0), view.honest.std(axis=0)
    made = mean + 0.5 * spread * np.sign(view.own.mean(axis=0) - mean)
    return np.repeat(made[None], len(view.own), axis=0)


def backdoor(view: View) -> Array:
    """Train the trigger, and upload it as long as the longest honest update: no norm gives it away."""
    longest = np.linalg.norm(view.honest - view.start, axis=1).max()
    moved = view.own - view.start
    norms = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
    return np.asarray(view.start + moved * (longest / norms))


@dataclass(frozen=True)
class Move:
    """An attack."""

    upload: Callable[[View], Array]
    clips: Literal["honest", "flipped", "poisoned"] = "honest"
    """What the attackers train on: their clips, the same with labels y -> C-1-y, or each twice, as it is and with a
    trigger in it and the label that this is to give."""
    lies: bool = False
    """Whether they also lie of their samples, loss, steps and vectors."""


MOVES: dict[str, Move] = {
    "label flip": Move(label_flip, "flipped"),
    "sign flip": Move(sign_flip),
    "scaling": Move(scaling, "flipped"),
    "hundredfold": Move(hundredfold),
    "noise": Move(noise),
    "replacement": Move(replacement, "flipped"),
    "ALIE": Move(little_is_enough),
    "inner product": Move(inner_product),
    "min-max": Move(min_max),
    "zero model": Move(zeros),
    "free rider": Move(free_rider),
    "together": Move(together, "flipped"),
    "backdoor": Move(backdoor, "poisoned"),
    "flip and lie": Move(label_flip, "flipped", lies=True),
    "zero and lie": Move(zeros, lies=True),
}
