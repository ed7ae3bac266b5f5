"""Adaptive server optimisation, FedOPT (Reddi et al., Algorithm 2, https://arxiv.org/abs/2003.00295).

The rule gives the average of the clients' models; the optimizer decides how far the global model follows it. A round in
which no client is usable does not come here: the caller keeps state and model as they are, nothing decays.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from auricle.errors import DataError, SettingsError
from auricle_learning.aggregation.cohort import Float64Array, FloatArray
from auricle_learning.aggregation.options import check_choice, check_number

KINDS = ("none", "momentum", "adagrad", "adam", "yogi")


@dataclass(frozen=True)
class OptimizerSettings:
    """Which optimizer, and its constants. The defaults are those of the paper (A2, convention i).

    Raises
    ------
    SettingsError
        The kind does not exist, or a constant is outside its range.
    """

    kind: str = "none"
    """"none" takes the average as it is (FedAvg); "momentum" is FedAvgM; the others adapt each coordinate."""
    lr: float | None = None
    """η, greater than 0. None: 1 for momentum, 0.01 for the adaptive kinds. Not used by "none"."""
    beta1: float | None = None
    """β1 in [0, 1), for momentum its β. None: 0 for adagrad, 0.9 for the others."""
    beta2: float = 0.99
    """β2 in [0, 1), for adam and yogi."""
    tau: float = 1e-3
    """τ, greater than 0, added to √v."""
    v0: float | None = None
    """First value of v, at least 0. None: τ²."""
    bias_correction: bool = False
    """Divide m by 1 - β1^t, and for adam and yogi v by 1 - β2^t. Adagrad's v is a sum and stays; "none" and momentum
    have no such correction."""

    def __post_init__(self) -> None:
        check_choice("the server optimizer's kind", self.kind, KINDS)
        check_number("lr", self.rate, above=True)
        check_number("beta1", self.first_decay, below=1.0)
        check_number("beta2", self.beta2, below=1.0)
        check_number("tau", self.tau, above=True)
        check_number("v0", self.first_v)
        if not isinstance(self.bias_correction, bool):
            raise SettingsError(f"bias_correction is {self.bias_correction!r}; it must be true or false.")

    @property
    def rate(self) -> float:
        """η with its default filled in."""
        if self.lr is not None:
            return self.lr
        return 1.0 if self.kind == "momentum" else 1e-2

    @property
    def first_decay(self) -> float:
        """β1 with its default filled in."""
        if self.beta1 is not None:
            return self.beta1
        return 0.0 if self.kind == "adagrad" else 0.9

    @property
    def first_v(self) -> float:
        """v₀ with its default filled in."""
        return self.tau * self.tau if self.v0 is None else self.v0


TORCH_ADAM = OptimizerSettings(kind="adam", lr=1e-3, beta1=0.9, beta2=0.999, tau=1e-8, v0=0.0, bias_correction=True)
"""`torch.optim.Adam` on the pseudo-gradient -Δ, as FedAudio and FedML run it (A2, convention iii)."""


@dataclass(frozen=True, eq=False)
class OptimizerState:
    """What the optimizer remembers from round to round."""

    m: Float64Array
    """(P,) first moment."""
    v: Float64Array
    """(P,) second moment."""
    step: int
    """Rounds done, without those that were skipped."""

    def to_bytes(self) -> bytes:
        """Write step (int64), m and v (float64), little-endian, one after the other: 8 + 16 P bytes."""
        return struct.pack("<q", self.step) + self.m.astype("<f8").tobytes() + self.v.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, size: int) -> OptimizerState:
        """Read what `to_bytes` wrote for a model of `size` values.

        Raises
        ------
        DataError
            The length does not fit the model, or the content cannot be a state.
        """
        expected = 8 + 16 * size
        if len(data) != expected:
            raise DataError(
                f"the server optimizer's state has {len(data)} bytes, a model of {size} values needs {expected}; "
                "it belongs to another pack or was cut short, restore an older checkpoint."
            )
        (step,) = struct.unpack_from("<q", data)
        values = np.frombuffer(data, "<f8", offset=8).astype(np.float64)
        state = cls(m=values[:size], v=values[size:], step=step)
        if step < 0 or not np.isfinite(values).all() or (state.v < 0).any():
            raise DataError("the server optimizer's state is damaged; restore an older checkpoint.")
        return state


def first_state(size: int, settings: OptimizerSettings) -> OptimizerState:
    """Begin with m₀ = 0 and v₀ for a model of `size` values."""
    return OptimizerState(m=np.zeros(size), v=np.full(size, settings.first_v, np.float64), step=0)


def step(
    state: OptimizerState, w: FloatArray, average: FloatArray, settings: OptimizerSettings
) -> tuple[OptimizerState, FloatArray]:
    """Move the global model towards the round's average, Δ = average - w.

    * none: w ← average.
    * momentum: m ← β m + Δ; w ← w + η m.
    * adaptive: m ← β1 m + (1-β1) Δ; w ← w + η m / (√v + τ), with v ← v + Δ² (adagrad), v ← β2 v + (1-β2) Δ² (adam) or
      v ← v - (1-β2) Δ² sign(v - Δ²) (yogi).

    Parameters
    ----------
    state
        Of the round before, or `first_state`.
    w
        (P,) the global model the round began with.
    average
        (P,) the rule's aggregate; its client weights are those of Δ (A3).
    settings
        The kind and its constants.

    Returns
    -------
    state, w
        New values; w (P,) in the dtype of the old one, computed in float64.

    Raises
    ------
    DataError
        State, model and average are not of the same size.
    """
    if not w.shape == average.shape == state.m.shape == state.v.shape:
        raise DataError(
            f"the server optimizer's state is for {state.m.size} values, the model has {w.size} and the average "
            f"{average.size}; begin with a fresh state for a new pack."
        )
    count = state.step + 1
    if settings.kind == "none":
        return OptimizerState(state.m, state.v, count), average.astype(w.dtype)
    before = w.astype(np.float64)
    delta = average.astype(np.float64) - before
    if settings.kind == "momentum":
        moved = OptimizerState(settings.first_decay * state.m + delta, state.v, count)
        return moved, (before + settings.rate * moved.m).astype(w.dtype)
    decay = settings.first_decay
    moved = OptimizerState(decay * state.m + (1 - decay) * delta, _second_moment(state.v, delta, settings), count)
    return moved, (before + settings.rate * _direction(moved, settings)).astype(w.dtype)


def _second_moment(v: Float64Array, delta: Float64Array, settings: OptimizerSettings) -> Float64Array:
    square = np.square(delta)
    if settings.kind == "adagrad":
        return v + square
    if settings.kind == "adam":
        return settings.beta2 * v + (1 - settings.beta2) * square
    return v - (1 - settings.beta2) * square * np.sign(v - square)


def _direction(state: OptimizerState, settings: OptimizerSettings) -> Float64Array:
    m, v = state.m, state.v
    if settings.bias_correction:
        m = m / (1 - math.pow(settings.first_decay, state.step))
        if settings.kind != "adagrad":
            v = v / (1 - math.pow(settings.beta2, state.step))
    return m / (np.sqrt(v) + settings.tau)
