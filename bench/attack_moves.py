"""What attackers upload instead of their own update: one function an attack, over arrays alone.

Each takes the round as the attackers know it: all honest uploads and their own. A device can know less, so a
rule that holds here holds against less. `lies` says what they report with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

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
    """(A, P) what the attackers would upload if they were honest."""
    flipped: Array
    """(A, P) what they trained with labels turned round."""
    poisoned: Array
    """(A, P) what they trained on clips of which half have a trigger in them and the label that it is to give."""


def label_flip(view: View) -> Array:
    """Train honestly on labels y -> C-1-y."""
    return view.flipped


def sign_flip(view: View) -> Array:
    """Three times the opposite of the own update."""
    return view.start - 3 * (view.own - view.start)


def scaling(view: View) -> Array:
    """Ten times the update to flipped labels."""
    return view.start + 10 * (view.flipped - view.start)


def replacement(view: View) -> Array:
    """FedVSA eq. 10: together the attackers make the mean of all their first one's model, if all count the same."""
    count = len(view.honest) + len(view.own)
    wanted = view.flipped[0] - view.start - (view.honest - view.start).sum(axis=0) / count
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


def zeros(view: View) -> Array:
    """A model of zeros."""
    return np.zeros_like(view.own)


def free_rider(view: View) -> Array:
    """The model as it was sent."""
    return np.repeat(view.start[None], len(view.own), axis=0)


def together(view: View) -> Array:
    """Small deviations of all attackers in one direction: half an honest standard deviation towards flipped labels."""
    mean, spread = view.honest.mean(axis=0), view.honest.std(axis=0)
    made = mean + 0.5 * spread * np.sign(view.flipped.mean(axis=0) - mean)
    return np.repeat(made[None], len(view.own), axis=0)


def backdoor(view: View) -> Array:
    """Train the trigger, and upload it as long as the longest honest update: no norm gives it away."""
    longest = np.linalg.norm(view.honest - view.start, axis=1).max()
    moved = view.poisoned - view.start
    norms = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
    return view.start + moved * (longest / norms)


MOVES: dict[str, Callable[[View], Array]] = {
    "label flip": label_flip,
    "sign flip": sign_flip,
    "scaling": scaling,
    "replacement": replacement,
    "ALIE": little_is_enough,
    "inner product": inner_product,
    "zero model": zeros,
    "free rider": free_rider,
    "together": together,
    "backdoor": backdoor,
    "flip and lie": label_flip,
    "zero and lie": zeros,
}


def lies(attack: str) -> tuple[float, float] | None:
    """Samples and loss that the attackers report; None: the truth."""
    return (1e7, 1e6) if attack.endswith("and lie") else None
