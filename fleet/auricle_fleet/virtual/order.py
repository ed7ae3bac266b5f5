"""What a round without links is told, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from auricle.wire.messages import Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.finished import SaidLoss
from auricle_cloud.rounds.privacy import NoisyRound
from auricle_cloud.states.report import Document
from auricle_fleet.virtual.client import Answer
from auricle_fleet.virtual.clock import Heard
from auricle_fleet.virtual.model import Model
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.server_optimizer import OptimizerSettings

TASK = "keywords"


class Maker(msgspec.Struct, frozen=True):
    """What made a model, as a checkpoint keeps it."""

    origin: str
    """first, round or repair."""
    number: int = 0
    """Of the round."""
    version: int = 0
    """Of the model that the round began with."""
    before: tuple[bytes, bytes] | None = None
    """That model: its weights as they travel, and what is kept with it."""
    plan: Plan | None = None
    updates: tuple[tuple[Update, bytes], ...] | None = None
    """Those that it counted, and their bodies; None: they are not kept any more."""
    trained_from: bytes | None = None
    """Weights that its devices trained from, where the round was put onto a repaired model."""


FIRST, REPAIR = Maker("first"), Maker("repair")


@dataclass(frozen=True, eq=False)
class Judged:
    """What detection made of the model that a round began with."""

    detection: Document | None = None
    """For the round's report; None: it was not looked at."""
    losses: Mapping[str, SaidLoss] = field(default_factory=dict)
    """Said before training, by device."""
    fetched: int = 0
    """Bytes that each of these devices was sent for it."""
    seconds: float = 0.0
    """That asking for them took, of the run's clock."""
    repaired: Model | None = None
    """The model to go on from; None: the one there is."""
    barred: frozenset[str] = frozenset()
    """Devices that take no more part from now on."""


NOT_JUDGED = Judged()


@dataclass(frozen=True, eq=False)
class Order:
    """What a round is told."""

    number: int
    plan: Plan
    server: OptimizerSettings
    size: int
    """Devices to invite."""
    wanted: int
    """Answers with which it closes at once."""
    seed: int
    began: float = 0.0
    """Seconds of the run's clock."""
    version: int = 0
    newest: int = 0
    """Of the model that it begins with, and of the last one."""
    slow: Mapping[str, int] = field(default_factory=dict)
    """Devices for which it waits until its deadline if they are invited, and how many rounds running they missed."""
    broken: Mapping[str, int] = field(default_factory=dict)
    """Devices that do not count for its quorum if they are invited, and how many rounds running brought nothing."""
    drawn: tuple[str, ...] | None = None
    """Devices to invite where they are drawn; None: whoever took part least often."""
    noisy: NoisyRound | None = None
    """The noise on its devices."""
    refusal: str | None = None
    """Why it must not begin."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ended:
    """What came of a round; with no model, it was given up."""

    invited: tuple[str, ...]
    answers: Mapping[str, Answer]
    fetched: int
    """Bytes that each of these devices was sent."""
    report: dict[str, object]
    lasted: float
    """Seconds of the run's clock."""
    heard: Heard
    """Whose updates came, and whose did not count."""
    judged: Judged
    """What detection made of the model that it began with."""
    model: Model | None = None
    """The next one; None: the round was given up."""
    went_back: bool = False
    """Whether most devices found its model worse: the next round begins with the one before."""
    counted: int = 0
    left_out: int = 0
    evaluated: Flat | None = None
    """What the round is judged by in place of its model, where the rule has such weights."""
    maker: Maker | None = None
    """What made the next model, where there is detection."""
    cohort: Cohort | None = None
    """The updates that it counted; None where it was given up."""
