"""What a coordinator is told before it runs a task's rounds, and what it tells after each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auricle.errors import AuricleError
from auricle.mqtt import BrokerAddress
from auricle.tensors import Flat
from auricle_cloud.presets import PRACTICAL, Preset
from auricle_cloud.rules import get_rule


@dataclass(frozen=True)
class RunSettings:
    """What a coordinator is told before it starts."""

    fleet: str
    broker: BrokerAddress
    folder: Path
    """Database, blobs and key live here."""
    rounds: int = 10
    task: str = "keywords"
    preset: Preset = field(default=PRACTICAL)
    participation: float = 1.0
    """Share of the registered devices invited to a round."""
    quorum: float = 0.7
    """Share of the invited that is enough to close a round that has waited."""
    deadline: float = 300.0
    """Seconds after which a round closes with what it has; without a quorum it is aborted."""
    patience: float = 2.0
    """Once the quorum is in, wait this many times as long again as it took (at least `least_wait` seconds)."""
    least_wait: float = 5.0
    devices: int = 1
    """Registered devices to wait for before the first round."""
    gather: float = 120.0
    """Seconds to wait for them; then the run begins with those that are there."""
    connect_timeout: float = 30.0
    """Seconds to wait for the broker at the start; later losses are waited out."""
    seed: int = 0
    start: Flat | None = field(default=None, compare=False, repr=False)
    """(P,) weights of the first model; None: drawn from the seed."""

    def __post_init__(self) -> None:
        """Refuse what no round could be run with, and a rule that does not exist."""
        if not 0 < self.participation <= 1 or not 0 < self.quorum <= 1:
            raise AuricleError("Participation and quorum are shares: above 0, at most 1.")
        if self.rounds < 1 or not 0 < self.deadline <= 1e9:
            raise AuricleError("A run needs at least one round and a deadline above 0, at most 1e9 seconds.")
        get_rule(self.preset.rule, **self.preset.rule_options)


@dataclass(frozen=True)
class RoundDone:
    """A finished round, for whoever watches."""

    number: int
    rounds: int
    state: str
    """`published` or `aborted`."""
    model: Flat
    seconds: float
    invited: int
    counted: int
    report: dict[str, Any]
