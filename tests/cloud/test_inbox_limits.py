"""Rate, norm and other limits, losses, standing; and what is written down about refusals."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.cloud.desk import (
    ANA,
    BASE,
    BOB,
    FLEET,
    SIZE,
    TASK,
    TOPICS,
    UNLIMITED,
    Desk,
    body_of,
    loss,
    register,
    signed,
    table_of,
)
from tests.recorder import Record

from auricle.errors import StorageError
from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState, Get, Status
from auricle.wire.prior_knowledge import require_gradients
from auricle.wire.tensors import Flat, digest
from auricle.wire.vector_headers import VectorHeader
from auricle.wire.vectors import Declared
from auricle_cloud.link.admission import RateLimit
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import refusal_code
from auricle_learning.aggregation.inputs import stacked_maps

# -- limits, losses and standing


def get(device: str = "dev-a", boot: str = "b1") -> Get:
    return Get(fleet=FLEET, device=device, boot=boot, round=0)


def test_a_device_may_send_so_many_frames_and_others_are_not_held_up(desk: Desk) -> None:
    now = [0.0]
    desk.inbox._rate = RateLimit(2.0, 3.0, clock=lambda: now[0])

    for _ in range(5):
        desk.tell(ANA, "dev-a", "get", get())
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    desk.tell(BOB, "dev-b", "get", get("dev-b"))
    now[0] += 0.5
    for _ in range(2):
        desk.tell(ANA, "dev-a", "get", get())

    assert [device for _, device, _ in desk.answers] == ["dev-a"] * 3 + ["dev-b"] + ["dev-a"]
    assert desk.inbox.refused == {"rate": 4}
    assert [row[:2] for row in desk.heard.refusals] == [("dev-a", "rate")] * 4


def test_the_limits_are_those_of_the_settings(make: Callable[..., Desk]) -> None:
    desk = make(limits=Limits(frames=1e-9, burst=4.0, samples=7, loss=2.0, weight=3.0, norm=1e9))
    body, heavy = body_of(3.0), body_of(3.0000002)

    desk.send(body, "dev-b", samples=8)
    desk.send(body, "dev-b", loss=2.0000001)
    desk.send(heavy)
    desk.send(body, samples=7, loss=2.0)
    desk.tell(ANA, "dev-a", "loss", loss(samples=8))
    desk.tell(ANA, "dev-a", "loss", loss())

    # The registration was dev-a's first frame of four, the second loss its fifth.
    assert desk.inbox.refused == {"samples": 2, "loss": 1, "values": 1, "rate": 1}
    assert [verdict.split(":")[0] for verdict in desk.verdicts()] == ["rejected", "rejected", "rejected", "accepted"]


def test_an_update_may_not_be_further_from_its_base_than_the_limit(make: Callable[..., Desk]) -> None:
    desk = make(limits=Limits(frames=1e9, burst=1e9, norm=1.0))
    desk.heard.bases[BASE] = np.full(SIZE, 100.0, np.float32)
    near, far = body_of(100.5, 99.5, 100.5, 99.5, 100, 100), body_of(100.5, 99.5, 100.5, 99.5, 100.001, 100)

    desk.send(far)
    desk.send(near, "dev-b")  # 4 * 0.5^2 = 1

    assert [v.split(":")[:2] for v in desk.verdicts()] == [["rejected", "norm"], ["accepted"]]
    assert desk.inbox.refused == {"norm": 1}
    assert [row.device for row in desk.counted()] == ["dev-b"]
    assert desk.files() == 1


def gradient_of_one_class(vector: Flat, largest: float) -> None:
    require_gradients(vector, 1, largest)


DECLARED = (Declared("maps", 2), Declared("gradients", SIZE, required=False, check=gradient_of_one_class))
"""Of a classifier of one class there are as many gradients as weights; the last one is with respect to its bias."""
GRADIENTS = np.array([3.0] * (SIZE - 1) + [0.5], np.float32)


def brought(**vectors: Flat) -> tuple[bytes, tuple[VectorHeader, ...]]:
    """An update's body with vectors of any numbers, and their headers as they should be."""
    blobs = {name: np.asarray(vector, "<f4").tobytes() for name, vector in vectors.items()}
    headers = tuple(VectorHeader(name=name, length=len(b), blob=digest(b)) for name, b in blobs.items())
    return b"".join([body_of(), *blobs.values()]), headers


