"""Rounds on the virtual clock, of devices that follow traces and are as their groups have them; nothing is trained."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle_cloud.rounds.policy import Timing
from auricle_cloud.settings import RoundDone
from auricle_fleet.population.attacks import supported
from auricle_fleet.population.behaviour import GroupTrainer
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, Trace
from auricle_fleet.settings.partition import Fresh, Partition
from auricle_fleet.virtual.clock import round_end
from auricle_fleet.virtual.fleet import VirtualFleet
from auricle_learning.training.speech_data import Clips, DeviceData


def fleet_of(groups: tuple[Group, ...], state: Path, **changes: Any) -> VirtualFleet:
    """Devices of random clips, as many as the groups have."""
    pack, rng = load_pack("digits"), np.random.default_rng(0)
    clips = Clips(rng.gamma(1.0, 1.0, (6, 100, 40)).astype(np.float32), np.arange(6))
    devices = tuple(
        (f"s{k}", DeviceData(clips, clips.chosen(np.arange(2)), None)) for k in range(sum(g.count for g in groups))
    )
    none = clips.chosen(np.arange(0))
    data = FleetData(pack, devices, none, 0, np.zeros(0, np.int64), ())
    told = {"engine": "virtual", "groups": groups, "local": "crnn-lite", "preset": "fedavg", **changes}
    run = FleetSettings(**told)
    return VirtualFleet(run, data, FleetJudging(run, data), state)


def seen(fleet: VirtualFleet, told: FleetSettings, stop_after: int = 99) -> list[tuple[object, ...]]:
    """Of each round: when it began, who could be invited then, who was, and how many counted."""
    rounds: list[tuple[object, ...]] = []

    async def watch(done: RoundDone) -> None:
        clock: Any = done.report["clock"]
        rounds.append((clock["began"], clock["available"], done.invited, done.counted))
        if done.number == stop_after:
            raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(fleet.run(Start(told.preset_for(trained=False)), watch, lambda _: None))
    return rounds


def test_rounds_follow_traces_and_go_on_where_they_were(tmp_path: Path) -> None:
    """Three devices answer and the slow one is gone before it has; after a night without anybody rounds go on."""
    (tmp_path / "t.csv").write_text("device,time,idle\na,0,1\na,3600,0\na,36000,1\n")
    (tmp_path / "s.csv").write_text("device,time,idle,kilobits\nb,0,1,1\nb,10,0,1\nb,36000,1,1\nb,36020,1,1000\n")
    groups = (
        Group(name="day", count=3, attack="free-ride", trace=Trace(file=str(tmp_path / "t.csv"))),
        Group(name="slow", attack="free-ride", trace=Trace(file=str(tmp_path / "s.csv"))),
    )
    told: dict[str, Any] = {"round_every": 1800.0, "rounds": 4, "deadline": 60.0}
    whole = fleet_of(groups, tmp_path / "whole", **told)
    run = whole._settings
    # the slow one's 0.2 MB take 1,800 s at one kilobit a second and 1.8 s at a thousand
    rounds = [(0, 4, 4, 3), (1800, 3, 3, 3), (36_000, 4, 4, 3), (37_800, 4, 4, 4)]
    assert seen(whole, run) == rounds
    assert seen(fleet_of(groups, tmp_path / "ended", **told), run, 2) == rounds[:2]
    assert seen(fleet_of(groups, tmp_path / "ended", **told), run) == rounds[2:]


def test_devices_of_a_run_are_as_their_groups_and_its_partition_have_them(tmp_path: Path) -> None:
    """Who colludes knows all of its group, fresh labels are each device's own, and strengths follow from the run."""
    groups = (Group(name="together", count=2, attack="alie"), Group(name="replaces", attack="replace"))
    partition = Partition(fresh=Fresh(labels=2, round=2))
    honest = Group(name="honest", count=17)
    fleet = fleet_of((*groups, honest), tmp_path, participation=0.5, partition=partition, rounds=2)
    devices = fleet._devices
    trainers = [devices.trainer(place, waits=False) for place in range(20)]
    assert all(isinstance(trainer, GroupTrainer) for trainer in trainers)
    force = {trainer.group.name: trainer._force for trainer in trainers if isinstance(trainer, GroupTrainer)}
    assert force == {"together": supported(20, 2), "replaces": 10.0, "honest": 0.0}
    both = {id(trainer._colluders) for trainer in trainers if isinstance(trainer, GroupTrainer) and trainer._colluders}
    assert len(both) == 1
    had = [sorted(set(devices.clips(place).at(1).train.targets.tolist())) for place in range(20)]
    assert {len(labels) for labels in had} == {4} and len(set(map(tuple, had))) > 5
    assert all(len(devices.clips(place).at(2).train) == len(devices.clips(place).first.train) for place in range(20))


