"""What the listening bench states: a `Fleet` for each seed and share of answers; later runs go on with its JSON."""

from __future__ import annotations

import msgspec

PLUGIN, DEVICE = "plug-in", "as it listens"
"""The two listeners: the plug-in alone; plug-in and own model as the device combines them."""
SIDES = ("before", "after")


class AtRate(msgspec.Struct, frozen=True):
    """Hits at a fixed number of false accepts an hour of all devices together."""

    rate: float
    share: float
    low: float
    high: float
    """95 % interval of the share (Clopper-Pearson, words taken as independent)."""
    shown: bool
    """Whether there are hours enough for such a rate."""


class AtThresholds(msgspec.Struct, frozen=True):
    """What devices hear at fixed thresholds: the pack's, or those that they listen with."""

    hits: int
    words: int
    wrong: int
    """Detections among keywords that are no hits."""
    false_accepts: dict[str, int]
    """By kind of sound without keywords."""
    hours: dict[str, float]
    latency_p50: float | None
    """Seconds from a word's end to its detection; None without hits."""

    @property
    def share(self) -> float:
        """Of the words that were heard."""
        return self.hits / self.words

    @property
    def accepts(self) -> int:
        """False accepts in all sound without keywords."""
        return sum(self.false_accepts.values())

    @property
    def per_hour(self) -> float:
        """False accepts an hour in all sound without keywords."""
        return self.accepts / sum(self.hours.values())


class Side(msgspec.Struct, frozen=True):
    """One listener before or after the rounds."""

    when: str
    """One of `SIDES`."""
    listener: str
    """`PLUGIN` or `DEVICE`."""
    models: dict[str, int]
    """How many devices listen with what."""
    points: tuple[AtRate, ...]
    by_kind: dict[str, tuple[float, ...]]
    """Hits at the same rates, by kind of scene."""
    owners: dict[str, tuple[float, ...]]
    """The same by owner, at the thresholds at which all devices together have that rate."""
    kept: AtThresholds


class Day(msgspec.Struct, frozen=True):
    """A day: what its owners met, and the same devices on the sound that judges, at the thresholds of then."""

    day: int
    """From 1; the one after the last is the end."""
    after_rounds: int
    words: int
    hits: int
    false_accepts: int
    hours: float
    """Of the day itself; 0 at the end, after which there is no day."""
    judged: dict[str, AtThresholds]
    """By listener."""


class RoundOf(msgspec.Struct, frozen=True):
    """A round, and the plug-in that it published on the sound of the first owners, at the pack's thresholds."""

    number: int
    """0: the start."""
    state: str
    invited: int
    counted: int
    refused: int
    seconds: float
    judged: AtThresholds


class Cost(msgspec.Struct, frozen=True):
    """Seconds by the clock and of CPU time in this process, by phase, and the machine's load."""

    wall: dict[str, float]
    cpu: dict[str, float]
    load_before: float
    load_after: float
    """Processes that want to run, mean of a minute."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked for, but for its seeds and shares of answers."""

    pack: str
    """Its name and the beginning of its identity."""
    owners: int
    days: int
    rounds: int
    day_minutes: float
    minutes: float
    passes: int
    judge: str
    judge_minutes: float
    preset: str
    server_rate: float | None
    local: str
    """The devices' own model."""
    carried: float = 0.5
    """Weight of the pack's negatives in what they trained on."""


class Fleet(msgspec.Struct, frozen=True):
    """All about one fleet."""

    asked: Asked
    seed: int
    answers: float
    owners: tuple[str, ...]
    answered: dict[str, int]
    """What became of enrolments, detections and misses, by the label they gave."""
    heard: dict[str, float]
    """Minutes of different recordings that the days are made of, by kind."""
    judged_by: dict[str, float]
    """The same of the sound that judges."""
    sides: tuple[Side, ...]
    by_day: tuple[Day, ...]
    by_round: tuple[RoundOf, ...]
    cost: Cost

    def side(self, when: str, listener: str) -> Side:
        """The one with this name."""
        return next(side for side in self.sides if (side.when, side.listener) == (when, listener))


class Result(msgspec.Struct, frozen=True):
    """All fleets of a run."""

    command: str
    fleets: tuple[Fleet, ...]