def test_an_update_brings_the_vectors_that_its_round_declares(desk: Desk) -> None:
    asked, maps = desk.open(desk.heard, declared=DECLARED[:1], limits=UNLIMITED), np.array([1.0, 2.0], np.float32)
    good, headers = brought(maps=maps)
    two, both = brought(maps=maps, gradients=GRADIENTS)
    none = brought(maps=np.array([1.0, np.nan], np.float32))

    desk.send(body_of(), inbox=asked)
    desk.send(two, inbox=asked, vectors=both)
    desk.send(good, inbox=asked, vectors=headers * 2)
    desk.send(brought(maps=GRADIENTS)[0], inbox=asked, vectors=brought(maps=GRADIENTS)[1])
    desk.send(good + bytes(4), inbox=asked, vectors=headers)
    desk.send(none[0], inbox=asked, vectors=none[1])
    desk.send(good[:-4] + bytes(4), inbox=asked, vectors=headers)
    desk.send(good, inbox=asked, vectors=headers)
    desk.send(good, "dev-b", vectors=headers)

    assert asked.refused == {"vectors": 4, "shape": 1, "values": 2}
    assert desk.inbox.refused == {"vectors": 1}, "where none are asked for none may come"
    assert [verdict.split(":")[0] for verdict in desk.verdicts()] == ["rejected"] * 7 + ["accepted", "rejected"]
    counted = desk.counted()
    cohort = cohort_of(table_of(SIZE), np.zeros(SIZE, np.float32), counted, desk.blobs)
    assert (cohort.weights.tolist(), cohort.extras.maps.tolist()) == ([[0.5] * SIZE], [[1.0, 2.0]])


def test_gradients_may_come_beside_maps_and_need_not(desk: Desk) -> None:
    asked, maps = desk.open(desk.heard, declared=DECLARED, limits=UNLIMITED), np.array([1.0, 2.0], np.float32)
    alone, good = brought(maps=maps), brought(maps=maps, gradients=GRADIENTS)
    huge = brought(maps=maps, gradients=np.array([1e9] * (SIZE - 1) + [0.5], np.float32))
    no_gradient = brought(maps=maps, gradients=np.full(SIZE, 3.0, np.float32))

    for body, headers in (huge, no_gradient, good):
        desk.send(body, inbox=asked, vectors=headers)
    desk.send(alone[0], "dev-b", asked, vectors=alone[1])

    assert asked.refused == {"values": 2}
    assert [verdict for verdict in desk.verdicts() if not verdict.startswith("rejected")] == ["accepted"] * 2
    counted = desk.counted()
    cohort = cohort_of(table_of(SIZE), np.zeros(SIZE, np.float32), counted, desk.blobs)
    gradients, both = cohort.extras.gradients, cohort.extras.maps
    assert gradients[0].tolist() == [GRADIENTS.tolist()]
    assert gradients[1] is None, "no memory for who says none"
    assert both.tolist() == [maps.tolist()] * 2
    assert [None if one is None else one.tolist() for one in cohort.extras.vectors["gradients"]] == [
        GRADIENTS.tolist(),
        None,
    ]


def test_maps_of_a_round_in_which_somebody_sent_none_do_not_count() -> None:
    one, none = np.ones(2, np.float32), np.zeros(0, np.float32)
    assert stacked_maps([one, none]) is stacked_maps([none, none]) is stacked_maps([]) is None
    assert np.array_equal(stacked_maps([one, 2 * one]), [[1, 1], [2, 2]])  # type: ignore[arg-type]


