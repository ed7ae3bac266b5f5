"""What is known of a clip: where its label comes from, what it weighs, and whether it is held out for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.process.times import Time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Source = Literal["unlabelled", "near", "repeated", "pseudo", "ambient", "missed", "denied", "confirmed", "enrolled"]


@dataclass(frozen=True)
class Kind:
    """What is known of all clips of a source."""

    weight: float
    """What one weighs in training, 0 to 1, where the setting `<source>_weight` of `[labels]` says nothing else."""
    judges: bool = False
    """It may be held out. A label that a model gave must not judge models."""
    labelled: bool = True
    """False: what a model heard in it is that model's guess. Only `unlabelled` are trained on, as what the fleet's
    model makes of them; words that were almost heard wait for a later model's opinion."""


SOURCES: dict[Source, Kind] = {
    "unlabelled": Kind(0.0, labelled=False),
    "near": Kind(0.0, labelled=False),
    "repeated": Kind(0.0, labelled=False),
    "pseudo": Kind(0.5),
    "ambient": Kind(0.5, judges=True),
    "missed": Kind(0.8, judges=True),
    "denied": Kind(1.0, judges=True),
    "confirmed": Kind(1.0, judges=True),
    "enrolled": Kind(1.0, judges=True),
}
"""From the least to the most valuable: quotas take from the top."""

WORDLESS = frozenset(source for source, kind in SOURCES.items() if not kind.labelled)
JUDGING = frozenset(source for source, kind in SOURCES.items() if kind.judges)


def value(source: Source) -> int:
    """The place of a source among all: a clip of a higher one is worth more."""
    return tuple(SOURCES).index(source)


ClipId = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")]
Text = Annotated[str, Meta(min_length=1, max_length=100)]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, eq=False)
class NewClip:
    """A clip to keep."""

    samples: NDArray[np.int16]
    """(n,) at 16 kHz; brought to the length of a clip of the task."""
    word: str | None
    """A label of the pack; None for `unlabelled`, `near` and `repeated`."""
    source: Source
    weight: float
    """In training, 0 to 1."""
    score: float | None = None
    """Posterior of the word, 0 to 1, where a model heard it."""
    model: str | None = None
    """That model."""
    guess: str | None = None
    """Of a clip without a label: the word that the model heard in it."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What stands in the clip's file and in the index; sealed in both where there is a key."""

    id: ClipId
    word: Text | None
    source: Source
    weight: Share
    created: float
    """`time.time()` when it was added, as the device's clock had it."""
    held_out: bool
    """Never trained on; drawn when the clip came and never changed."""
    score: Share | None = None
    model: Text | None = None
    guess: Text | None = None


class Clip(msgspec.Struct, frozen=True, kw_only=True):
    """A kept clip."""

    record: Record
    file: str
    """Name of its file."""
    bytes: int
    sha256: str
    """Of the file."""
    damaged: bool = False
    """Its file was missing or not whole when it was read: it is left out and counted."""

    @property
    def id(self) -> str:
        """12 hexadecimal digits."""
        return self.record.id


class ClipRow(msgspec.Struct, frozen=True, kw_only=True):
    """A clip as a command shows it."""

    id: str
    word: str | None
    source: str
    weight: float
    created: Time
    held_out: bool
    damaged: bool
    bytes: int
    score: float | None = None
    model: str | None = None
    guess: str | None = None


def row(clip: Clip) -> ClipRow:
    """What a command shows of a clip."""
    return ClipRow(**msgspec.structs.asdict(clip.record), damaged=clip.damaged, bytes=clip.bytes)
