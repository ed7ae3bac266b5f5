"""Every message that crosses the wire, as msgspec structs. No type here can carry audio, features or labels."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.wire.kinds import SCHEMA as SCHEMA
from auricle.wire.kinds import (
    Count,
    Decibels,
    Quarters,
    Round,
    Rounded,
    Seconds,
    Sensitivity,
    Sha256,
    Share,
    Short,
    TargetPath,
    Token,
)
from auricle.wire.kinds import Message as Message
from auricle.wire.plan import InferenceLoss, Lent, Plan
from auricle.wire.secure_sum.kinds import SumId
from auricle.wire.secure_sum.messages import SumAnswer, SumQuestion
from auricle.wire.vector_headers import LentVectors, Vectors

WORSE = "worse_"
"""What the reason of a device begins with whose own judge refused its round: it is well, and declined."""
WORSE_RECEIVED = "worse_received_"
"""What the reason of a device that trains begins with where the received plug-in is significantly worse than the best
one that it had: it takes part, and the coordinator may go back."""


class Register(Message, frozen=True, tag="register", kw_only=True):
    """A device says who it is; sent at every boot."""

    public_key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    agent: Token
    pack: Sha256
    architecture: Token
    codecs: Annotated[tuple[Token, ...], Meta(max_length=8)]
    samples: Count
    """Training clips on the device: a number, not the clips."""
    capabilities: Annotated[tuple[Token, ...], Meta(max_length=16)] = ()
    """What of a plan it can do beyond the first version."""


class Get(Message, frozen=True, tag="get", kw_only=True):
    """A device asks what is next, so that a lost invitation costs time and nothing else."""

    round: Round
    """The last round it knows of."""


class Status(Message, frozen=True, tag="status", kw_only=True):
    """Progress, or why a device does not take part."""

    task: Token
    round: Round
    state: Literal["training", "declined", "failed"]
    reason: Short = ""


class Loss(Message, frozen=True, tag="loss", kw_only=True):
    """Answer to `Measure`: the inference loss of a model on the device's training clips (FedVSA 6.1)."""

    task: Token
    round: Round
    epoch: Count
    base: Sha256
    loss: float
    samples: Count


class Update(Message, frozen=True, tag="update", kw_only=True):
    """A trained plug-in: the body is its raw tensors (or part `part` of `parts` of them)."""

    task: Token
    round: Round
    attempt: Annotated[int, Meta(ge=1, le=1 << 20)]
    epoch: Count
    base: Sha256
    """The model it started from."""
    body: Sha256
    length: Count
    codec: Token
    samples: Count
    loss: float
    """Inference loss of the received model on the training clips before training (FedVSA 6.1)."""
    part: Annotated[int, Meta(ge=0, le=4096)] = 0
    parts: Annotated[int, Meta(ge=1, le=4096)] = 1
    steps: Count = 0
    seconds: Seconds = 0.0
    personal_accuracy: Share | None = None
    """Of the local model on the device's held-out clips."""
    plugin_accuracy: Share | None = None
    """Of the received plug-in on the same clips."""
    held_out: Count = 0
    unsupervised: Count | msgspec.UnsetType = msgspec.UNSET
    """Of the samples, those of which nobody has said what they are; left out unless the plan asks for FixMatch."""
    sum: SumId | msgspec.UnsetType = msgspec.UNSET
    """The secure sum that it is a part of: its body is masked words, and of what is said beside it nothing is known.
    Left out of the message in other rounds."""
    vectors: Vectors | msgspec.UnsetType = msgspec.UNSET
    """What follows the weights in the body, in this order; left out of the message where nothing does."""


class Release(Message, frozen=True, tag="release", kw_only=True):
    """What a device runs, sent at every boot and after each step of an update: what counts as updated."""

    board: Token = ""
    """Board and system of the installed bundle; empty: the agent was not installed from one."""
    os: Token = ""
    bundle: Sha256 | None = None
    """Identity of the bundle that runs: the SHA-256 of its manifest."""
    version: Token
    """Of the bundle that runs; of the agent on a board without a bundle."""
    pack: Sha256
    """The pack that runs."""
    confirmed: bool
    """Whether what runs has passed its health check; False while it is on trial."""
    rollout: Token = ""
    """The newest rollout that the device was asked to follow."""
    state: Literal["idle", "fetching", "trial", "confirmed", "failed", "refused"] = "idle"
    """How far that rollout has come here; `failed`: the previous version runs again."""
    reason: Short = ""
    """Why it failed or was refused."""


