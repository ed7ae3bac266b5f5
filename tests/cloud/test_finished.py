"""Rounds that were made without links, entered whole and taken out again: every count worked out by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle.errors import StorageError
from auricle.wire.messages import Update
from auricle.wire.plan import Plan
from auricle_cloud.rounds.finished import Event, FinishedRound, FinishedRounds, Member, Newcomer, SaidLoss
from auricle_cloud.storage.rows import ModelRow
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.cohort import Bounded

TASK, PACK, BASE = "keywords", "0" * 64, "a" * 64
ALARM: dict[str, Any] = {
    "fires": True,
    "sentence": "Alarm.",
    "set_aside": ["c"],
    "losses": {"a": 0.5, "b": 0.5, "c": 90.0},
    "bad": ["b"],
    "shapley": {"b": {"value": -0.25, "error": 0.0}},
    "judged_round": 1,
}


@pytest.fixture
def store(empty: Path | str) -> Store:
    return Store(empty)


def update(device: str, number: int) -> Update:
    return Update(
        fleet="emulated",
        device=device,
        boot="virtual",
        task=TASK,
        round=number,
        attempt=1,
        epoch=1,
        base=BASE,
        body="b" * 64,
        length=4,
        codec="float32",
        samples=7,
        loss=0.5,
    )


def made(number: int, **changes: Any) -> FinishedRound:
    """A round of three devices, of which the rule leaves out the first, and whose model has its number as version."""
    told: dict[str, Any] = {
        "state": "published",
        "opened": 10.0 * number,
        "closed": 10.0 * number + 1,
        "base_version": number - 1,
        "base": BASE,
        "plan": msgspec.msgpack.encode(Plan()),
        "report": {"invited": ["a", "b", "c"], "rule": "krum"},
        "detection": None,
        "cohort": {"a": Member(), "b": Member(), "c": Member("declined", "no\0" + "n" * 300)},
        "updates": [update("a", number), update("b", number)],
        "ids": ["a", "b"],
        "left_out": ["a"],
        "models": [ModelRow(TASK, number, BASE, None, 1.0, number - 1, "round", number, None, None)],
        "current": number,
    }
    return FinishedRound(number=number, **{**told, **changes})


def entered(store: Store, limit: int = 1) -> FinishedRounds:
    found = FinishedRounds(store.database, TASK, limit)
    store.models.begin(TASK, PACK, BASE)
    found.welcome([Newcomer(name, "crnn-lite", 7) for name in "abc"], PACK, "virtual", 1.0)
    return found


def counts(store: Store) -> dict[str, tuple[int, int, int, str]]:
    return {
        row.device: (row.selected, row.left_out_rounds, row.harmful_count, row.standing) for row in store.devices.all()
    }


def test_rounds_leave_what_a_coordinator_would(store: Store) -> None:
    """A device that the rule leaves out five times running, and one that detection blames in the second round."""
    rounds = entered(store)
    rounds.enter([made(1), made(2, detection=ALARM, losses=(BASE, {"a": SaidLoss(None, 7)}))])
    assert counts(store) == {
        "a": (2, 2, 0, "approved"),
        "b": (2, 0, 1, "quarantined"),
        "c": (2, 0, 0, "approved"),
    }
    assert store.rounds.get(TASK, 1).detection is None and store.rounds.get(TASK, 2).detection == ALARM
    assert store.updates.left_out(TASK, 2) == {"a"} and store.updates.counted_devices(TASK, 2) == {"a", "b"}
    assert store.rounds.losses(TASK, 2, BASE)["a"].loss is None
    declined = store.rounds.invited(TASK, 1)["c"]
    assert (declined.state, declined.reason) == ("declined", "no" + "n" * 197)
    assert store.models.current(TASK).version == 2 and not store.journal.outgoing()
    kinds = ["loss set aside", "alarm", "verdict", "quarantined"]
    assert [event.kind for event in reversed(store.journal.events())] == kinds
    rounds.enter([made(number, bounded=[Bounded("b", "samples", 9.0, 3.0)]) for number in (3, 4, 5)])
    assert counts(store)["a"] == (5, 5, 0, "approved")
    assert [event.round for event in store.journal.events(kind="left out")] == [5]
    assert [event.round for event in store.journal.events(kind="bounded")] == [5, 4, 3]


def test_rounds_that_are_made_again_leave_nothing(store: Store) -> None:
    """Nor does a batch that cannot be entered."""
    rounds = entered(store)
    rounds.enter([made(1)])
    after = counts(store)
    back = made(3, state="aborted", models=(), updates=(), ids=(), left_out=(), current=1, report={"went_back": 1})
    rounds.enter([made(2, detection=ALARM), dataclasses.replace(back, events=[Event("rolled back", "version 1: why")])])
    assert store.models.current(TASK).version == 1 and counts(store)["b"][3] == "quarantined"
    rounds.forget_after(3)
    assert store.models.current(TASK).version == 1 and store.rounds.get(TASK, 3).state == "aborted"
    rounds.forget_after(2)
    assert store.models.current(TASK).version == 2
    rounds.forget_after(1)
    assert counts(store) == after and not store.journal.events() and store.models.current(TASK).version == 1
    assert store.updates.how_many(TASK, 2) == 0 and not store.rounds.invited(TASK, 2)
    rounds.welcome([], PACK, "virtual", 1.0)
    with pytest.raises(StorageError):
        rounds.enter([made(2), made(1)])
    assert counts(store) == after
    rounds.enter([made(2)])
    assert counts(store)["a"] == (2, 2, 0, "approved")
    rounds.forget_after(0)
    assert store.models.current(TASK).version == 0 and counts(store)["a"] == (0, 0, 0, "approved")


def test_devices_that_come_late_have_their_counts(store: Store) -> None:
    """A device that is known stays as it is."""
    rounds = entered(store)
    rounds.welcome([Newcomer("a", "crnn-base", 9, 5), Newcomer("d", "crnn-base", 9, 5)], PACK, "virtual", 2.0)
    found = {row.device: (row.architecture, row.samples, row.selected) for row in store.devices.all()}
    assert found["a"] == ("crnn-lite", 7, 0) and found["d"] == ("crnn-base", 9, 5)
