"""Devices: names, presence, standing, refusals; on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import register

from auricle.errors import StorageError
from auricle.wire.messages import DeviceState
from auricle_cloud.storage.rows import STANDINGS, Standing
from auricle_cloud.storage.store import Store

WAIT = 20.0


def state(device: str = "dev-a", boot: str = "boot-1", *, online: bool, **more: Any) -> DeviceState:
    return DeviceState(fleet="f", device=device, boot=boot, online=online, **more)


def enter(store: Store, *names: str, standing: Standing = "approved") -> None:
    for name in names or ("dev-a",):
        store.devices.register(register(name), standing)


def test_a_name_belongs_to_the_key_that_came_first(store: Store) -> None:
    first = store.devices.register(register(), "pending")
    again = store.devices.register(register(boot="boot-2", samples=9, agent="2"), "approved")
    thief = store.devices.register(register(public_key=b"x" * 32, samples=1000, boot="boot-3"), "approved")

    (row,) = store.devices.all()
    assert (first, again, thief) == (True, True, False)
    assert (row.public_key, row.boot, row.samples, row.agent) == (b"k" * 32, "boot-2", 9, "2")
    assert row.first_seen <= row.last_seen
    assert (row.standing, row.selected, row.harmful_count, row.label) == ("pending", 0, 0, "")
    assert [(e.kind, e.device, e.detail) for e in store.journal.events()] == [("registered", "dev-a", "pending")]


def test_of_two_keys_that_claim_a_name_at_once_one_gets_it(place: Path | str) -> None:
    """The two meet between looking whether the name is free and entering it."""
    store = Store(place)
    together = threading.Barrier(2)

    def meet(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO devices") and not isinstance(place, Path):
            together.wait(WAIT)  # SQLite lets only one of them come so far

    sa.event.listen(store.database._engine, "before_cursor_execute", meet)
    with ThreadPoolExecutor(2) as pool:
        keys = [b"k" * 32, b"x" * 32]
        said = list(pool.map(lambda key: store.devices.register(register(public_key=key), "approved"), keys))

    assert sorted(said) == [False, True]
    assert store.devices.keys() == {"dev-a": keys[said.index(True)]}
    assert len(store.journal.events(kind="registered")) == 1
    store.close()


def test_a_will_counts_only_for_the_last_birth(store: Store) -> None:
    store.devices.register(register(boot="new"), "approved")

    store.devices.presence(state(boot="old", online=False))
    still = store.devices.get("dev-a").online
    store.devices.presence(state(boot="new", online=False))
    gone = store.devices.get("dev-a").online
    store.devices.presence(state(boot="newer", online=True))
    store.devices.presence(state("dev-zz", "newer", online=True))

    assert (still, gone) == (True, False)
    assert [(d.device, d.boot, d.online) for d in store.devices.all()] == [("dev-a", "newer", True)]


def test_presence_is_unknown_after_a_start_until_a_device_is_heard(store: Store) -> None:
    enter(store, "dev-a", "dev-b", "dev-c")
    store.devices.presence(state("dev-c", online=False))
    went = store.devices.get("dev-c").offline_since

    store.devices.forget_presence()
    unheard, not_gone = store.devices.unheard(), store.devices.not_gone()
    store.devices.presence(state("dev-a", online=True, gate="wait"), kept=True)
    kept = store.devices.get("dev-a")
    store.devices.presence(state("dev-a", online=True))
    store.devices.give_up_unheard()

    rows = {row.device: row for row in store.devices.all()}
    assert went is not None
    assert (unheard, not_gone) == ({"dev-a", "dev-b"}, {"dev-a", "dev-b"})
    assert (kept.online, kept.offline_since, kept.gate) == (False, None, "wait")
    assert [rows[name].online for name in sorted(rows)] == [True, False, False]
    assert rows["dev-b"].offline_since == rows["dev-b"].last_seen
    assert rows["dev-c"].offline_since == went
    assert (store.devices.unheard(), store.devices.not_gone()) == (set(), {"dev-a"})


def test_a_birth_says_what_the_gate_says_and_a_will_leaves_it(store: Store) -> None:
    enter(store)
    store.devices.presence(state(online=True, gate="wait", gate_reason="too hot: 81\0 °C"))
    waiting = store.devices.get("dev-a")
    store.devices.presence(state(online=False))
    store.devices.heard({"dev-a": 2e9, "nobody": 3e9})
    gone = store.devices.get("dev-a")
    assert (waiting.gate, waiting.gate_reason) == ("wait", "too hot: 81 °C")
    assert (gone.online, gone.gate, gone.last_seen) == (False, "wait", 2e9)


def test_standing_decides_whose_key_is_believed(store: Store) -> None:
    names = ["dev-a", "dev-b", "dev-c", "dev-d"]
    for name, standing in zip(names, STANDINGS, strict=True):
        store.devices.register(register(name, public_key=name.encode().ljust(32)), "pending")
        store.devices.set_standing([name], standing, who="ana", reason=f"made {standing}")
    assert [row.standing for row in store.devices.all()] == list(STANDINGS)
    assert [row.reason for row in store.devices.all()] == ["", *(f"made {each}" for each in STANDINGS[1:])]
    assert store.devices.keys() == {name: name.encode().ljust(32) for name in names[:3]}
    assert store.devices.revoked() == {"dev-d"}


def test_standings_are_set_for_all_or_for_none_and_told_once(store: Store) -> None:
    enter(store, "dev-a", "dev-b", "dev-c", standing="pending")

    changed = store.devices.set_standing(["dev-b", "dev-a", "dev-a"], "approved", who="ana", reason="known")
    again = store.devices.set_standing(["dev-a", "dev-c"], "approved", who="bob")
    nobody = store.devices.set_standing([], "approved", who="bob")
    with pytest.raises(StorageError, match="dev-x"):
        store.devices.set_standing(["dev-a", "dev-x"], "quarantined", who="bob")

    assert (changed, again, nobody) == (["dev-a", "dev-b"], ["dev-c"], [])
    assert {row.standing for row in store.devices.all()} == {"approved"}
    told = [(e.device, e.who, e.detail) for e in store.journal.events(kind="approved")]
    assert told == [("dev-c", "bob", ""), ("dev-b", "ana", "known"), ("dev-a", "ana", "known")]


def test_a_revoked_device_never_comes_back(store: Store) -> None:
    enter(store, "dev-a", "dev-b")
    store.devices.set_standing(["dev-a"], "revoked", who="ana", reason="stolen")

    for standing in ("pending", "approved", "quarantined"):
        with pytest.raises(StorageError, match="revoked"):
            store.devices.set_standing(["dev-b", "dev-a"], standing, who="ana")
    gone = store.devices.get("dev-a")
    repeated = store.devices.set_standing(["dev-a"], "revoked", who="ana")
    store.devices.register(register(boot="boot-9"), "approved")

    assert repeated == []
    assert not gone.online
    assert [row.standing for row in store.devices.all()] == ["revoked", "approved"]


def test_many_devices_are_approved_at_once(store: Store) -> None:
    names = [f"dev-{i:05}" for i in range(1300)]
    with store.database.writing() as tx:
        from auricle_cloud.storage.schema import devices

        row = {"public_key": b"k", "boot": "", "online": True, "pack": "", "architecture": "", "samples": 1}
        seen = {"first_seen": 0.0, "last_seen": 0.0, "standing": "pending"}
        tx.execute(devices.insert(), [{"device": name, **row, **seen} for name in names])

    asked: list[str] = []
    sa.event.listen(store.database._engine, "before_cursor_execute", lambda *given: asked.append(given[2]))

    changed = store.devices.set_standing(names, "approved", who="ana")

    assert len([statement for statement in asked if "devices" in statement]) == 4  # of two parts, looked at and set
    assert [event.device for event in store.journal.events(kind="approved", limit=2)] == names[:-3:-1]
    assert changed == names
    assert {row.standing for row in store.devices.all()} == {"approved"}


def test_a_label_is_for_people_and_of_bounded_length(store: Store) -> None:
    enter(store)
    store.devices.set_label("dev-a", "kitchen, left " + "x" * 500, who="ana")
    assert store.devices.get("dev-a").label == ("kitchen, left " + "x" * 500)[:200]


def test_an_unknown_device_is_named_with_a_hint(store: Store) -> None:
    with pytest.raises(StorageError, match="none registered"):
        store.devices.get("dev-a")
    enter(store, "kitchen-1")
    for ask in (store.devices.get, lambda name: store.devices.set_label(name, "x", who="ana")):
        with pytest.raises(StorageError, match='"kitchen-1"'):
            ask("kitchen-2")


def test_refusals_add_up_by_device_and_reason(store: Store) -> None:
    store.devices.add_refusals({("dev-b", "rate"): (3, "rate: slow down"), ("dev-a", "schema"): (1, "schema: x")})
    store.devices.add_refusals({("dev-b", "rate"): (1 << 33, "rate: again " + "y" * 300)})
    store.devices.add_refusals({})

    rows = [(r.device, r.code, r.count, r.detail) for r in store.devices.refusals()]
    assert rows == [
        ("dev-a", "schema", 1, "schema: x"),
        ("dev-b", "rate", 3 + (1 << 33), ("rate: again " + "y" * 300)[:200]),
    ]
    assert [row.code for row in store.devices.refusals("dev-b")] == ["rate"]
    assert store.devices.refusals("dev-x") == []
