"""Whom a rule leaves out of every layer: noted with the round, counted as that, and told when it goes on."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from tests.cloud.arrivals import BASE, TASK, begin, open_round, update

from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.rule_events import MOST_NAMED, note_bounded, note_rule
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.cohort import Aggregate, Bounded, Cohort, layers_of
from auricle_learning.methods import get_rule

DEVICES = ("dev-a", "dev-b", "dev-c")


def made(out: Collection[str], ids: Collection[str] = DEVICES) -> Aggregate:
    """What a rule makes of two layers, of which it leaves these out."""
    share = np.array([[0.0, 0.0] if name in out else [0.5, 0.0] for name in ids])
    return Aggregate(np.zeros(2, np.float32), tuple(ids), ("conv", "head"), share > 0, share)


def played(store: Store, number: int, out: Collection[str], ids: Collection[str] = DEVICES) -> None:
    """A round of all devices, of whom these sent an update."""
    open_round(store, DEVICES, number)
    store.updates.count([update(name, round=number) for name in ids])
    store.rounds.move(TASK, number, "collecting", "closing")
    with store.rounds.moving(TASK, number, "closing", "aggregated", report={"invited": [*DEVICES]}) as tx:
        note_rule(tx, made(out, ids), task=TASK, number=number, rule="lpa")
        store.models.add(tx, TASK, BASE, optimizer=None, origin="round", number=number)
    store.rounds.move(TASK, number, "aggregated", "published")


@pytest.fixture
def store(empty: Path | str) -> Store:
    found = Store(empty)
    begin(found, DEVICES)
    return found


def test_of_many_that_were_bounded_those_furthest_off_have_an_event_each(store: Store) -> None:
    """Also one that said too little, of steps; that an update was long is no news."""
    some = [Bounded(f"dev-{k:02d}", "samples", 20.0 + k, 10.0) for k in range(30)]
    told = [*some, Bounded("dev-x", "steps", 1.0, 60.0), Bounded("dev-y", "length", 1e6, 1.0)]

    with store.database.writing() as tx:
        note_bounded(tx, told, task=TASK, number=1)

    events = store.journal.events(kind="bounded")
    assert len(events) == MOST_NAMED
    assert {event.device for event in events} == {"dev-x", *(f"dev-{k:02d}" for k in range(11, 30))}
    assert "steps 1 counted as 60" in {event.detail for event in events}


def test_a_round_counts_only_whom_its_rule_did_not_leave_out(store: Store, tmp_path: Path) -> None:
    do = Operations(store, Blobs(tmp_path / "blobs"), TASK, lambda: None, "anna")
    played(store, 1, {"dev-c"})

    (row,) = do.list_rounds().rounds
    assert (row.invited, row.counted, row.left_out, row.samples) == (3, 2, 1, 10)
    assert [(member.device, member.state) for member in do.show_round(1).cohort] == [
        ("dev-a", "counted"),
        ("dev-b", "counted"),
        ("dev-c", "left_out"),
    ]
    assert [member.device for member in do.show_round(1, outcome="left_out").cohort] == ["dev-c"]
    assert [past.state for past in do.show_device("dev-c").history] == ["left_out"]
    assert [device.left_out_rounds for device in do.list_devices().devices] == [0, 0, 1]
    assert store.updates.left_out(TASK, 1) == {"dev-c"}
    store.close()


def test_an_event_tells_who_is_left_out_five_times_running(store: Store, tmp_path: Path) -> None:
    """Rounds in which it sends nothing do not end the row; one in which it counts does."""
    for number in range(1, 5):
        played(store, number, {"dev-c"})
    played(store, 5, {"dev-a"}, ids=DEVICES[:2])
    assert store.journal.events(kind="left out") == []

    played(store, 6, {"dev-c"})
    (event,) = store.journal.events(kind="left out")
    assert (event.device, event.round) == ("dev-c", 6)
    assert "lpa in 5 rounds running" in event.detail and "rounds why 6 dev-c" in event.detail
    do = Operations(store, Blobs(tmp_path / "blobs"), TASK, lambda: None, "anna")
    assert [alarm.kind for alarm in do.overview().alarms] == ["left out"]

    played(store, 7, set())
    for number in range(8, 12):
        played(store, number, {"dev-c"})
    assert len(store.journal.events(kind="left out")) == 1, "four times since it counted"
    for number in range(12, 18):
        played(store, number, {"dev-c"})
    assert [event.round for event in store.journal.events(kind="left out")] == [17, 12, 6]
    store.close()


@pytest.mark.parametrize(
    ("name", "out"), [("lpa", ("dev-e",)), ("krum", ("dev-a", "dev-c", "dev-d", "dev-e")), ("fedavg", ())]
)
def test_a_rule_leaves_out_whom_it_gives_no_weight_in_any_layer(name: str, out: tuple[str, ...]) -> None:
    weights = np.array([[0, 0], [1, 0], [0, 2], [1, 1], [30, 40]], np.float32)
    options = {"prune_low": 0.0, "prune_high": 0.3} if name == "lpa" else {}
    cohort = Cohort.build(
        ids=["dev-a", "dev-b", "dev-c", "dev-d", "dev-e"],
        weights=weights,
        samples=[1] * 5,
        start=np.zeros(2, np.float32),
        layers=layers_of([("a", 1, None), ("b", 1, None)]),
    )
    assert get_rule(name, **options)(cohort).left_out == out
