"""The coordinator's database: what it remembers over restarts, and which update counts."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle.errors import StorageError
from auricle.messages import Register, Update
from auricle_cloud.store import Store

BASE, BODY = "a" * 64, "b" * 64


def register(device: str = "dev-a", **changes: Any) -> Register:
    message = Register(
        fleet="f", device=device, boot="boot-1", public_key=b"k" * 32, agent="1", pack="c" * 64,
        architecture="crnn-lite", codecs=("float32",), samples=5,
    )  # fmt: skip
    return msgspec.structs.replace(message, **changes)


def update(device: str = "dev-a", **changes: Any) -> Update:
    message = Update(
        fleet="f", device=device, boot="boot-1", task="t", round=1, attempt=1, epoch=1, base=BASE, body=BODY, length=8,
        codec="float32", samples=5, loss=1.5,
    )  # fmt: skip
    return msgspec.structs.replace(message, **changes)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "c.db")
    yield store
    store.close()


def test_each_start_has_a_higher_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        store = Store(tmp_path / "c.db")
        epochs.append(store.next_epoch())
        store.close()

    assert epochs == [1, 2, 3]


def test_a_name_belongs_to_the_key_that_came_first(store: Store) -> None:
    first = store.register(register())
    again = store.register(register(boot="boot-2", samples=9))
    thief = store.register(register(public_key=b"x" * 32, samples=1000))

    (row,) = store.devices()
    assert (first, again, thief) == (True, True, False)
    assert (row["public_key"], row["boot"], row["samples"]) == (b"k" * 32, "boot-2", 9)
    assert row["first_seen"] <= row["last_seen"]


def test_a_will_counts_only_for_the_last_birth(store: Store) -> None:
    store.register(register(boot="new"))

    store.presence("dev-a", "old", online=False)
    still = store.devices()[0]["online"]
    store.presence("dev-a", "new", online=False)
    gone = store.devices()[0]["online"]
    store.presence("dev-a", "newer", online=True)
    store.presence("dev-zz", "newer", online=True)

    assert (still, gone) == (True, False)
    assert [(d["device"], d["boot"], d["online"]) for d in store.devices()] == [("dev-a", "newer", True)]


def test_the_verdicts(store: Store) -> None:
    store.open_round("t", 1, BASE, ["dev-a", "dev-b"], b"plan")

    said = [
        store.count_update(update()),
        store.count_update(update()),
        store.count_update(update(attempt=2)),
        store.count_update(update(body="d" * 64)),
        store.count_update(update("dev-x")),
        store.count_update(update("dev-b", base="e" * 64)),
        store.count_update(update("dev-b", round=2)),
        store.count_update(update("dev-b", task="other")),
    ]
    store.set_state("t", 1, "closing")
    said += [store.count_update(update("dev-b")), store.count_update(update())]

    assert said == [
        "accepted", "duplicate", "duplicate", "conflict", "rejected:not invited", "rejected:base", "rejected:round",
        "rejected:round", "late", "duplicate",
    ]  # fmt: skip
    (row,) = store.counted("t", 1)
    assert (row["device"], row["body"], row["attempt"], row["loss"]) == ("dev-a", BODY, 1, 1.5)


def test_asking_for_a_verdict_changes_nothing(store: Store) -> None:
    store.open_round("t", 1, BASE, ["dev-a"], b"plan")

    verdicts = [store.verdict(update()), store.verdict(update()), store.verdict(update(round=7))]

    assert verdicts == ["accepted", "accepted", "rejected:round"]
    assert store.counted("t", 1) == []


def test_counted_updates_come_in_the_order_of_devices_and_nan_is_unknown(store: Store) -> None:
    names = ["dev-c", "dev-a", "dev-b"]
    store.open_round("t", 1, BASE, names, b"plan")

    for name in names:
        store.count_update(update(name, loss=math.nan))

    assert [(r["device"], r["loss"]) for r in store.counted("t", 1)] == [(n, None) for n in sorted(names)]


def test_a_round_and_its_report_survive_a_restart(tmp_path: Path) -> None:
    first = Store(tmp_path / "c.db")
    first.open_round("t", 1, BASE, ["dev-b", "dev-a"], b"plan")
    first.set_state("t", 1, "aborted", {"reason": "no quorum"})
    first.open_round("t", 2, BASE, ["dev-a"], b"plan2")
    first.close()

    second = Store(tmp_path / "c.db", must_exist=True)
    last = second.last_round("t")

    assert last is not None
    assert (last["round"], last["state"], last["cohort"], last["plan"]) == (2, "collecting", ["dev-a"], b"plan2")
    assert second.report("t", 1) == {"reason": "no quorum"}
    assert second.last_round("other") is None
    with pytest.raises(StorageError, match="Round 2 of t has no report"):
        second.report("t", 2)
    second.close()


def test_a_model_and_the_report_of_its_round_come_together_and_once(store: Store) -> None:
    store.add_model("t", 0, "0" * 64, None, None)
    store.open_round("t", 1, "0" * 64, ["dev-a"], b"")

    store.add_model("t", 1, "1" * 64, "2" * 64, {"made": True})
    store.add_model("t", 1, "9" * 64, None, None)

    current, last = store.current_model("t"), store.last_round("t")
    assert current is not None
    assert last is not None
    assert (current["version"], current["blob"], current["optimizer"]) == (1, "1" * 64, "2" * 64)
    assert (last["state"], store.report("t", 1)) == ("aggregated", {"made": True})
    assert store.current_model("other") is None
    assert store.kept_blobs("t") == {"0" * 64, "1" * 64, "2" * 64}


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a#b", "a b", "ä"])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "c.db"

    store = Store(path)
    store.next_epoch()
    store.close()

    assert path.is_file()


def test_what_is_no_database_is_said_in_one_sentence(tmp_path: Path) -> None:
    broken, folder = tmp_path / "broken.db", tmp_path / "folder.db"
    broken.write_bytes(b"this is not a database, whatever its name says" * 100)
    folder.mkdir()

    for path, must_exist, says in (
        (broken, False, "cannot"),
        (folder, False, "cannot"),
        (tmp_path / "missing.db", True, "no coordinator's database"),
        (broken / "below" / "c.db", False, "cannot be made"),
    ):
        with pytest.raises(StorageError, match=says):
            Store(path, must_exist=must_exist)


def test_a_full_database_is_a_storage_error_and_counts_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    store.open_round("t", 1, BASE, ["dev-a"], b"plan")
    with sqlite3.connect(tmp_path / "c.db") as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON updates BEGIN SELECT RAISE(ABORT, 'disk is full'); END")

    with pytest.raises(StorageError, match="disk is full"):
        store.count_update(update())

    assert store.counted("t", 1) == []
    store.close()
