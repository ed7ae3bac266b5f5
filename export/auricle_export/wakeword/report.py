"""What the pack of an own wake word is, how well it hears, and what it was trained on: for a page, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import msgspec

from auricle.hearing.intervals import Interval, rate_interval, share_interval
from auricle.packs.manifest import HeardAt, Hearing
from auricle.process.times import how_many
from auricle_export.voices.sources import ESPEAK
from auricle_export.wakeword.people import PeopleHearing, like, people_record
from auricle_export.wakeword.voices_sound import SourceVoices

Speaker = Literal["people", "synthetic", "recorded"]
"""Whose sound it is: recordings of people, synthetic voices, or recordings in which nobody speaks."""


@dataclass(frozen=True)
class Threshold:
    """A keyword of the pack, from which posterior on it counts, and what is heard of it there."""

    word: str
    threshold: float
    """Smoothed posterior, 0 to 1."""
    is_wake: bool = True
    """Whether it is a wake word; else a command, which counts after one."""
    hits: int | None = None
    """Detected ones of its `spoken`, in all kinds of scene together; None where that was not measured."""
    spoken: int = 0
    false_accepts: int | None = None
    """In the hours without keywords; None where that was not measured."""

    @property
    def interval(self) -> Interval | None:
        """Clopper-Pearson interval of the share of hits, 95 %."""
        return None if self.hits is None else share_interval(self.hits, self.spoken)


@dataclass(frozen=True)
class Negative:
    """Sound without the phrases that was trained on."""

    kind: str
    """`words`, `running speech`, `near words`, `languages`, `noise`, ..."""
    hours: float
    speaker: Speaker


@dataclass(frozen=True)
class TrainingSound:
    """What the pack was trained on."""

    voices: int
    """Synthetic voices that say the phrases, of all sources."""
    takes: int
    """Synthetic takes of the phrases."""
    sources: tuple[SourceVoices, ...] = ()
    """The sources of these voices and takes."""
    people: int = 0
    """People who say the phrases in recordings."""
    recordings: int = 0
    """Of these people."""
    nobody: int = 0
    """Of the recordings, those that say nowhere who speaks: each counts as one of the people."""
    near_words: tuple[str, ...] = ()
    """Texts that sound like a phrase and are none."""
    negatives: tuple[Negative, ...] = ()


@dataclass(frozen=True)
class Judges:
    """Who says the phrases in the streams that the curve was measured on; none of them was trained on."""

    voices: int = 0
    """Synthetic voices that were left out of training."""
    people: int = 0
    """People who were left out of training."""


@dataclass(frozen=True)
class Confusion:
    """A sound without the phrases that comes near one."""

    sound: str
    """Its text, or what is known of it."""
    kind: str
    posterior: float
    """The highest in any window, 0 to 1; of a text the mean over the voices that say it."""
    word: str
    """The phrase that it is mistaken for."""


@dataclass(frozen=True)
class Latency:
    """Seconds from a phrase's end to its detection."""

    median: float
    slowest: float
    """95 of 100 detections come no later."""