def test_a_run_that_no_device_can_go_on_with_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("device,time,online\na,5,1\na,10,0\n")
    groups = (Group(name="once", attack="free-ride", trace=Trace(file=str(tmp_path / "t.csv"))),)
    fleet = fleet_of(groups, tmp_path / "run", round_every=60.0, rounds=3)
    with pytest.raises(AuricleError, match=r"Round 2 cannot begin: after 65 s no trace .* --resume --rounds 1, or"):
        seen(fleet, fleet._settings)


TIMING = Timing(quorum=0.5, deadline=60.0, patience=2.0, least_wait=5.0)


@pytest.mark.parametrize(
    ("times", "invited", "wanted", "counts"),
    [
        ({"a": 0.0, "b": 0.0, "c": 0.0}, 3, 3, "abc"),
        # Two of four after 10 s: the round waits 20 s more, for the third and not for the fourth.
        ({"a": 4.0, "b": 10.0, "c": 30.0, "d": 30.1}, 4, 4, "abc"),
        ({"a": 0.0, "b": 0.0, "c": 5.0, "d": 5.1}, 4, 4, "abc"),  # the least wait
        ({"a": 1.0, "b": 61.0}, 4, 4, None),  # no quorum at the deadline
        ({}, 4, 4, None),
        ({"a": 3.0, "b": 1.0, "c": 2.0, "d": 9.0}, 4, 2, "bc"),  # over-selection: the first that answer
    ],
)
def test_who_counts(times: dict[str, float], invited: int, wanted: int, counts: str | None) -> None:
    assert round_end(times, {}, invited, wanted, TIMING).names == (counts and list(counts))


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0, 100), max_size=12),
    st.integers(0, 6),
    st.integers(1, 12),
)
def test_whoever_counts_answered_in_time_and_before_everybody_who_does_not(
    times: dict[str, float], silent: int, wanted: int
) -> None:
    invited = len(times) + silent
    found = round_end(times, {}, max(invited, 1), wanted, TIMING).names
    if found is None:
        assert sum(at <= TIMING.deadline for at in times.values()) < max(1, -(-max(invited, 1) // 2))
        return
    assert all(times[name] <= TIMING.deadline for name in found)
    last = max(times[name] for name in found)
    assert all(times[name] >= last for name in times.keys() - set(found))


@pytest.mark.parametrize("quorum", [0.1, 0.7, 1.0])
def test_a_quorum_is_rounded_up(quorum: float) -> None:
    """As a coordinator does it: 0.7 of ten are seven, not eight by a rounding error."""
    timing = Timing(quorum, 60.0, 2.0, 5.0)
    count = round(10 * quorum)
    times = {str(k): 1.0 for k in range(count)}
    assert round_end(times, {}, 10, 10, timing).names is not None
    assert round_end(dict(list(times.items())[1:]), {}, 10, 10, timing).names is None


@pytest.mark.parametrize(
    ("times", "failed", "invited", "wanted", "lasts", "counts", "why"),
    [
        ({"a": 4.0, "b": 10.0}, {}, 2, 2, 10.0, "ab", ""),
        ({"a": 4.0, "b": 10.0}, {}, 4, 2, 10.0, "ab", ""),  # over-selected: enough are there
        ({"a": 4.0, "b": 10.0}, {}, 4, 4, 30.0, "ab", ""),  # two are waited for in vain
        ({"a": 4.0, "b": 10.0}, {"c": 3.0, "d": 12.0}, 4, 4, 12.0, "ab", ""),  # these two failed
        ({"a": 4.0, "b": 10.0}, {"c": 3.0, "d": 50.0}, 4, 4, 30.0, "ab", ""),  # too late to wait for
        ({"a": 4.0}, {}, 4, 4, 60.0, None, "deadline"),
        ({"a": 4.0}, {"b": 1.0, "c": 6.0, "d": 2.0}, 4, 4, 6.0, None, "nobody is left"),  # nobody is left
        ({"a": 4.0, "b": 70.0}, {"c": 6.0, "d": 2.0}, 4, 4, 60.0, None, "deadline"),
        ({}, {}, 4, 4, 60.0, None, "deadline"),
    ],
)
def test_a_round_lasts_until_nobody_is_waited_for(
    times: dict[str, float],
    failed: dict[str, float],
    invited: int,
    wanted: int,
    lasts: float,
    counts: str | None,
    why: str,
) -> None:
    end = round_end(times, failed, invited, wanted, TIMING)
    assert (end.seconds, end.names) == (lasts, counts and list(counts))
    assert bool(end.reason) == bool(why) and why in end.reason