@pytest.mark.reliability("C3", load="a norm beyond float32")
def test_a_norm_that_overflows_is_refused(make: Callable[..., Desk], record_property: Record) -> None:
    desk = make(limits=Limits(frames=1e9, burst=1e9, weight=float("inf"), norm=1e30))
    desk.heard.bases[BASE] = np.full(SIZE, -3e38, np.float32)
    body = body_of(3e38)
    with np.errstate(over="ignore"):
        desk.send(body)
    record_property("tried", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert desk.inbox.refused == {"norm": 1}


@pytest.mark.parametrize("value", [0.0, 0.25, 1e6])
def test_a_loss_is_kept_and_passed_on(desk: Desk, value: float) -> None:
    desk.tell(ANA, "dev-a", "loss", loss(loss=value, samples=9))
    kept = desk.store.rounds.losses(TASK, 1, BASE)
    assert {name: (row.loss, row.samples) for name, row in kept.items()} == {"dev-a": (value, 9)}
    assert desk.answers == [("Loss", "dev-a", "loss")]


@pytest.mark.reliability("C3", load="NaN loss")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0, 1e7])
def test_a_loss_that_is_none_is_kept_as_unknown_and_passed_on(
    desk: Desk, value: float, record_property: Record
) -> None:
    desk.tell(ANA, "dev-a", "loss", loss(loss=value))
    kept = desk.store.rounds.losses(TASK, 1, BASE)
    record_property("tried", len(kept))
    record_property("counted of wrong ones", sum(entry.loss is not None for entry in kept.values()))
    assert kept["dev-a"].loss is None
    assert desk.answers == [("Loss", "dev-a", "loss")]
    assert desk.inbox.refused == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"samples": 0}, "samples"),
        ({"samples": 10_000_001}, "samples"),
        ({"round": 2}, "not invited"),
        ({"task": "other"}, "not invited"),
    ],
)
def test_a_loss_of_nobody_or_for_no_round_is_refused(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    desk.tell(ANA, "dev-a", "loss", loss(**changes))
    assert desk.inbox.refused == {reason: 1}
    assert desk.answers == []
    assert desk.store.rounds.losses(TASK, 1, BASE) == {}


def test_a_loss_of_a_device_that_was_not_invited_is_refused(desk: Desk) -> None:
    carla = Identity.create()
    desk.tell(carla, "dev-c", "reg", register("dev-c", carla))
    desk.tell(carla, "dev-c", "loss", loss("dev-c"))
    assert desk.inbox.refused == {"not invited": 1}
    assert desk.store.rounds.losses(TASK, 1, BASE) == {}


@pytest.mark.reliability("S5", load="a device that nobody approved")
def test_a_device_that_waits_for_approval_is_heard_and_does_not_count(
    make: Callable[..., Desk], record_property: Record
) -> None:
    desk = make(standing="pending")
    body = body_of()

    desk.tell(ANA, "dev-a", "get", get())
    desk.send(body)
    refused = dict(desk.inbox.refused)
    record_property("tried", sum(refused.values()))
    record_property("accepted", len(desk.counted()))
    desk.store.devices.set_standing(["dev-a"], "approved", who="ana")
    desk.send(body)

    assert [what for _, _, what in desk.answers] == ["get", "rejected:pending", "accepted"]
    assert refused == {"pending": 1}
    assert desk.files() == 1


def test_a_quarantined_device_is_heard_and_does_not_count(desk: Desk) -> None:
    body = body_of()
    desk.store.devices.set_standing(["dev-a"], "quarantined", who="ana", reason="harmful")
    desk.inbox.reload()
    desk.send(body)
    desk.tell(ANA, "dev-a", "get", get())
    assert [what for _, _, what in desk.answers] == ["rejected:quarantined", "get"]
    assert desk.inbox.refused == {"quarantined": 1}
    assert desk.files() == 0


@pytest.mark.reliability("S5", load="a revoked device")
def test_a_revoked_device_counts_no_more_at_once_and_is_heard_no_more_once_that_is_known(
    desk: Desk, record_property: Record
) -> None:
    body = body_of()
    desk.store.devices.set_standing(["dev-a"], "revoked", who="ana", reason="stolen")

    desk.send(body)
    desk.inbox.reload()
    desk.send(body)
    desk.tell(ANA, "dev-a", "reg", register("dev-a", ANA))
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    other = Identity.create()
    desk.tell(other, "dev-a", "reg", register("dev-a", other))

    record_property("tried", sum(desk.inbox.refused.values()))
    record_property("accepted", len(desk.counted()))
    assert desk.answers == [("Update", "dev-a", "rejected:revoked")]
    assert desk.inbox.refused == {"revoked": 1, "standing": 4}
    assert desk.strangers == []
    assert "dev-a" not in desk.inbox.keys
    assert desk.store.devices.get("dev-a").standing == "revoked"
    assert desk.files() == 0


# -- what is written down


def test_refusals_are_written_down_by_device_and_reason_once(desk: Desk) -> None:
    body = body_of()
    for _ in range(3):
        desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    desk.send(body, "dev-b", round=9)
    desk.give(TOPICS.up("dev-x", "upd"), b"noise")

    desk.inbox.flush()
    desk.inbox.flush()
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    desk.inbox.flush()

    assert desk.refusals() == [("dev-a", "frame", 4), ("dev-b", "round", 1)]
    # A stranger is counted, and writes nothing into the database: there are as many names as somebody makes up.
    assert desk.inbox.refused == {"frame": 4, "round": 1, "unregistered": 1}
    assert [row[:2] for row in desk.heard.refusals[-2:]] == [("dev-x", "unregistered"), ("dev-a", "frame")]


@contextmanager
def full_disk(desk: Desk, change: str) -> Iterator[None]:
    """Such a change of the database fails meanwhile."""
    with sqlite3.connect(desk.folder / "c.db") as other:
        other.execute(f"CREATE TRIGGER full BEFORE {change} BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(StorageError, match="full"):
        yield
    with sqlite3.connect(desk.folder / "c.db") as other:
        other.execute("DROP TRIGGER full")


@pytest.mark.slow
def test_refusals_that_cannot_be_written_down_are_written_down_later(desk: Desk) -> None:
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    with full_disk(desk, "INSERT ON refusals"):
        desk.inbox.flush()
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    desk.inbox.flush()
    desk.inbox.flush()
    assert desk.refusals() == [("dev-a", "frame", 2)]


def test_when_devices_were_heard_is_written_down_later_where_it_cannot_be_now(desk: Desk) -> None:
    desk.tell(ANA, "dev-a", "get", get())
    with sqlite3.connect(desk.folder / "c.db") as other:
        other.execute("UPDATE devices SET last_seen = 1.0")
    with full_disk(desk, "UPDATE ON devices"):
        desk.inbox.flush()
    desk.inbox.flush()
    assert desk.store.devices.get("dev-a").last_seen > 1.0


def test_the_name_of_a_device_that_was_forgotten_is_free(desk: Desk) -> None:
    desk.tell(ANA, "dev-a", "state", DeviceState(fleet=FLEET, device="dev-a", boot="b1", online=False))
    desk.store.devices.forget("dev-a", who="ana")
    desk.inbox.reload()

    desk.tell(ANA, "dev-a", "get", get())
    desk.tell(BOB, "dev-a", "reg", register("dev-a", BOB))
    desk.inbox.reload()
    desk.tell(BOB, "dev-a", "get", get(boot="b2"))

    assert desk.strangers == ["dev-a"]  # the one that left is asked to register again
    assert [what for _, _, what in desk.answers] == ["presence", "registered", "get"]
    assert desk.inbox.refused == {"unregistered": 1}


def test_a_revoked_devices_refusals_are_written_down_too(desk: Desk) -> None:
    desk.store.devices.set_standing(["dev-a"], "revoked", who="ana")
    desk.inbox.reload()
    desk.give(TOPICS.up("dev-a", "upd"), b"noise")
    desk.inbox.flush()
    assert desk.refusals() == [("dev-a", "standing", 1)]


def test_conflicts_that_a_device_makes_again_and_again_are_noted_once_for_a_round(desk: Desk) -> None:
    for number in range(1, 7):
        desk.send(body_of(float(number)))
    assert desk.verdicts() == ["accepted", *["conflict"] * 5]
    assert [(e.device, e.task, e.round) for e in desk.store.journal.events(kind="conflict")] == [("dev-a", TASK, 1)]


def test_texts_and_numbers_that_a_database_cannot_hold_are_no_way_to_stop_it(either: Desk) -> None:
    state = DeviceState(fleet=FLEET, device="dev-a", boot="b2", online=True, gate="wait", gate_reason="hot\0\x1b[31m")

    either.tell(ANA, "dev-a", "state", state)
    for largest in ((1 << 31) - 1, 1 << 31):
        either.send_fields({"round": largest})
        lost = {**msgspec.to_builtins(loss()), "type": "loss", "round": largest}
        either.give(TOPICS.up("dev-a", "loss"), signed(ANA, TOPICS.up("dev-a", "loss"), lost))
    either.send(body_of())
    either.inbox.flush()

    assert either.store.devices.get("dev-a").gate_reason.startswith("hot")
    assert either.verdicts()[-1] == "accepted"
    assert sum(either.inbox.refused.values()) == 4  # not one of them was left unanswered
    assert sum(row.count for row in either.store.devices.refusals()) == 4


def failed(reason: str) -> Status:
    return Status(fleet=FLEET, device="dev-a", boot="b1", task=TASK, round=1, state="failed", reason=reason)


def test_no_text_of_a_device_that_waits_for_approval_stops_the_journal_of_refusals(
    place: Path | str, make: Callable[..., Desk]
) -> None:
    either = make(place=place, standing="pending")
    for reason in ("upgrade_required\0", "upgrade_required: \0\u202eetomer\x1b[2J"):
        either.tell(ANA, "dev-a", "st", failed(reason))
    either.give(TOPICS.up("dev-b", "st"), b"noise")
    either.inbox.flush()
    rows = {(row.device, row.code): row for row in either.store.devices.refusals()}
    assert set(rows) == {("dev-a", "upgrade_required"), ("dev-b", "frame")}
    assert rows["dev-a", "upgrade_required"].detail == "upgrade_required: ??etomer?[2J"


def test_a_device_cannot_make_up_codes_of_refusals(desk: Desk) -> None:
    for number in range(200):
        desk.tell(ANA, "dev-a", "st", failed(f"upgrade_required_{number}: x"))
    desk.inbox.flush()
    assert desk.inbox.refused == {"upgrade_required": 200}
    assert [(row.code, row.count) for row in desk.store.devices.refusals()] == [("upgrade_required", 200)]
    assert {refusal_code(text) for text in ("schema: x", "made up", "")} == {"schema", "other"}


def test_honest_devices_count_on_either_database(either: Desk) -> None:
    body = body_of()
    either.send(body)
    either.send(body)
    either.send(body, "dev-b")
    either.tell(BOB, "dev-b", "loss", loss("dev-b"))
    assert [what for _, _, what in either.answers] == ["accepted", "duplicate", "accepted", "loss"]
    assert either.store.updates.counted_devices(TASK, 1) == {"dev-a", "dev-b"}
    assert either.files() == 1
