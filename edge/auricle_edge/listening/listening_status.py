"""What a listening device says of itself at a moment: values, without NumPy, which who asks for them does not need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["open", "asleep", "awake"]


@dataclass(frozen=True)
class CaptureState:
    """A moment of `Capture`."""

    running: bool = False
    """A child is delivering sound."""
    muted: bool = False
    mute_reason: str = ""
    """Who muted, while muted."""
    device: str | None = None
    native_rate: int | None = None
    """Hz at which the device was opened."""
    channels: int | None = None
    restarts: Mapping[str, int] = field(default_factory=dict)
    """How often the child was restarted, by reason."""
    problem: str | None = None
    """The last fault in a sentence, until sound comes again; or that it comes at another pace than its rate."""
    pace: float | None = None
    """How many times as much sound comes as rate and channels say; None while that fits."""
    note: str | None = None
    """What to know of the device's channels: opposite ones, or more than two of which none was chosen."""
    frames: int = 0
    """Sample frames taken in at the native rate."""
    dropped: int = 0
    """Sample frames that were read but dropped, since the listener was too slow."""
    overruns: int = 0
    """How often the driver lost sound before it was read, or the writer of a FIFO paused."""
    lost_seconds: float = 0.0
    """Time without sound through faults; mute does not count."""
    last_progress: float | None = None
    """`time.monotonic()` when the newest sound was read from the device."""
    level_dbfs: float | None = None
    """Of the last half second."""
    clipping: float = 0.0
    """Share of samples at full scale over ten seconds."""
    noise_floor_dbfs: float | None = None
    """Level of the quietest tenth of the last ten seconds; this and what follows as the device gave it, unfiltered."""
    dc_offset: float | None = None
    """Mean of the samples as a share of full scale."""
    hum_share: float | None = None
    """Share of the power of the quietest of the last ten seconds that is hum of the mains."""
    hum_hz: int | None = None
    """50 or 60, whichever is more."""


@dataclass(frozen=True)
class DetectFigures:
    """Since the detector was made."""

    hours: float
    """Of sound heard."""
    detections: int
    by_word: Mapping[str, int]
    detections_per_hour: float
    denied: int
    """Detections that the user denied."""
    denied_per_hour: float
    """At least so many false accepts an hour: nobody denies all of them."""
    wakes: int
    """Detections that were wake words."""
    timeouts: int
    """Windows after a wake word that closed without a command."""
    latency_p50: float | None
    """Seconds from the arrival of the word's last sample to the decision, median of the last thousand detections."""
    latency_p95: float | None
    real_time_factor: float
    """CPU seconds of detection a second of sound."""
    windows: int
    """Windows that a model judged."""
    second_windows: int
    """Windows that the second stage judged as well."""
    second_share: float
    """Share of the judged windows that reached the second stage: what it costs."""
    open_share: float
    """Share of the hops in which the gate was open."""
