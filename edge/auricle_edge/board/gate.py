"""Whether the device trains now: a pure function of what its sensors say, and the reason in one sentence.

`decline`: what speaks against it does not pass within a round (muted, on its battery, outside of the hours). `wait`: it
soon may (heat, load, speech). docs/gate.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from auricle.process.clock import SYSTEM_CLOCK, Clock

GateState = Literal["train", "wait", "decline"]
Sensor = Literal["power", "battery", "temperature", "throttling", "load", "memory", "network"]
Window = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d\Z", max_length=11)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Celsius = Annotated[float, Meta(ge=-40, le=125)]
Share = Annotated[float, Meta(ge=0, le=100)]
Margin = Annotated[float, Meta(ge=0, le=100)]
MiB = Annotated[float, Meta(ge=0, le=1 << 20)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]

PROMPT = frozenset({"speech", "mute", "hours"})
"""Causes that end at once: nothing there hovers at a limit."""
BEFORE_ANY_CLOCK = 2024
"""A year before this one: the board has no battery clock and was not told the time yet."""


class GateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When the device may train: table `[gate]`."""

    on_battery: bool = False
    """Whether it trains without mains power."""
    battery_percent: Percent = 30.0
    """Least charge of a battery, plugged in or not."""
    hot: Celsius = 75.0
    """Degrees Celsius from which training waits."""
    too_hot: Celsius = 85.0
    """Degrees Celsius from which a round is given up."""
    heed_throttling: bool = True
    """Whether training waits while the board is slowed down by heat or by a weak supply."""
    load: Share = 0.7
    """Most load by others for each core, over the last minute; above it training waits."""
    free_memory: MiB = 64.0
    """Least free memory; below it training waits."""
    hours: Annotated[tuple[Window, ...], Meta(max_length=8)] = ()
    """Local times in which it trains, `22:00-06:00`, the end not included; none: always."""
    metered: Literal["auto", "yes", "no"] = "auto"
    """Whether the network costs by volume; `auto`: what kind of network it is and what NetworkManager knows."""
    on_metered: bool = False
    """Whether it trains over a network that costs by volume."""
    heed_speech: bool = True
    """Whether training pauses while somebody speaks."""
    required: Annotated[tuple[Sensor, ...], Meta(max_length=7)] = ()
    """Sensors without which it declines; one that is not named here and cannot be read is passed over."""
    zones: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=16)] = ()
    """Patterns of thermal zones' types, `cpu*`; none: those of the processor where there are some."""
    cooler: Margin = 5.0
    """After heat: so many degrees below the limit before training goes on."""
    charged: Margin = 5.0
    """After a low battery: so many percent above the limit."""
    calmer: Share = 0.1
    """After a high load: so much below the limit."""
    roomier: MiB = 32.0
    """After too little memory: so many MiB above the limit."""
    settle: Seconds = 30.0
    """Seconds that nothing spoke against training before it goes on; not after speech, mute and hours."""


@dataclass(frozen=True)
class Throttling:
    """What a Raspberry Pi's firmware says about its supply and heat."""

    under_voltage: bool = False
    capped: bool = False
    throttled: bool = False
    soft_limit: bool = False
    occurred: tuple[str, ...] = ()
    """What happened since the board started."""

    NAMES = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")

    @classmethod
    def of(cls, bits: int) -> Throttling:
        """By the bits of `vcgencmd get_throttled`: 0 to 3 now, 16 to 19 since the start, others mean nothing here."""
        occurred = tuple(name for i, name in enumerate(cls.NAMES) if bits >> (16 + i) & 1)
        return cls(bool(bits & 1), bool(bits & 2), bool(bits & 4), bool(bits & 8), occurred)

    @property
    def now(self) -> tuple[str, ...]:
        """What slows the board down at this moment."""
        states = (self.under_voltage, self.capped, self.throttled, self.soft_limit)
        return tuple(name for name, on in zip(self.NAMES, states, strict=True) if on)


@dataclass(frozen=True)
class Readings:
    """What the sensors say; None: not known."""

    power: Literal["mains", "battery"] | None = None
    battery: float | None = None
    """Percent; the lowest of several."""
    temperature: float | None = None
    """Degrees Celsius; the highest of the zones that count."""
    throttling: Throttling | None = None
    load: float | None = None
    """Load by others for each core, over the last minute."""
    memory: float | None = None
    """MiB that can be had without swapping."""
    network: Literal["metered", "free"] | None = None
    speaking: bool = False
    muted: bool = False
    problems: tuple[str, ...] = ()
    """A sentence for each sensor that is there and cannot be believed."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The sensors that said nothing; a battery is missed only by what runs on one."""
        silent = (name for name in get_args(Sensor) if getattr(self, name) is None)
        return tuple(name for name in silent if name != "battery" or self.power == "battery")


@dataclass(frozen=True)
class Decision:
    """The gate's answer."""

    gate: GateState
    reason: str
    """One sentence or two."""
    cause: str = ""
    """What decided, in one word: `heat`; empty when nothing speaks against training."""


def _gravest(found: tuple[Decision, ...], readings: Readings) -> Decision:
    """The gravest objection; among equals the first one."""
    for state in ("decline", "wait"):
        for objection in found:
            if objection.gate == state:
                return objection
    reason = "Nothing speaks against training."
    if readings.unknown:
        reason += f" Not known: {', '.join(readings.unknown)}."
    if readings.throttling is not None and readings.throttling.occurred:
        reason += f" Since the board started: {', '.join(readings.throttling.occurred)}."
    return Decision("train", reason)


