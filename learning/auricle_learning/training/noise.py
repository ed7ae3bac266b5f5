"""What a device does to an update before it leaves: clip its norm, add Gaussian noise, tell nothing beside it.

User-level differential privacy of federated averaging (McMahan et al., https://arxiv.org/abs/1710.06963); devices draw
the noise: the sum of m devices' noise has sqrt(m) times the standard deviation of one.

Who knows the state of a generator takes the noise off again, so a device draws it of ChaCha20 under a key of the
system's randomness. Sums of floating-point numbers tell by their lowest bits what was added (Mironov 2012,
https://doi.org/10.1145/2382196.2382264), so an update and its noise are whole steps of one grid: the sum is the rounded
sum of the update, which is on the grid, and real noise, and rounding gives nothing away.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.wire.plan import Noise, Plan
from auricle.wire.secure_sum.masks import stream
from auricle.wire.secure_sum.sizes import KEY_BYTES
from auricle.wire.tensors import Flat
from auricle_learning.training.train import RoundResult

GRID_BITS = 20
"""Of the grid of update and noise: its step is a power of two, 2^-20 to 2^-21 of the noise's standard deviation."""


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


def cryptographic_normals(size: int) -> NDArray[np.float64]:
    """Draw numbers of a standard normal distribution that nobody can predict or repeat.

    Box and Muller's transform of ChaCha20's key stream under a key of the system's randomness, two uniform numbers of
    53 bits for two normal ones. None is beyond 8.7.

    Returns
    -------
    array (size,)
    """
    half = -(-size // 2)
    bits = stream(secrets.token_bytes(KEY_BYTES), 4 * half).view(np.uint64)
    uniform = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(uniform[:half])), 2 * np.pi * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def with_noise(received: Flat, trained: Flat, noise: Noise) -> Flat:
    """The weights that a device sends in place of the trained ones: w^t + clip(w_k - w^t) + N(0, deviation^2).

    Update and noise are each rounded to the grid; the update is clipped to a norm that is less by what rounding can
    add, step * sqrt(P) / 2.

    Parameters
    ----------
    received, trained
        (P,) w^t and w_k.
    noise
        The plan's.

    Returns
    -------
    array (P,)
        float32.
    """
    moved = trained.astype(np.float64) - received
    if noise.deviation < np.finfo(np.float32).tiny:
        return np.asarray(received + clipped(moved, noise.clip), np.float32)
    size = trained.size
    step = math.ldexp(1.0, math.frexp(noise.deviation)[1] - 1 - GRID_BITS)
    within = clipped(moved, max(0.0, noise.clip - step * math.sqrt(size) / 2))
    steps = np.rint(within / step) + np.rint(cryptographic_normals(size) * (noise.deviation / step))
    return np.asarray(received + steps * step, np.float32)


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