class HearingReport(Message, frozen=True, tag="hearingreport", kw_only=True):
    """How well a device hears, in coarse figures of a period; sent only by devices whose owner has allowed it.

    The types hold nothing but steps: no moment, no text, no exact count.
    """

    period: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
    """The device's own number of the report: the same number again is the same report."""
    pack: Sha256
    """The pack that it listened with."""
    base: Sha256 | None = None
    """The fleet's model that it had received last, throughout the period; None: none, or it changed meanwhile."""
    span: Annotated[int, Meta(ge=1, le=96)]
    """Quarter hours from its beginning to its end."""
    heard: Quarters
    """Of which sound was listened to."""
    detections: Rounded
    denied: Rounded
    """Detections of which a person has said that they were wrong."""
    missed: Rounded
    """Times that a person has said that it was not heard."""
    level: Decibels | None = None
    """Median of the sound's level."""
    noise: Decibels | None = None
    """The noise floor."""
    full_scale: Literal["none", "trace", "some", "much"] = "none"
    """Share of samples at full scale: 0, below 0.1 %, below 1 %, 1 % and more."""
    offset: Literal["none", "small", "large"] | None = None
    """Distance of the sound's mean from 0, of full scale: below 0.1 %, below 1 %, 1 % and more."""
    each: Annotated[tuple[Rounded, ...], Meta(max_length=64)] = ()
    """Detections by keyword, in the pack's order; empty unless the owner has allowed it as well."""


class Invite(Message, frozen=True, tag="invite", kw_only=True):
    """Take part in a round, starting from this model."""

    task: Token
    round: Round
    epoch: Count
    base: Sha256
    ttl: Seconds
    """Seconds from now within which an update counts."""
    plan: Plan
    length: Count
    """Bytes of the model's blob, which travels in `chunks` parts under the blob topic."""
    codec: Token
    chunks: Annotated[int, Meta(ge=1, le=4096)]
    prior: Lent | msgspec.UnsetType = msgspec.UNSET
    """What it tunes its classifier by before it trains; where its owner allows it, gradients come with the update."""
    vectors: LentVectors | msgspec.UnsetType = msgspec.UNSET
    """What the method of the plan has go out with the model; left out of the message where it has nothing."""


class Measure(Message, frozen=True, tag="measure", kw_only=True):
    """Say how large the loss of this model is on your clips: the first phase of a two-phase FedVSA round."""

    task: Token
    round: Round
    epoch: Count
    base: Sha256
    length: Count
    codec: Token
    chunks: Annotated[int, Meta(ge=1, le=4096)]
    inference_loss: InferenceLoss = "ce"
    """As of `Plan`."""


class Ack(Message, frozen=True, tag="ack", kw_only=True):
    """The fate of an update, sent after it was committed."""

    task: Token
    round: Round
    attempt: Annotated[int, Meta(ge=1, le=1 << 20)]
    epoch: Count
    body: Sha256
    verdict: Short
    """accepted, duplicate, late, stale, closed, conflict, or rejected:<reason>."""
    weight: Share = 1.0
    """With `stale`: the factor by which the update counts less; 0: it was too old to count."""


class Nothing(Message, frozen=True, tag="nothing", kw_only=True):
    """Answer to `Get` and `Register`: no round for you now; or `again`: register first."""

    epoch: Count
    again: bool = False
    standing: Token = ""
    """pending, approved, quarantined, or refused; empty: nothing is said of it."""
    reason: Short = ""
    """Why, and what to do."""
    key: Token = ""
    """How the public key of the board begins that is meant, in hex; empty: of any board with the name."""


class Abort(Message, frozen=True, tag="abort", kw_only=True):
    """Stop working on this round."""

    task: Token
    round: Round
    epoch: Count
    reason: Short = ""


class Target(Message, frozen=True, tag="target", kw_only=True):
    """Install this. It only names a target: what it is, and for whom, the device takes from the signed metadata."""

    epoch: Count
    rollout: Token
    kind: Literal["bundle", "pack"]
    path: TargetPath
    identity: Sha256
    """Of the bundle or pack, so that a device that has it already says so without fetching."""


class Tune(Message, frozen=True, tag="tune", kw_only=True):
    """Hear more or less; a device whose owner refuses it says so in its `DeviceState`."""

    epoch: Count
    sensitivity: Sensitivity


class CoordinatorState(Message, frozen=True, tag="coordinator", kw_only=True):
    """Retained: whether the coordinator is there, and in which epoch."""

    online: bool
    epoch: Count


class DeviceState(Message, frozen=True, tag="device", kw_only=True):
    """Retained, and the last will: whether a device is there. A hint, never a reason to fail a round."""

    online: bool
    agent: Token = ""
    pack: Sha256 = "0" * 64
    architecture: Token = ""
    gate: Literal["train", "wait", "decline"] = "train"
    """What the device's own gate says: may it be invited now?"""
    gate_reason: Short = ""
    sensitivity: Sensitivity | None = None
    """In effect; None: the device takes none from its coordinator."""


class Model(Message, frozen=True, tag="model", kw_only=True):
    """Retained: the model that is current."""

    task: Token
    version: Count
    epoch: Count
    pack: Sha256
    pack_name: Token = ""
    """For people: what devices that run another pack are told."""
    blob: Sha256
    length: Count
    codec: Token
    chunks: Annotated[int, Meta(ge=1, le=4096)]
    ttl: Seconds


Uplink = Register | Get | Status | Loss | Update | Release | HearingReport | SumAnswer
Asked = Invite | Measure | SumQuestion
"""What a device is asked for a round."""
Downlink = Asked | Ack | Nothing | Abort | Target | Tune
Retained = CoordinatorState | DeviceState | Model
WireMessage = Uplink | Downlink | Retained