@dataclass(frozen=True)
class WakeReport:
    """The pack of one or more own wake words."""

    phrases: tuple[str, ...]
    pack: str
    """Path of the pack, as commands name it."""
    size: int
    """Of the pack, bytes."""
    seconds: float
    """That it took to make it, with synthesis and judging."""
    language: str
    """Of the synthetic voices, e.g. `en`."""
    rate: float
    """False accepts an hour that were asked for."""
    thresholds: tuple[Threshold, ...]
    """Of the phrases, then of the commands after them."""
    hearing: Hearing
    """The curve: hits by kind of scene over false accepts an hour, and the hours without the phrases."""
    spoken: Mapping[str, int]
    """Phrases said in each kind of scene of the curve."""
    chosen: HeardAt
    """At the thresholds of the pack."""
    false_accepts: int
    """There, in all hours without the phrases."""
    training: TrainingSound
    judges: Judges
    confusions: tuple[Confusion, ...] = ()
    """The worst first."""
    latency: Latency | None = None
    """None where nothing was detected."""
    again: str = ""
    """The command that makes the pack again; empty: with the phrases alone."""
    seed: int = 0
    attribution: tuple[str, ...] = ()
    """Whom the licences of the recordings ask to name."""
    frontend: str = ""
    """Network of the pack's own front-end, by name; empty: log-mels."""
    vote: str = ""
    """Network of its vote, by name; empty: it has no vote. Every figure is of both models together."""
    by_people: bool = False
    """Whether recordings of people alone chose the thresholds."""

    @property
    def caution(self) -> str:
        """Whose voices the figures are of, where no person was among the judges or nobody knows who; else empty."""
        nobody = (
            f"{self.training.nobody:,} takes say nowhere who speaks and count as a speaker each: one person may be "
            "among those who trained and those who judge. Name who speaks with --speaker."
        )
        if self.judges.people:
            return nobody if self.training.nobody else ""
        who = how_many(self.judges.voices, "synthetic voice")
        return (
            f"These figures are of {who} that were left out of training, and of no person: people are heard less often."
        )

    @property
    def advice(self) -> str:
        """What to do where no person said a phrase, in training or before the judges; else empty."""
        return "" if self.judges.people or self.training.people else "Add takes of people with --voices."

    @property
    def people(self) -> tuple[PeopleHearing, ...]:
        """What other packs heard of people, made as this one where there are such; nothing where people judged it."""
        voices = [each.name for each in self.training.sources if each.name != ESPEAK]
        return () if self.judges.people else like(people_record(), voices, self.frontend, self.vote)

    @property
    def threshold_sound(self) -> str:
        """On whose sound without the phrases the thresholds were chosen, in a sentence."""
        if self.by_people:
            return "It was chosen on recordings of people that train nothing."
        return (
            "It was chosen on synthetic voices and some minutes of people that the shipped packs carry, which mostly "
            "makes it stricter than people need: name recordings of people with --words and --running."
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of scene with a phrase, in the order of `spoken`."""
        return tuple(self.spoken)

    @property
    def accepts_interval(self) -> Interval:
        """Garwood's interval of the false accepts an hour at the pack's thresholds, 95 %."""
        return rate_interval(self.false_accepts, self.hearing.hours)

    def interval(self, kind: str, share: float) -> Interval:
        """Clopper-Pearson interval, 95 %, of a share of the phrases that were said in a kind of scene."""
        return share_interval(round(share * self.spoken[kind]), self.spoken[kind])

    def facts(self) -> dict[str, object]:
        """Everything as plain JSON values, with the intervals of what was measured."""
        rates = {"low": round(self.accepts_interval.low, 4), "high": round(self.accepts_interval.high, 4)}
        return {
            "phrases": list(self.phrases),
            "pack": self.pack,
            "bytes": self.size,
            "seconds": round(self.seconds, 1),
            "language": self.language,
            "rate": self.rate,
            "seed": self.seed,
            **({"vote": self.vote} if self.vote else {}),
            "thresholds": [asdict(threshold) for threshold in self.thresholds],
            "thresholds_by_people": self.by_people,
            "chosen": {**self._at(self.chosen), "false_accepts": self.false_accepts, **rates},
            "curve": [self._at(point) for point in self.hearing.curve],
            "hours": self.hearing.hours,
            "spoken": dict(self.spoken),
            "caution": self.caution,
            "people": [
                {**msgspec.structs.asdict(row), "low": round(row.interval.low, 4), "high": round(row.interval.high, 4)}
                for row in self.people
            ],
            "judged_by": {"data": self.hearing.data, **asdict(self.judges)},
            "trained_on": asdict(self.training),
            "confusions": [asdict(confusion) for confusion in self.confusions],
            "latency": None if self.latency is None else asdict(self.latency),
            "attribution": list(self.attribution),
        }

    def _at(self, point: HeardAt) -> dict[str, object]:
        hits = {}
        for kind, share in point.hits.items():
            interval = self.interval(kind, share)
            hits[kind] = {"share": share, "low": round(interval.low, 4), "high": round(interval.high, 4)}
        return {"false_accepts_per_hour": point.false_accepts_per_hour, "hits": hits}
