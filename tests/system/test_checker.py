"""The checker of the system tests sees what it is there to see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from auricle_cloud.storage.schema import rounds, updates
from auricle_cloud.storage.store import Store
from tests.system.checker import DeviceLog, check, counted_rows, tally

TASK, BODY, OTHER = "keywords", "a" * 64, "b" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "c.db")
    opened.rounds.plan(TASK, 1)
    row: dict[str, object] = {"task": TASK, "device": "dev-a", "body": BODY, "codec": "float32"}
    row |= dict.fromkeys(("round", "attempt", "samples", "steps", "counted_in"), 1)
    row |= dict.fromkeys(("seconds", "held_out", "received", "staleness"), 0)
    with opened.database.writing() as tx:
        tx.execute(sa.insert(updates).values(**row))
        tx.execute(sa.update(rounds).values(state="published"))
    yield opened
    opened.close()


@pytest.fixture
def log() -> DeviceLog:
    told = DeviceLog()
    told.intended.add(("dev-a", 1, BODY))
    told.acknowledged.append(("dev-a", 1, BODY, 1, "accepted"))
    told.delivered["observer"] = ["auricle/1/f/c/state"]
    return told


def test_a_clean_run_passes(store: Store, log: DeviceLog) -> None:
    assert [row.device for row in check(store, TASK, log)] == ["dev-a"]


@pytest.mark.parametrize(("device", "body", "verdict"), [("dev-b", BODY, "accepted"), ("dev-a", OTHER, "duplicate")])
def test_an_acknowledged_update_that_does_not_count_or_with_another_content_is_seen(
    device: str, body: str, verdict: str, store: Store, log: DeviceLog
) -> None:
    log.acknowledged.append((device, 1, body, 1, verdict))
    with pytest.raises(AssertionError, match=f"{device}, round 1: {verdict}"):
        check(store, TASK, log)


def test_a_counted_update_that_nobody_meant_is_seen(store: Store, log: DeviceLog) -> None:
    log.intended.clear()
    with pytest.raises(AssertionError, match="dev-a never meant"):
        check(store, TASK, log)


def test_an_answer_of_an_older_coordinator_that_was_obeyed_is_seen(store: Store, log: DeviceLog) -> None:
    log.acknowledged[:0] = [("dev-a", 1, BODY, 2, "duplicate")]
    with pytest.raises(AssertionError, match="dev-a obeyed a lower epoch"):
        check(store, TASK, log)


@pytest.mark.parametrize("topic", ["auricle/1/f/d/dev-a/up/upd", "auricle/1/f/d/dev-a/dn/ack", "auricle/1/g/c/state"])
def test_a_delivery_outside_the_rights_is_seen(topic: str, store: Store, log: DeviceLog) -> None:
    log.delivered["observer"].append(topic)
    with pytest.raises(AssertionError, match="observer was delivered"):
        check(store, TASK, log)


def test_a_canary_that_heard_nothing_proves_nothing(store: Store, log: DeviceLog) -> None:
    log.delivered["dev-canary"] = []
    with pytest.raises(AssertionError, match="delivered nothing at all"):
        check(store, TASK, log)


def test_a_forged_message_that_reached_somebody_is_seen(store: Store, log: DeviceLog) -> None:
    log.take("%s: ignored a message on %s: %s", ["dev-a", "auricle/1/f/d/dev-a/dn/cmd", "not an Auricle frame"])
    with pytest.raises(AssertionError, match="dev-a: ignored a message"):
        check(store, TASK, log)
    log.strange.clear()
    store.devices.add_refusals({("dev-a", "frame"): (1, "frame: not an Auricle frame of an allowed length")})
    with pytest.raises(AssertionError, match="what no device wrote"):
        check(store, TASK, log)


def test_what_is_lost_and_what_counts_twice_is_counted(store: Store, log: DeviceLog) -> None:
    [row] = counted_rows(store, TASK)
    log.acknowledged.append(("dev-b", 1, OTHER, 1, "duplicate"))
    log.acknowledged.append(("dev-c", 1, OTHER, 1, "late"))
    told = {"devices": 1, "rounds": 1, "counted": 2, "acknowledged": 2, "lost": 1, "doubled": 1}
    assert tally(log, [row, row]) == told
