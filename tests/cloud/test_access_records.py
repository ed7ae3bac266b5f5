"""Tokens and schedules in the database; on SQLite and on PostgreSQL."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import TASK

from auricle.errors import SettingsError, StorageError
from auricle_cloud.storage.access_rows import ROLES
from auricle_cloud.storage.schema import tokens
from auricle_cloud.storage.store import Store


@pytest.mark.slow
def test_a_token_is_known_by_its_hash_and_by_nothing_else(store: Store) -> None:
    made = {role: store.tokens.create(f"t-{role}", role, who="ana") for role in ROLES}

    holders = [store.tokens.holder(token) for token in made.values()]
    wrong = ["", "auricle_", "x", next(iter(made.values()))[:-1], next(iter(made.values())).upper()]
    assert holders == [(f"t-{role}", role) for role in ROLES]
    assert [store.tokens.holder(token) for token in wrong] == [None] * len(wrong)
    assert len(set(made.values())) == 3
    with store.database.reading() as tx:
        kept = {row.name: bytes(row.hash) for row in tx.execute(sa.select(tokens))}
    assert kept == {f"t-{role}": hashlib.sha256(token.encode()).digest() for role, token in made.items()}
    assert all(not hasattr(row, "hash") for row in store.tokens.all())
    assert [(e.kind, e.who) for e in store.journal.events()] == [("token created", "ana")] * 3


def test_the_last_admin_stays_and_one_whose_time_is_over_is_none(store: Store) -> None:
    for name, days in (("ana", None), ("gone", 1e-9), ("bob", 7.0)):
        store.tokens.create(name, "admin", days=days)
    store.tokens.create("eve", "operator")
    store.tokens.revoke("bob")
    with pytest.raises(StorageError, match=r'^"ana" is the last token of an admin: make another first, with .+$'):
        store.tokens.revoke("ana")
    for name in ("gone", "eve"):
        store.tokens.revoke(name)
    store.tokens.create("new", "admin")
    store.tokens.revoke("ana")
    assert [row.name for row in store.tokens.all()] == ["new"]


def test_a_token_of_a_taken_name_is_refused_and_the_first_stays(store: Store) -> None:
    first = store.tokens.create("grafana", "viewer")
    with pytest.raises(StorageError, match="grafana"):
        store.tokens.create("grafana", "admin")
    assert store.tokens.holder(first) == ("grafana", "viewer")
    assert len(store.journal.events(kind="token created")) == 1


def test_a_token_dies_when_its_time_is_over_or_it_is_revoked(place: Path | str) -> None:
    store = Store(place)
    short = store.tokens.create("short", "operator", days=1e-9)
    long = store.tokens.create("long", "operator", days=36500)
    forever = store.tokens.create("forever", "operator")
    expires = {row.name: row.expires for row in store.tokens.all()}
    while time.time() <= expires["short"]:
        pass  # 86 microseconds

    before = [store.tokens.holder(token) for token in (short, long, forever)]
    store.tokens.revoke("long", who="ana")
    store.close()
    again = Store(place)

    assert before == [None, ("long", "operator"), ("forever", "operator")]
    assert expires["forever"] is None
    assert [again.tokens.holder(token) for token in (long, forever)] == [None, ("forever", "operator")]
    with pytest.raises(StorageError, match="forever, short"):
        again.tokens.revoke("long")
    assert again.tokens.create("long", "viewer") != long
    again.close()


def test_names_are_plain(store: Store) -> None:
    for name in ("", "x" * 65, "with space", "ä", "a\n", "a/b", "\0"):
        with pytest.raises(SettingsError, match="allowed"):
            store.tokens.create(name, "viewer")
        with pytest.raises(SettingsError, match="allowed"):
            store.schedules.set(name, task=TASK, at="always", idle=1, rounds=1)
    with pytest.raises(StorageError, match="none exists"):
        store.tokens.revoke("x")
    assert (store.tokens.all(), store.schedules.all()) == ([], [])


@pytest.mark.parametrize(
    ("at", "idle", "rounds"),
    [
        *((at, 1, 1) for at in ("24:00", "2:30", "02:60", "", "now", "02:30 ", "always\n", "٠٢:٣٠")),
        *(("always", idle, rounds) for idle, rounds in ((0, 1), (1, 0), (-1, 1), (1_000_001, 1), (1, 10_001))),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(store: Store, at: str, idle: int, rounds: int) -> None:
    with pytest.raises(SettingsError, match="HH:MM" if at != "always" else "idle"):
        store.schedules.set("x", task=TASK, at=at, idle=idle, rounds=rounds)
    assert store.schedules.all() == []


def test_a_role_or_lifetime_that_cannot_be_is_refused(store: Store) -> None:
    with pytest.raises(SettingsError, match="operator"):
        store.tokens.create("x", "operater")
    for days in (0, -1, float("nan"), float("inf"), 36501):
        with pytest.raises(SettingsError, match="0"):
            store.tokens.create("x", "viewer", days=days)
    assert store.tokens.all() == []


def test_schedules_are_set_changed_run_and_removed(store: Store) -> None:
    began = time.time()
    store.schedules.set("night", task=TASK, at="02:30", idle=20, rounds=3, who="ana")
    store.schedules.set("idle", task=TASK, at="always", idle=1, rounds=1)
    store.schedules.set("night", task=TASK, at="23:59", idle=10, rounds=2, who="bob")
    store.schedules.ran("idle", 12345.5)

    rows = {row.name: row for row in store.schedules.all()}
    assert list(rows) == ["idle", "night"]
    assert [getattr(rows["night"], key) for key in ("task", "at", "idle", "rounds")] == [TASK, "23:59", 10, 2]
    assert (rows["idle"].last, rows["night"].last >= began) == (12345.5, True)
    store.schedules.remove("night", who="ana")
    assert [row.name for row in store.schedules.all()] == ["idle"]
    with pytest.raises(StorageError, match='no schedule "night"'):
        store.schedules.remove("night")
    assert [(e.kind, e.who) for e in store.journal.events()][:2] == [("schedule removed", "ana"), ("scheduled", "bob")]