def _objections(r: Readings, s: GateSettings, now: datetime) -> Iterator[Decision]:
    """Everything that speaks against training, in the order in which a person would want to hear it."""
    if r.muted:
        yield Decision("decline", "The microphone is muted.", "mute")
    yield from _hours(s.hours, now)
    for name in s.required:
        if getattr(r, name) is None:
            yield Decision("decline", f"The settings require the sensor {name}, which cannot be read.", "unknown")
    if r.power == "battery" and not s.on_battery:
        yield Decision("decline", "It runs on its battery.", "power")
    if r.battery is not None and r.battery < s.battery_percent:
        yield Decision("decline", f"The battery is at {r.battery:.0f} %, below {s.battery_percent:.0f} %.", "battery")
    metered = s.metered == "yes" or (s.metered == "auto" and r.network == "metered")
    if metered and not s.on_metered:
        yield Decision("decline", "The network costs by volume.", "network")
    yield from _heat(r, s)
    if r.load is not None and r.load > s.load:
        yield Decision("wait", f"The load by others is {r.load:.2f} a core, more than {s.load:.2f}.", "load")
    if r.memory is not None and r.memory < s.free_memory:
        yield Decision("wait", f"{r.memory:.0f} MiB of memory are free, fewer than {s.free_memory:.0f}.", "memory")
    if r.speaking and s.heed_speech:
        yield Decision("wait", "Somebody speaks.", "speech")


def _heat(r: Readings, s: GateSettings) -> Iterator[Decision]:
    if r.temperature is not None:
        warm = f"The processor is at {r.temperature:.1f} °C"
        if r.temperature >= s.too_hot:
            yield Decision("decline", f"{warm}, with {s.too_hot:.1f} °C as the most for a round.", "overheat")
        if r.temperature >= s.hot:
            yield Decision("wait", f"{warm}, with a limit of {s.hot:.1f} °C.", "heat")
    if s.heed_throttling and r.throttling is not None and r.throttling.now:
        yield Decision("wait", f"The board is slowed down: {', '.join(r.throttling.now)}.", "throttling")


def _hours(hours: tuple[str, ...], now: datetime) -> Iterator[Decision]:
    if not hours:
        return
    if now.year < BEFORE_ANY_CLOCK:
        yield Decision("decline", "The clock is not set, so its training hours are not known.", "hours")
        return
    time_of_day = now.strftime("%H:%M")
    if not any(_within(time_of_day, *window.split("-")) for window in hours):
        yield Decision("decline", f"It is {time_of_day}, and it trains in {', '.join(hours)}.", "hours")


def _within(at: str, start: str, end: str) -> bool:
    """Whether a time lies in a window, which may go over midnight; from a time to the same one: always."""
    return start <= at < end if start < end else at >= start or at < end


@dataclass(frozen=True)
class Closed:
    """What the gate remembers from one look to the next, so that a device at a limit does not flap."""

    causes: frozenset[str] = frozenset()
    """Why it is closed; these have to be better than their limits by a margin before it opens."""
    last: str = ""
    """The cause it told last."""
    ended: float | None = None
    """When the last of them was gone."""


def tighten(s: GateSettings, causes: frozenset[str]) -> GateSettings:
    """The settings with a margin on what closed the gate."""
    changes = {
        "heat": {"hot": s.hot - s.cooler},
        "overheat": {"too_hot": s.too_hot - s.cooler},
        "battery": {"battery_percent": min(100.0, s.battery_percent + s.charged)},
        "load": {"load": max(0.0, s.load - s.calmer)},
        "memory": {"free_memory": s.free_memory + s.roomier},
    }
    chosen = {name: value for cause in causes & changes.keys() for name, value in changes[cause].items()}
    return msgspec.structs.replace(s, **chosen)


def look(
    state: Closed, readings: Readings, settings: GateSettings, now: datetime, clock: float
) -> tuple[Closed, Decision]:
    """One look at the readings: the gravest objection decides, and what closed the gate is remembered.

    Parameters
    ----------
    now
        Local time.
    clock
        Seconds of a clock that never jumps.
    """
    found = tuple(_objections(readings, tighten(settings, state.causes), now))
    lasting = frozenset(o.cause for o in found) - PROMPT
    decision = _gravest(found, readings)
    if lasting:
        last = next(o.cause for o in found if o.cause in lasting)
        return Closed(lasting, last), decision
    if not state.causes:
        return state, decision
    ended = clock if state.ended is None else state.ended
    if clock - ended >= settings.settle:
        return Closed(), decision
    if not found:
        decision = Decision("wait", f"What it waited for ({state.last}) is only just over.", state.last)
    return Closed(state.causes, state.last, ended), decision


class Gate:
    """The gate of a running device: reads its sensors and decides, once for each call.

    Parameters
    ----------
    read
        Reads the sensors, as `auricle_edge.board.sensors.Sensors` does.
    settings
        Its limits.
    speaking, muted
        Whether somebody speaks now, and whether the microphone is muted.
    clock
        Whom it asks for the time.
    """

    def __init__(
        self,
        read: Callable[[], Readings],
        settings: GateSettings,
        *,
        speaking: Callable[[], bool] = lambda: False,
        muted: Callable[[], bool] = lambda: False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings, self.readings = settings, Readings()
        self._read, self._speaking, self._muted, self._clock = read, speaking, muted, clock
        self._state = Closed()

    def __call__(self) -> Decision:
        """Look once; `readings` then has what was seen."""
        self.readings = replace(self._read(), speaking=self._speaking(), muted=self._muted())
        now = datetime.fromtimestamp(self._clock.now())
        self._state, decision = look(self._state, self.readings, self.settings, now, self._clock.monotonic())
        return decision
