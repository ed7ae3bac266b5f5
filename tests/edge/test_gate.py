"""The gate: what speaks against training, in which order, and with which memory."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.edge.gate_case import DEFAULT, FINE, NOON, changed, decide

from auricle.errors import SettingsError
from auricle.settings import from_mapping
from auricle_edge.board.gate import Closed, Decision, Gate, GateSettings, Readings, Throttling, look


@pytest.mark.parametrize(
    ("reading", "verdict", "cause", "word"),
    [
        ({"battery": 29.9}, "decline", "battery", "below 30 %"),
        ({"battery": 30.0}, "train", "", ""),
        ({"temperature": 74.9}, "train", "", ""),
        ({"temperature": 75.0}, "wait", "heat", "75.0 °C"),
        ({"temperature": 85.0}, "decline", "overheat", "85.0 °C"),
        ({"throttling": Throttling.of(0x1)}, "wait", "throttling", "under-voltage"),
        ({"throttling": Throttling.of(0xA)}, "wait", "throttling", "frequency capped, soft temperature limit"),
        ({"throttling": Throttling.of(0xF0000)}, "train", "", "Since the board started: under-voltage"),
        ({"load": 0.7}, "train", "", ""),
        ({"load": 0.71}, "wait", "load", "0.71 a core"),
        ({"memory": 64.0}, "train", "", ""),
        ({"memory": 63.0}, "wait", "memory", "63 MiB"),
        ({"speaking": True, "temperature": 90.0, "muted": True}, "decline", "mute", "muted"),
        ({"speaking": True, "power": "battery"}, "decline", "power", ""),
    ],
    ids=str,
)
def test_each_reading_has_its_verdict(reading: dict[str, Any], verdict: str, cause: str, word: str) -> None:
    decision = decide(replace(FINE, **reading), DEFAULT, NOON)
    assert (decision.gate, decision.cause) == (verdict, cause)
    assert word in decision.reason


@pytest.mark.parametrize(
    ("bits", "now"),
    [
        (0x0, ()),
        (0x50005, ("under-voltage", "throttled")),
        (0x20002, ("frequency capped",)),
        (0x80008, ("soft temperature limit",)),
        (0xFFF0FFF0, ()),
    ],
)
def test_the_firmwares_bits_have_their_meaning(bits: int, now: tuple[str, ...]) -> None:
    throttling = Throttling.of(bits)
    assert throttling.now == throttling.occurred == now


@pytest.mark.parametrize(
    ("hours", "open_", "closed"),
    [
        ((), ["12:00"], []),
        (("22:00-06:00",), ["22:00", "00:00", "05:59"], ["21:59", "06:00"]),
        (("09:00-17:00",), ["16:59"], ["17:00"]),
        (("09:00-10:00", "13:00-14:00"), ["13:30"], ["12:00"]),
        (("08:00-08:00",), ["03:00"], []),
    ],
)
def test_the_hours_are_local_and_may_go_over_midnight(
    hours: tuple[str, ...], open_: list[str], closed: list[str]
) -> None:
    for at in (*open_, *closed):
        hour, minute = map(int, at.split(":"))
        decision = decide(FINE, changed(hours=hours), NOON.replace(hour=hour, minute=minute))
        assert (decision.gate, decision.cause) == (("train", "") if at in open_ else ("decline", "hours"))


def test_what_is_not_known_does_not_close_the_gate_unless_it_is_required() -> None:
    nothing = Readings()
    assert decide(nothing, DEFAULT, NOON) == Decision(
        "train", "Nothing speaks against training. Not known: power, temperature, throttling, load, memory, network."
    )
    decision = decide(nothing, changed(required=("temperature",)), NOON)
    assert (decision.gate, decision.cause) == ("decline", "unknown")
    assert "temperature" in decision.reason


def test_the_settings_can_allow_what_is_refused() -> None:
    free = changed(on_battery=True, on_metered=True, heed_speech=False, heed_throttling=False)
    tired = replace(FINE, power="battery", network="metered", speaking=True, throttling=Throttling.of(0xF))
    assert decide(tired, free, NOON).gate == "train"
    assert decide(FINE, changed(metered="yes"), NOON).cause == "network"
    assert decide(replace(FINE, network="metered"), changed(metered="no"), NOON).gate == "train"


@pytest.mark.parametrize("hours", [["25:00-06:00"], ["22:00"], ["22:00-06:00\n"], ["7:00-8:00"]], ids=str)
def test_hours_that_are_none_are_refused(hours: list[str]) -> None:
    with pytest.raises(SettingsError, match="hours"):
        from_mapping(GateSettings, {"hours": hours}, "edge.toml: [gate]")


# -- properties


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


_NUMBER = st.floats(-50, 150, allow_nan=False)
READINGS = st.builds(
    Readings,
    power=_maybe(st.sampled_from(["mains", "battery"])),
    battery=_maybe(st.floats(0, 100)),
    temperature=_maybe(_NUMBER),
    throttling=_maybe(st.integers(0, 0xFFFFF).map(Throttling.of)),
    load=_maybe(st.floats(0, 50)),
    memory=_maybe(st.floats(0, 1e5)),
    network=_maybe(st.sampled_from(["metered", "free"])),
    speaking=st.booleans(),
    muted=st.booleans(),
)
SETTINGS = st.builds(
    GateSettings,
    on_battery=st.booleans(),
    battery_percent=st.floats(0, 100),
    hot=st.floats(-40, 120),
    too_hot=st.floats(-40, 120),
    heed_throttling=st.booleans(),
    load=st.floats(0, 10),
    free_memory=st.floats(0, 1000),
    hours=st.sampled_from([(), ("22:00-06:00",), ("09:00-17:00",)]),
    metered=st.sampled_from(["auto", "yes", "no"]),
    on_metered=st.booleans(),
    heed_speech=st.booleans(),
    required=st.sampled_from([(), ("temperature",), ("power", "load")]),
)
TIMES = st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1))
GRAVITY = ["train", "wait", "decline"]
WORSE: dict[str, Any] = {
    "power": lambda _: "battery",
    "battery": lambda v: max(0.0, v - 10),
    "temperature": lambda v: v + 10,
    "load": lambda v: v + 1,
    "memory": lambda v: max(0.0, v - 100),
    "network": lambda _: "metered",
    "speaking": lambda _: True,
    "muted": lambda _: True,
    "throttling": lambda v: Throttling(True, True, True, True, v.occurred),
}


@given(READINGS, SETTINGS, TIMES)
def test_every_decision_says_why(readings: Readings, limits: GateSettings, now: datetime) -> None:
    decision = decide(readings, limits, now)
    assert decision.gate in GRAVITY
    assert decision.reason.strip().endswith(".")
    assert bool(decision.cause) == (decision.gate != "train")
    assert decision == decide(readings, limits, now)


@given(READINGS, SETTINGS, TIMES, st.sampled_from(sorted(WORSE)))
def test_what_gets_worse_never_opens_the_gate(
    readings: Readings, limits: GateSettings, now: datetime, name: str
) -> None:
    before = getattr(readings, name)
    if before is None:
        return
    worse = replace(readings, **{name: WORSE[name](before)})
    first, second = (GRAVITY.index(decide(r, limits, now).gate) for r in (readings, worse))
    assert second >= first


@given(st.lists(READINGS, max_size=12), SETTINGS)
def test_memory_never_opens_what_the_readings_close(seen: list[Readings], limits: GateSettings) -> None:
    state = Closed()
    for second, readings in enumerate(seen):
        state, decision = look(state, readings, limits, NOON, float(second))
        plain = decide(readings, limits, NOON)
        assert GRAVITY.index(decision.gate) >= GRAVITY.index(plain.gate)
        assert decision.reason


# -- memory


def _verdicts(limits: GateSettings, seen: list[Readings], seconds: float = 5.0) -> list[str]:
    state, verdicts = Closed(), []
    for i, readings in enumerate(seen):
        state, decision = look(state, readings, limits, NOON + timedelta(seconds=i * seconds), i * seconds)
        verdicts.append(decision.gate)
    return verdicts


def test_a_device_at_its_limit_changes_its_verdict_once() -> None:
    wobble = [replace(FINE, temperature=75 + 0.4 * math.sin(i)) for i in range(100)]
    verdicts = _verdicts(DEFAULT, wobble)
    assert sum(a != b for a, b in pairwise(verdicts)) <= 1


@pytest.mark.parametrize(
    ("name", "bad", "still", "good"),
    [
        ("temperature", 75.0, 70.0, 69.9),
        ("temperature", 85.0, 80.0, 69.9),
        ("battery", 29.0, 34.9, 35.0),
        ("load", 0.71, 0.61, 0.6),
        ("memory", 63.0, 95.9, 96.0),
    ],
)
def test_the_gate_opens_only_past_a_margin(name: str, bad: float, still: float, good: float) -> None:
    seen = [replace(FINE, **{name: value}) for value in (still, bad, still, good, still)]  # type: ignore[arg-type]
    verdicts = [verdict == "train" for verdict in _verdicts(changed(settle=0), seen)]
    assert verdicts[1:4] == [False, False, True]
    if bad != 85:
        assert (verdicts[0], verdicts[4]) == (True, True)


def test_the_gate_opens_after_all_was_well_for_a_while() -> None:
    hot, unplugged = replace(FINE, temperature=80.0), replace(FINE, power="battery")
    verdicts = _verdicts(DEFAULT, [hot, *[FINE] * 3, unplugged, *[FINE] * 8])
    assert verdicts == ["wait", *["wait"] * 3, "decline", *["wait"] * 6, "train", "train"]


def test_a_running_gate_reads_its_sensors_at_every_look() -> None:
    speaks = iter([True, False])
    gate = Gate(lambda: FINE, DEFAULT, speaking=lambda: next(speaks), muted=lambda: False)
    assert gate().cause == "speech"
    assert gate.readings.speaking
    assert gate().gate == "train"
    assert gate.readings == FINE
