"""What a device keeps between rounds, and what comes out of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.wire.tensors import Flat


@dataclass(frozen=True)
class LocalState:
    """What a device keeps between rounds: its own model, and the optimizers' state."""

    weights: Flat
    """(Q,) the local model."""
    slots: Mapping[str, Flat] = field(default_factory=dict)
    """Optimizer vectors by `model.slot`; empty at first or when the plan does not keep them."""
    steps: int = 0
    """Steps the kept optimizer state has seen."""
    variates: Mapping[str, Flat] = field(default_factory=dict)
    """What the round's method keeps, by `method.name`, and in a run without links what the codec left out of updates;
    empty without either."""

    @property
    def nbytes(self) -> int:
        """Bytes of all its vectors."""
        return self.weights.nbytes + sum(kept.nbytes for kept in (*self.slots.values(), *self.variates.values()))


@dataclass(frozen=True)
class RoundResult:
    """What came out of a round on one device."""

    plugin: Flat
    """(P,) the plug-in as it travels."""
    local: LocalState
    loss: float
    """Inference loss of the received plug-in on the training clips, before training."""
    steps: int
    """Local steps on the plug-in, or on the device's own model where only that is trained."""
    seconds: float
    samples: int
    """Clips that were trained on: labelled ones, and the others where the plan asks for FixMatch."""
    personal_accuracy: float | None
    """Of the device's own model, or else of the plug-in as it was trained, on the clips that are never trained on."""
    plugin_accuracy: float | None
    """Of the received plug-in, on the same clips."""
    held_out: int
    sure: int = 0
    """Clips without labels of which the received plug-in was sure."""
    unsupervised: int | None = None
    """Those without labels among the samples, where the plan asks for FixMatch."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """What travels beside the weights, by name."""
    trained: Flat | None = None
    """(P,) the plug-in as it was trained, where that is not what travels."""
    recognised: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """(H,) labels that models give the clips that are never trained on: `received`, the plug-in as it came, `own`, the
    model that `personal_accuracy` is of, and `trained`, the plug-in as it was trained, where that is the same model."""
