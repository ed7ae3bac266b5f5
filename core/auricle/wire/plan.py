"""How a device trains in a round, as its coordinator says it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.wire.kinds import Count, Share, Token


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a device trains in a round. Defaults are those of FedMLAC (ALGORITHMS 3.1)."""

    mode: Literal["mutual", "supervised"] = "mutual"
    """Mutual learning of local model and plug-in, or the plug-in alone on labels (the FedAvg baseline)."""
    epochs: Annotated[int, Meta(ge=1, le=1000)] = 1
    optimizer: Literal["sgd", "adamw", "mixed"] = msgspec.field(default="sgd", name="optimiser")
    """`mixed`: AdamW for the local model, plain SGD for the plug-in."""
    rate: Annotated[float, Meta(gt=0, le=10)] = 0.01
    """Learning rate of the plug-in."""
    local_rate: Annotated[float, Meta(gt=0, le=10)] = 0.01
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    decay: Annotated[float, Meta(ge=0, le=1)] = 0.0
    clip: Annotated[float, Meta(ge=0)] = 0.0
    """Largest norm of a gradient; 0: no limit."""
    alpha: Share = 0.5
    """Weight of the labels in the local model's loss (A4)."""
    plugin_ce: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """Weight of the labels in the plug-in's loss (A5: none in the paper)."""
    order: Literal["simultaneous", "alternating"] = "simultaneous"
    """Mutual learning: both models from one pass of each, or the plug-in from the local model's new weights (A6)."""
    temperature: Annotated[float, Meta(ge=0.1, le=100)] = 1.0
    """Divides the logits that teacher and student compare in mutual learning (A4: 1, the paper has none)."""
    mu: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """Pull of the plug-in towards the received one: the proximal term of FedProx."""
    prior: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Strength of the logit adjustment by the device's own label frequencies while the plug-in trains; 0: none."""
    keep_state: bool = False
    """Whether the optimizers' states, of local model and plug-in, live on between a device's rounds."""
    augment: bool = False
    """On-device augmentation: shift, gain, background noise, SpecAugment."""
    codec: Token = "float32"
    seed: Count = 0
