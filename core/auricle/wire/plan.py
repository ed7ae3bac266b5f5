"""How a device trains in a round, as its coordinator says it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.wire.kinds import Count, Name, Sha256, Share, Token
from auricle.wire.secure_sum.kinds import SumId

NOISE = "noise"
"""The capability of a device that heeds `Plan.noise`; who does not name it is never sent a plan with noise."""
SECURE_SUM = "secure-sum"
"""That of one that heeds `Plan.secure_sum`."""
FIXMATCH = "fixmatch"
"""That of one that heeds `Plan.fixmatch`."""
BAVD = "bavd"
"""That of one that heeds `Plan.bavd`."""
METHODS = "methods"
"""That of one that heeds `Plan.method` and `Invite.vectors`; one that does not know the method declines."""


InferenceLoss = Literal["ce", "mse", "l1"]
"""What devices say of a received model: cross-entropy; or squares or amounts of posteriors less one-hot labels."""


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device does to its update before it leaves: clip its norm, add Gaussian noise (docs/privacy.md)."""

    clip: Annotated[float, Meta(gt=0, le=1e6)]
    """Largest Euclidean norm of an update, w_k - w^t; a larger one is scaled down to it."""
    deviation: Annotated[float, Meta(ge=0, le=1e6)]
    """Standard deviation of the noise that is added to each of its values."""


class SecureSum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a device hides its update in a sum of many (docs/privacy.md)."""

    id: SumId
    bound: Annotated[float, Meta(gt=0, le=1e8)]
    """Values of w_k - w^t are cut to it, and rounded to whole steps of bound / 32767."""


class FixMatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a device learns from clips without labels (FedRPO; docs/algorithms.md, section 5)."""

    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.7
    """Posterior from which the received model is believed, tau."""
    weight: Annotated[float, Meta(gt=0, le=100)] = 1.0
    """Of the loss on clips without labels, lambda."""


class Bavd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a device drops activations while it trains (MuPFL; docs/algorithms.md, section 4.1)."""

    maps: bool = False
    """Whether the plug-in's last maps travel with its update (docs/privacy.md)."""


Option = bool | Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | float | Name
"""A value of a method's option."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a device trains in a round. Defaults are those of FedMLAC (ALGORITHMS 3.1).

    What has its default is left out of the message: a field that a fleet does not use locks out no older device.
    """

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
    inference_loss: InferenceLoss = "ce"
    """The loss of the received model that devices say; a plan without it, as of an older coordinator, means ce."""
    augment: bool = False
    """On-device augmentation: shift, gain, background noise, SpecAugment."""
    codec: Token = "float32"
    seed: Count = 0
    method: Name | Literal[""] = ""
    """The method whose half of a round devices run (docs/methods.md); empty: none, they train as the rest says."""
    options: Annotated[dict[Name, Option], Meta(max_length=12)] = {}
    """That method's, all that have a value."""
    since: Name | Literal[""] = ""
    """The version from which on agents know the method, for the sentence of one that does not."""
    fixmatch: FixMatch | msgspec.UnsetType = msgspec.UNSET
    """Devices learn from clips without labels, too, and those that have no others take part; left out where the
    coordinator does not ask for it."""
    bavd: Bavd | msgspec.UnsetType = msgspec.UNSET
    """Activations are dropped where their map says so; left out of the message where they are not. The pack's step
    graphs need the maps."""
    noise: Noise | msgspec.UnsetType = msgspec.UNSET
    """Clipping and noise on the device; left out of the message where the plan has neither, as by older versions."""
    secure_sum: SecureSum | msgspec.UnsetType = msgspec.UNSET
    """Only the sum of all updates becomes known; left out where the round has none."""


LARGEST_BLOB = 16 << 20
"""Most bytes of a model, or of anything else that the broker keeps for devices."""


class Lent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something beside the model that the broker keeps in chunks while a round is open."""

    blob: Sha256
    length: Annotated[int, Meta(ge=1, le=LARGEST_BLOB)]
    chunks: Annotated[int, Meta(ge=1, le=4096)]
