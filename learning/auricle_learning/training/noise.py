"""What a device does to an update before it leaves: clip its norm, add Gaussian noise, tell nothing beside it.

User-level differential privacy of federated averaging (McMahan et al., https://arxiv.org/abs/1710.06963); devices draw
the noise: the sum of m devices' noise has sqrt(m) times the standard deviation of one.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.wire.plan import Noise, Plan
from auricle.wire.tensors import Flat
from auricle_learning.training.train import RoundResult


def clipped(update: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Scale an update down to a norm: u min(1, C / ||u||_2).

    Parameters
    ----------
    update
        (P,) w_k - w^t.
    clip
        C, above 0.

    Returns
    -------
    array (P,)
        Of a norm of at most C.
    """
    norm = float(np.linalg.norm(update))
    return update if norm <= clip else update * (clip / norm)


def with_noise(received: Flat, trained: Flat, noise: Noise, generator: np.random.Generator | None = None) -> Flat:
    """The weights that a device sends in place of the trained ones: w^t + clip(w_k - w^t) + N(0, deviation^2).

    Parameters
    ----------
    received, trained
        (P,) w^t and w_k.
    noise
        The plan's.
    generator
        Draws the noise; without, one that the system's own randomness has seeded, as it must be for real ones.

    Returns
    -------
    array (P,)
        float32.
    """
    draw = generator or np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    moved = clipped(trained.astype(np.float64) - received, noise.clip)
    return np.asarray(received + moved + draw.normal(0.0, noise.deviation, trained.size), np.float32)


def noised(result: RoundResult, received: Flat, plan: Plan) -> RoundResult:
    """What of a round may leave the device: all of it, or the weights alone, noisy ones where the plan wants noise.

    So it is with noise and in a secure sum. Number of clips, loss, accuracies and vectors are figures of the
    device's own clips that neither covers: 1, 0 and nothing are sent in their place. What the device keeps is not
    changed.
    """
    if not plan.noise and not plan.secure_sum:
        return result
    return replace(
        result,
        plugin=with_noise(received, result.plugin, plan.noise) if plan.noise else result.plugin,
        samples=1,
        loss=0.0,
        steps=0,
        seconds=0.0,
        personal_accuracy=None,
        plugin_accuracy=None,
        held_out=0,
        vectors={},
    )
