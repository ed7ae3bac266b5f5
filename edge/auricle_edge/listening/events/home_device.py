"""What a home is told of a device, and may do to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from auricle import __version__
from auricle.wire.kinds import DeviceId


@dataclass(frozen=True)
class Figures:
    """Of a board; None: not known."""

    temperature: float | None = None
    """Degrees Celsius."""
    memory: float | None = None
    """MiB that are free."""
    disk: float | None = None
    """MiB that are free where the device keeps its clips."""


@dataclass(frozen=True)
class HomeState:
    """What the home is told of a device beside its events."""

    muted: bool = False
    level: float | None = None
    """dBFS of the last half second; None while nothing is heard."""
    word: str | None = None
    """The last word that it answered."""
    rounds: int = 0
    """Rounds that it trained since its start."""
    pack: str = ""
    """Name and beginning of the identity."""
    version: str = __version__
    """Of the bundle that runs, or of the package."""
    latest: str = ""
    """A newer version, or the name of a rollout; empty: nothing is newer."""
    installing: bool = False
    """Whether that is on its way."""
    reason: str = ""
    """Why that waits, or has failed."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Of the words that count while it waits."""
    connected: bool | None = None
    """Whether its fleet's broker is reached; None: it has no fleet."""
    fleet: str = ""
    """A sentence about its fleet, and what became of its last round."""
    model: str = ""
    """What listens."""
    model_reason: str = ""
    """Why, and so whether rounds have made it better."""
    problem: str | None = None
    """What keeps it from its work, in a sentence."""
    figures: Figures = Figures()


@dataclass(frozen=True)
class HomeDevice:
    """A device at the home's broker."""

    name: DeviceId
    model: str
    """Name of its pack."""
    keywords: Sequence[str]
    """Every word that it may hear."""
    state: Callable[[], HomeState]
    """How it is now; the last word is known here."""
    mute: Callable[[bool], object]
    """Closes or opens the microphone; from a thread of its own."""
    wake: Sequence[str] = ()
    """Those of the keywords that are wake words."""
    set_threshold: Callable[[str, float], object] = lambda word, threshold: None
    """Sets the threshold of a word; from a thread of its own."""
    install: Callable[[], Awaitable[None]] | None = None
    """Installs what is newer; None: that is not for the home to say."""
    buttons: bool = False
    """Whether a press of a button is an answer to the newest detection."""
    mac: str | None = None
    """By which the home knows its satellite, so that both are one device there; None: it is none."""
