"""The gate's limits, sentences and memory, one value at a time; `test_gate` has its properties."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import pytest
from tests.edge.gate_case import DEFAULT, FINE, NOON, changed, decide

from auricle.errors import SettingsError
from auricle.process.clock import VirtualClock
from auricle.settings import from_mapping
from auricle_edge.board.gate import Closed, Decision, Gate, GateSettings, Readings, Throttling, look, tighten


def test_the_limits_are_those_of_the_documentation() -> None:
    assert msgspec.structs.asdict(DEFAULT) == dict(
        zip(
            GateSettings.__struct_fields__,
            (False, 30, 75, 85, True, 0.7, 64, (), "auto", False, True, (), (), 5, 5, 0.1, 32, 30),
            strict=True,
        )
    )


PERCENT, DEGREES, MEBIBYTES = (0, 100), (-40, 125), (0, 2**20)
BOUNDS = {
    **dict.fromkeys(("battery_percent", "load", "cooler", "charged", "calmer"), PERCENT),
    **dict.fromkeys(("hot", "too_hot"), DEGREES),
    **dict.fromkeys(("free_memory", "roomier"), MEBIBYTES),
    "settle": (0, 86_400),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_lies_between_its_bounds(name: str) -> None:
    least, most = BOUNDS[name]
    for value in (least, most):
        assert getattr(from_mapping(GateSettings, {name: value}, "edge.toml: [gate]"), name) == value
    for value in (least - 0.5, most + 0.5):
        with pytest.raises(SettingsError, match=name):
            from_mapping(GateSettings, {name: value}, "edge.toml: [gate]")


@pytest.mark.parametrize(
    ("name", "most", "more"),
    [
        ("hours", ["22:00-06:00"] * 8, ["22:00-06:00"] * 9),
        ("required", ["power"] * 7, ["power"] * 8),
        ("zones", ["cpu*"] * 16, ["cpu*"] * 17),
        ("zones", ["z" * 64], ["z" * 65]),
    ],
    ids=["hours", "required", "zones", "letters"],
)
def test_a_list_and_a_zones_pattern_are_no_longer_than_they_need_be(name: str, most: Any, more: Any) -> None:
    assert getattr(from_mapping(GateSettings, {name: most}, "here"), name) == tuple(most)
    with pytest.raises(SettingsError, match=name):
        from_mapping(GateSettings, {name: more}, "here")


def test_what_no_sensor_said_is_not_assumed() -> None:
    assert Throttling() == Throttling(False, False, False, False, ())
    assert Readings() == Readings(None, None, None, None, None, None, None, False, False, ())
    assert Closed() == Closed(frozenset(), "", None)


def test_each_bit_of_the_firmware_is_one_state() -> None:
    assert [Throttling.of(1 << i) for i in range(4)] == [
        Throttling(**{name: True}) for name in ("under_voltage", "capped", "throttled", "soft_limit")
    ]
    words = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")
    assert [Throttling.of(1 << i).occurred for i in range(15, 21)] == [(), *((word,) for word in words), ()]


def test_a_battery_is_missed_by_what_runs_on_one() -> None:
    others = ("temperature", "throttling", "load", "memory", "network")
    assert Readings(power="battery").unknown == ("battery", *others)
    assert Readings(power="mains").unknown == others
    assert FINE.unknown == ()


HOURS = ("22:00-06:00", "07:00-08:00")
REASONS: list[tuple[dict[str, Any], dict[str, Any], tuple[Any, str, str]]] = [
    ({"muted": True}, {}, ("decline", "The microphone is muted.", "mute")),
    ({}, {"hours": HOURS}, ("decline", f"It is 12:00, and it trains in {', '.join(HOURS)}.", "hours")),
    (
        {"load": None},
        {"required": ("load",)},
        ("decline", "The settings require the sensor load, which cannot be read.", "unknown"),
    ),
    ({"power": "battery"}, {}, ("decline", "It runs on its battery.", "power")),
    ({"battery": 12.4}, {}, ("decline", "The battery is at 12 %, below 30 %.", "battery")),
    ({"network": "metered"}, {}, ("decline", "The network costs by volume.", "network")),
    (
        {"temperature": 85.04},
        {},
        ("decline", "The processor is at 85.0 °C, with 85.0 °C as the most for a round.", "overheat"),
    ),
    ({"temperature": 76.0}, {}, ("wait", "The processor is at 76.0 °C, with a limit of 75.0 °C.", "heat")),
    (
        {"throttling": Throttling(capped=True)},
        {},
        ("wait", "The board is slowed down: frequency capped.", "throttling"),
    ),
    ({"load": 1.25}, {}, ("wait", "The load by others is 1.25 a core, more than 0.70.", "load")),
    ({"memory": 12.0}, {}, ("wait", "12 MiB of memory are free, fewer than 64.", "memory")),
    ({"speaking": True}, {}, ("wait", "Somebody speaks.", "speech")),
    (
        {"throttling": Throttling(occurred=("throttled",))},
        {},
        ("train", "Nothing speaks against training. Since the board started: throttled.", ""),
    ),
    ({}, {}, ("train", "Nothing speaks against training.", "")),
]


@pytest.mark.parametrize(
    ("reading", "changes", "expected"), REASONS, ids=[reason[2][2] or "none" for reason in REASONS]
)
def test_a_decision_says_its_reason(
    reading: dict[str, Any], changes: dict[str, Any], expected: tuple[Any, str, str]
) -> None:
    assert decide(replace(FINE, **reading), changed(**changes), NOON) == Decision(*expected)


def test_the_gravest_comes_first_and_among_equals_the_first() -> None:
    seen = replace(FINE, speaking=True, memory=1.0, load=9.0, temperature=80.0)
    causes = [decide(seen, DEFAULT, NOON).cause]
    for change in ({"network": "metered"}, {"battery": 1.0}, {"power": "battery"}, {"muted": True}):
        seen = replace(seen, **change)  # type: ignore[arg-type]
        causes.append(decide(seen, DEFAULT, NOON).cause)
    calmer = [replace(FINE, speaking=True, **part) for part in ({"memory": 1.0, "load": 9.0}, {"memory": 1.0}, {})]  # type: ignore[arg-type]
    assert causes == ["heat", "network", "battery", "power", "mute"]
    assert [decide(each, DEFAULT, NOON).cause for each in calmer] == ["load", "memory", "speech"]


@pytest.mark.parametrize("network", ["metered", "free", None])
@pytest.mark.parametrize("metered", ["auto", "yes", "no"])
def test_a_network_is_what_the_settings_say_it_is(metered: str, network: Any) -> None:
    seen, declines = replace(FINE, network=network), metered == "yes" or (metered, network) == ("auto", "metered")
    assert (decide(seen, changed(metered=metered), NOON).cause == "network") == declines
    assert decide(seen, changed(metered=metered, on_metered=True), NOON).gate == "train"


@pytest.mark.parametrize(("year", "reason"), [(2023, "The clock is not set"), (2024, "It is 12:00")])
def test_a_year_before_2024_is_no_time(year: int, reason: str) -> None:
    decision = decide(FINE, changed(hours=("22:00-06:00",)), datetime(year, 7, 1, 12, 0))
    assert decision.gate == "decline"
    assert decision.cause == "hours"
    assert decision.reason.startswith(reason)


def test_a_clock_that_is_not_set_declines_once_and_only_where_there_are_hours() -> None:
    since_1970 = datetime(1970, 1, 1)
    decision = decide(FINE, changed(hours=("00:00-00:00",)), since_1970)
    assert decision.reason == "The clock is not set, so its training hours are not known."
    assert decide(FINE, DEFAULT, since_1970).gate == "train"


# -- memory


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("heat", {"hot": 70.0}),
        ("overheat", {"too_hot": 80.0}),
        ("battery", {"battery_percent": 35.0}),
        ("load", {"load": 0.6}),
        ("memory", {"free_memory": 96.0}),
        ("throttling", {}),
    ],
)
def test_what_closed_the_gate_has_a_margin(cause: str, changes: dict[str, float]) -> None:
    found = msgspec.structs.asdict(tighten(DEFAULT, frozenset({cause})))
    assert found == {**msgspec.structs.asdict(DEFAULT), **{k: pytest.approx(v) for k, v in changes.items()}}


def test_a_margin_never_asks_for_more_than_there_can_be() -> None:
    """A battery of 98 % and 5 more is a full one; a load below none is none."""
    both = tighten(changed(battery_percent=98.0, load=0.05), frozenset({"battery", "load"}))
    assert (both.battery_percent, both.load) == (100.0, 0.0)


def test_the_gate_remembers_all_causes_and_says_the_first() -> None:
    tired = replace(FINE, temperature=90.0, load=5.0, speaking=True)
    state, decision = look(Closed(), tired, DEFAULT, NOON, 100.0)
    assert state == Closed(frozenset({"overheat", "heat", "load"}), "overheat")
    assert decision.cause == "overheat"


def test_the_cause_that_is_remembered_is_one_that_lasts() -> None:
    state, decision = look(Closed(), replace(FINE, muted=True, memory=1.0), DEFAULT, NOON, 0.0)
    assert (state.last, decision.cause) == ("memory", "mute")


def test_the_gate_opens_half_a_minute_after_the_end() -> None:
    closed = Closed(frozenset({"heat"}), "heat")
    first, waits = look(closed, FINE, DEFAULT, NOON, 100.0)
    later, waits_still = look(first, FINE, DEFAULT, NOON, 129.9)
    last, opens = look(later, FINE, DEFAULT, NOON, 130.0)
    assert first == later == Closed(frozenset({"heat"}), "heat", 100.0)
    assert waits == waits_still == Decision("wait", "What it waited for (heat) is only just over.", "heat")
    assert (last, opens.gate) == (Closed(), "train")


def test_an_end_at_second_0_is_an_end() -> None:
    """A board's clock that never jumps starts at 0."""
    first, _ = look(Closed(frozenset({"load"}), "load"), FINE, DEFAULT, NOON, 0.0)
    assert first.ended == 0.0
    assert look(first, FINE, DEFAULT, NOON, 29.0)[1].gate == "wait"


