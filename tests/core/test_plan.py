"""A plan on the wire: with noise only where there is some, so that agents that know none read every other plan."""

from __future__ import annotations

import msgspec
import pytest

from auricle.wire.plan import Bavd, FixMatch, Noise, Plan


def test_a_plan_without_noise_travels_as_it_did_before_there_was_any() -> None:
    assert "noise" not in msgspec.msgpack.decode(msgspec.msgpack.encode(Plan()))
    assert msgspec.convert({"epochs": 2}, Plan).noise is msgspec.UNSET


def test_a_plan_with_noise_says_it_and_values_that_mean_nothing_are_refused() -> None:
    plan = Plan(noise=Noise(clip=0.5, deviation=0.1))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
    for wrong in ({"clip": 0.0, "deviation": 1.0}, {"clip": 1.0, "deviation": -1.0}, {"clip": 1.0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"noise": wrong}, Plan)


def test_a_plan_asks_to_drop_activations_only_where_it_says_so() -> None:
    assert "bavd" not in msgspec.msgpack.decode(msgspec.msgpack.encode(Plan()))
    plan = Plan(bavd=Bavd(maps=True))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
    assert not Bavd().maps
    for wrong in (1, {"maps": 1}, {"map": True}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"bavd": wrong}, Plan)


def test_a_plan_asks_for_fixmatch_only_where_it_says_so() -> None:
    assert "fixmatch" not in msgspec.msgpack.decode(msgspec.msgpack.encode(Plan()))
    plan = Plan(fixmatch=FixMatch(threshold=0.9))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
    assert (FixMatch().threshold, FixMatch().weight) == (0.7, 1.0)
    for wrong in ({"threshold": 0.0}, {"threshold": 1.01}, {"weight": 0.0}, {"weight": 101}, {"tau": 0.7}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"fixmatch": wrong}, Plan)
