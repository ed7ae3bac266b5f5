"""What the rooms of a listening device hand to each other: sound, what was found in it, and a person's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.packs.manifest import SAMPLE_RATE

if TYPE_CHECKING:  # who asks for a detection holds no sound
    import numpy as np
    from numpy.typing import NDArray

RATE = SAMPLE_RATE
"""Hz of every block; what the microphone gives is resampled to it."""


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """A piece of mono sound."""

    samples: NDArray[np.int16]
    """(n,), usually 1,600 (100 ms)."""
    start: int
    """Number of its first sample since the listener began; a gap (restart, mute) moves it on by the time lost."""
    arrived: float
    """`time.monotonic()` when its last sample was read from the device."""

    @property
    def end(self) -> int:
        """Number of the first sample after it."""
        return self.start + len(self.samples)


@dataclass(frozen=True)
class Detection:
    """A keyword was heard."""

    id: str
    """12 hexadecimal digits."""
    word: str
    score: float
    """Smoothed posterior at the decision, 0 to 1."""
    model: str
    """`personal`, `plugin`, `ensemble` or `cascade`."""
    start: int
    """First sample of the window that was judged, as in `Block.start`."""
    end: int
    """First sample after that window."""
    word_end: int
    """Sample at which the word ended, by the energy of the sound."""
    at: float
    """`time.time()` of the decision."""
    latency: float
    """Seconds from the arrival of the word's last sample to the decision."""
    kind: Literal["wake", "detection"] = "detection"
    """`wake`: a wake word, which opens the window in which commands count; else a keyword that somebody acts on."""
    wake: str | None = None
    """Of a command, the id of the wake word that opened its window."""
    wake_word: str | None = None
    level: float | None = None
    """dBFS of the loudest 0.3 s of the window that was judged."""
    over_noise: float | None = None
    """Decibels by which that stands out from the noise of the room."""


@dataclass(frozen=True)
class Timeout:
    """The window after a wake word closed, and no command was heard in it."""

    wake: str
    """Id of the wake word."""
    wake_word: str
    end: int
    """First sample after the window, as in `Block.start`."""
    at: float
    """`time.time()` when it closed."""


Event = Detection | Timeout
"""What a device tells everybody who wants to know."""


class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer."""

    verdict: Literal["confirm", "deny", "missed"]
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")] | None = None
    """Of the detection that is confirmed or denied; None: the newest one, if nobody answered it yet."""
    word: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """The word that was said and missed."""