def test_who_speaks_while_the_gate_settles_is_the_reason() -> None:
    state, decision = look(Closed(frozenset({"heat"}), "heat"), replace(FINE, speaking=True), DEFAULT, NOON, 5.0)
    assert state == Closed(frozenset({"heat"}), "heat", 5.0)
    assert decision == Decision("wait", "Somebody speaks.", "speech")


def test_what_ends_at_once_leaves_nothing_behind() -> None:
    for seen, limits in (({"muted": True}, {}), ({"speaking": True}, {}), ({}, {"hours": ("22:00-06:00",)})):
        state, decision = look(Closed(), replace(FINE, **seen), changed(**limits), NOON, 0.0)  # type: ignore[arg-type]
        assert state == Closed()
        assert decision.gate != "train"


def test_a_running_gate_asks_its_clock_for_the_time_of_day_and_how_long_it_has_been_well() -> None:
    seen = iter([replace(FINE, temperature=80.0), FINE, FINE, FINE, FINE])
    clock = VirtualClock(datetime(2026, 11, 26, 23, 30).timestamp())
    gate = Gate(lambda: next(seen), changed(hours=("22:00-06:00",), settle=60.0), clock=clock)
    assert (gate().gate, gate().gate) == ("wait", "wait")
    clock.sleep(59.0)
    assert gate().gate == "wait"
    clock.sleep(1.0)
    assert gate().gate == "train"
    clock.sleep(7 * 3600.0)
    assert (gate().gate, clock.now()) == ("decline", datetime(2026, 11, 27, 6, 31).timestamp())


def test_a_gate_that_is_told_nothing_hears_nobody_and_remembers() -> None:
    seen = iter([replace(FINE, temperature=80.0), FINE, replace(FINE, problems=("odd",))])
    gate = Gate(lambda: next(seen), DEFAULT)
    assert gate.readings == Readings()
    assert [gate().gate for _ in range(3)] == ["wait", "wait", "wait"]
    assert (gate.readings.speaking, gate.readings.muted, gate.readings.problems) == (False, False, ("odd",))
    assert gate.settings is DEFAULT
