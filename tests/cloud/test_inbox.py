"""What devices send, honest and hostile: real frames, real keys, a real database (RELIABILITY C1-C6)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.cloud.arrivals import open_round
from tests.cloud.desk import (
    ANA,
    BASE,
    BOB,
    FLEET,
    SIZE,
    TASK,
    TOPICS,
    Desk,
    arrived,
    body_of,
    loss,
    parts_of,
    register,
    signed,
    update,
)
from tests.recorder import Record

from auricle.wire.frames import CHUNK, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Ack, DeviceState, Get, Status
from auricle.wire.tensors import digest
from auricle_cloud.link.assembly import Assemblies

# -- who speaks


def test_a_registered_device_is_heard(desk: Desk) -> None:
    body = body_of()

    desk.tell(ANA, "dev-a", "get", Get(fleet=FLEET, device="dev-a", boot="b1", round=0))
    desk.tell(ANA, "dev-a", "st", Status(fleet=FLEET, device="dev-a", boot="b1", task=TASK, round=1, state="failed"))
    desk.tell(ANA, "dev-a", "state", DeviceState(fleet=FLEET, device="dev-a", boot="b2", online=False))
    desk.tell(ANA, "dev-a", "state", DeviceState(fleet=FLEET, device="dev-a", boot="b1", online=False))
    gone = [row.online for row in desk.store.devices.all()]
    desk.tell(ANA, "dev-a", "loss", loss())
    desk.send(body)

    assert [what for _, _, what in desk.answers] == ["get", "failed", "presence", "presence", "loss", "accepted"]
    assert gone == [False, True]
    assert desk.store.devices.get("dev-a").online  # whoever speaks is here
    assert desk.inbox.refused == {}
    (row,) = desk.counted()
    assert desk.blobs.get(row.body) == body


def test_after_a_start_a_message_tells_that_a_device_is_here_and_what_the_broker_kept_does_not(desk: Desk) -> None:
    desk.store.devices.forget_presence()
    inbox, topic, devices = desk.open(desk.heard), TOPICS.device_state("dev-a"), desk.store.devices
    birth = seal(ANA, topic, DeviceState(fleet=FLEET, device="dev-a", boot="b1", online=True, gate="wait"))

    for generation in (1, 2):
        desk.loop.run_until_complete(inbox.handle(replace(arrived(topic, birth), retain=True, generation=generation)))
    before = devices.get("dev-a")
    asked = TOPICS.up("dev-a", "get")
    desk.give(asked, seal(ANA, asked, Get(fleet=FLEET, device="dev-a", boot="b1", round=0)), inbox)
    inbox.flush()

    assert (before.online, before.gate) == (False, "wait")
    assert desk.heard.kept == ["dev-a"]  # asked on a second connection; to the first one devices answer by themselves
    assert devices.get("dev-a").online and devices.get("dev-a").last_seen > before.last_seen
    assert not devices.get("dev-b").online


def test_a_stranger_is_asked_to_register_and_not_believed(desk: Desk) -> None:
    key, body = Identity.create(), body_of()

    desk.tell(key, "dev-x", "upd", update(body, "dev-x"), body)
    desk.tell(key, "dev-x", "get", Get(fleet=FLEET, device="dev-x", boot="b", round=0))
    desk.give(TOPICS.up("dev-x", "upd"), b"noise")
    desk.give("auricle/1/f", b"noise")

    assert desk.strangers == ["dev-x", "dev-x", "dev-x", ""]
    assert desk.inbox.refused == {"unregistered": 4}
    assert desk.answers == []
    assert desk.counted() == []
    assert desk.files() == 0


def test_registration_then_updates_count_after_a_restart_too(desk: Desk) -> None:
    desk.send(body_of(), inbox=desk.open(desk.heard))
    assert desk.verdicts() == ["accepted"]


def test_nobody_takes_another_devices_name(desk: Desk) -> None:
    thief, body = Identity.create(), body_of()

    desk.tell(thief, "dev-a", "reg", register("dev-a", thief))
    desk.tell(thief, "dev-a", "upd", update(body), body)
    desk.tell(ANA, "dev-a", "reg", register("dev-a", thief))

    assert desk.inbox.refused == {"signature": 1, "identity": 2}
    assert desk.heard.kept == [f"taken: dev-a {thief.public.hex()[:8]}"] * 2  # that board is told, and not dev-a
    assert desk.inbox.keys["dev-a"] == ANA.public
    assert bytes(desk.store.devices.all()[0].public_key) == ANA.public
    assert desk.answers == []


@pytest.mark.reliability("S2", load="a header that names another")
@pytest.mark.parametrize(
    ("device", "fleet"), [("dev-b", FLEET), ("dev-a", "other"), ("coordinator", FLEET)], ids=["device", "fleet", "name"]
)
def test_a_header_of_another_device_or_fleet_is_refused(
    desk: Desk, device: str, fleet: str, record_property: Record
) -> None:
    body = body_of()
    for key in (ANA, BOB):
        desk.tell(key, "dev-a", "upd", update(body, device, fleet=fleet), body)
    record_property("refused", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert sum(desk.inbox.refused.values()) == 2
    assert set(desk.inbox.refused) <= {"identity", "signature"}
    assert desk.answers == []
    assert desk.counted() == []


def test_a_registration_of_one_name_on_anothers_topic_registers_nobody(desk: Desk) -> None:
    key = Identity.create()
    desk.tell(key, "dev-a", "reg", register("dev-new", key))
    desk.tell(key, "dev-x", "reg", register("dev-new", key))
    assert "dev-new" not in desk.inbox.keys
    assert desk.inbox.refused == {"identity": 1, "unregistered": 1}
    assert len(desk.store.devices.all()) == 2


def test_a_frame_moved_to_another_topic_is_refused(desk: Desk) -> None:
    body = body_of()
    frame = seal(ANA, TOPICS.up("dev-a", "upd"), update(body), body)
    desk.give(TOPICS.up("dev-a", "st"), frame)
    desk.give(TOPICS.up("dev-b", "upd"), frame)
    assert desk.inbox.refused == {"signature": 2}
    assert desk.answers == []


def test_what_only_a_coordinator_says_is_refused_from_a_device(desk: Desk) -> None:
    ack = Ack(fleet=FLEET, device="dev-a", boot="b", task=TASK, round=1, attempt=1, epoch=9, body=BASE, verdict="x")
    desk.tell(ANA, "dev-a", "upd", ack)
    assert desk.inbox.refused == {"type": 1}


@pytest.mark.reliability("U1", load="the coordinator's side")
def test_another_schema_asks_for_an_upgrade(desk: Desk, record_property: Record) -> None:
    topic = TOPICS.up("dev-a", "get")
    fields = {"type": "get", "fleet": FLEET, "device": "dev-a", "boot": "b", "round": 0, "schema": 2, "new": [1]}
    desk.give(topic, signed(ANA, topic, fields))
    desk.give(topic, signed(ANA, topic, {**fields, "schema": 1}))
    record_property("upgrades asked for", desk.inbox.refused["upgrade_required"])
    assert desk.inbox.refused == {"upgrade_required": 1}
    assert desk.answers == [("Get", "dev-a", "get")]


def test_of_another_schema_a_newcomer_is_not_asked_to_register_and_a_device_is_counted(desk: Desk) -> None:
    topic = TOPICS.up("dev-new", "reg")
    said = Status(fleet=FLEET, device="dev-a", boot="b", task="", round=0, state="failed", reason="upgrade_required: 1")
    desk.give(topic, signed(ANA, topic, {"type": "register", "fleet": FLEET, "device": "dev-new", "schema": 2}))
    assert (desk.inbox.refused, desk.answers) == ({"upgrade_required": 1}, [])
    desk.tell(ANA, "dev-a", "st", said)
    assert desk.inbox.refused == {"upgrade_required": 2}


# -- what counts


@pytest.mark.reliability("C6", load="the same frame again")
def test_a_replay_and_a_duplicate_count_once(desk: Desk, record_property: Record) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    frame = seal(ANA, topic, update(body), body)
    for _ in range(5):
        desk.give(topic, frame)
    desk.send(body, attempt=2)
    record_property("sent", len(desk.verdicts()))
    record_property("doubled", len(desk.counted()) - 1)
    assert desk.verdicts() == ["accepted", *["duplicate"] * 5]
    assert [r.attempt for r in desk.counted()] == [1]
    assert desk.files() == 1


@pytest.mark.reliability("C6", load="another body under the same key")
def test_two_different_updates_are_a_security_event(
    desk: Desk, caplog: pytest.LogCaptureFixture, record_property: Record
) -> None:
    first, second = body_of(1.0), body_of(2.0)
    desk.send(first)
    desk.send(second, attempt=2)
    record_property("conflicts logged", caplog.text.count("SECURITY: dev-a"))
    record_property("doubled", len(desk.counted()) - 1)
    assert desk.verdicts() == ["accepted", "conflict"]
    assert "SECURITY: dev-a" in caplog.text
    assert [r.body for r in desk.counted()] == [digest(first)]
    assert desk.files() == 1


def test_what_does_not_count_leaves_no_file(desk: Desk) -> None:
    body = body_of(3.0)
    open_round(desk.store, ["dev-b"], 2, task=TASK, base=BASE)

    desk.send(body, round=3)
    desk.send(body, task="other")
    desk.send(body, round=2)
    desk.send(body, base="e" * 64)
    desk.store.rounds.move(TASK, 1, "collecting", "closing")
    desk.send(body)

    assert desk.verdicts() == [*(f"rejected:{why}" for why in ("round", "round", "not invited", "base")), "late"]
    assert desk.inbox.refused == {"round": 2, "not invited": 1, "base": 1}
    assert desk.counted() == []
    assert desk.files() == 0


@pytest.mark.reliability("C3", "C4", load="codec, length, hash, part; losses of no number, 0 and 10^12 samples")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"codec": "int4"}, "codec"),
        ({"codec": "float16"}, "shape"),
        ({"codec": "int8"}, "shape"),
        ({"length": SIZE * 4 - 4}, "shape"),
        ({"length": SIZE * 4 + 4}, "shape"),
        ({"body": "9" * 64}, "hash"),
        *(({"loss": loss}, "loss") for loss in (-0.1, float("nan"), float("inf"), float("-inf"), 1e300)),
        ({"samples": 0}, "samples"),
        ({"samples": 10**12}, "samples"),
        ({"part": 1}, "part"),
    ],
)
def test_a_header_that_cannot_be_is_rejected_with_the_reason(
    desk: Desk, changes: dict[str, Any], reason: str, record_property: Record
) -> None:
    desk.send_fields(changes, body_of()[: changes.get("length", SIZE * 4)])
    record_property("tried", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert desk.inbox.refused == {reason: 1}
    assert [v.split(":")[:2] for v in desk.verdicts()] == [["rejected", reason]]
    assert desk.counted() == []
    assert desk.files() == 0


@pytest.mark.reliability("C3", load="negative samples")
@pytest.mark.parametrize("field", ["samples", "round", "attempt", "epoch", "length"])
def test_a_negative_number_is_no_message(desk: Desk, field: str, record_property: Record) -> None:
    desk.send_fields({field: -1})
    record_property("tried", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert desk.inbox.refused == {"schema": 1}
    assert desk.answers == []


@pytest.mark.reliability("C3", load="NaN, infinities, huge norms")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 3e38, -3e38])
def test_weights_that_no_model_has_are_rejected_and_others_still_count(
    desk: Desk, value: float, record_property: Record
) -> None:
    bad, good = body_of(0.5, value, 0.5), body_of(0.5, 1e-40)
    desk.send(bad)
    desk.send(good, "dev-b")
    record_property("tried", len(desk.verdicts()))
    record_property("counted of wrong ones", sum(row.device == "dev-a" for row in desk.counted()))
    assert [v.split(":")[:2] for v in desk.verdicts()] == [["rejected", "values"], ["accepted"]]
    assert [r.device for r in desk.counted()] == ["dev-b"]


@pytest.mark.reliability("C4", load="wrong lengths")
def test_a_shorter_or_longer_body_than_the_header_says(desk: Desk, record_property: Record) -> None:
    for body in (body_of()[:-1], body_of() + b"x", bytes(121 * 1024)):
        desk.send_fields({}, body)
    record_property("tried", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert desk.inbox.refused == {"hash": 1, "body": 1, "frame": 1}
    assert desk.counted() == []


# -- updates in parts

TWO = CHUNK // 4 + 1
"""Weights whose update takes two parts."""


def test_parts_in_any_order_and_repeated_make_one_update(make: Callable[..., Desk]) -> None:
    body, rng = np.arange(CHUNK + 17, dtype="<f4").tobytes(), random.Random(0)
    for _ in range(4):
        desk = make(len(body) // 4)
        sent = parts_of(body) + parts_of(body)[:2]
        rng.shuffle(sent)

        for message, piece in sent:
            desk.tell(ANA, "dev-a", "upd", message, piece)

        # What came twice before the whole did is nothing new; what came after it stands alone until it is resent.
        assert desk.verdicts() == ["accepted"]
        assert desk.inbox.refused == {}
        (row,) = desk.counted()
        assert desk.blobs.get(row.body) == body


def test_two_devices_parts_do_not_mix(make: Callable[..., Desk]) -> None:
    desk = make(TWO)
    bodies = {"dev-a": bytes(4 * TWO), "dev-b": body_of(1.0, 2.0, size=TWO)}
    pairs = zip(parts_of(bodies["dev-a"], "dev-a"), parts_of(bodies["dev-b"], "dev-b"), strict=True)
    for one, other in pairs:
        desk.tell(ANA, "dev-a", "upd", *one)
        desk.tell(BOB, "dev-b", "upd", *other)
    assert desk.verdicts() == ["accepted", "accepted"]
    assert [desk.blobs.get(r.body) for r in desk.counted()] == list(bodies.values())


def test_parts_that_are_together_too_long_are_given_up(make: Callable[..., Desk]) -> None:
    desk = make(TWO)
    body = bytes(4 * TWO)
    for i in range(40):
        desk.tell(ANA, "dev-a", "upd", update(body, part=i, parts=4096), body[:CHUNK])
    assert desk.inbox.refused == {"part": 20}
    assert desk.inbox._updates._assemblies.size <= len(body)


def test_parts_of_a_lying_header_are_rejected_as_a_whole(make: Callable[..., Desk]) -> None:
    desk = make(TWO)
    body = bytes(4 * TWO)
    (first, _), (second, tail) = parts_of(body)

    desk.tell(ANA, "dev-a", "upd", first, b"x" * CHUNK)
    desk.tell(ANA, "dev-a", "upd", second, tail)
    for message, piece in parts_of(body):
        desk.tell(ANA, "dev-a", "upd", message, piece)

    assert [v.split(":")[0] for v in desk.verdicts()] == ["rejected", "accepted"]
    assert desk.inbox.refused == {"hash": 1}


@pytest.mark.reliability("C5", load="parts beyond the budget")
def test_memory_for_unfinished_updates_is_bounded_and_who_found_no_room_may_send_again(
    make: Callable[..., Desk], record_property: Record
) -> None:
    desk = make(TWO)
    desk.inbox._updates._assemblies = Assemblies(CHUNK + 10)
    body = bytes(4 * TWO)

    desk.tell(ANA, "dev-a", "upd", *parts_of(body, "dev-a")[0])
    desk.tell(BOB, "dev-b", "upd", *parts_of(body, "dev-b")[0])
    record_property("bytes held", desk.inbox._updates._assemblies.size)
    record_property("refused", desk.inbox.refused["memory"])
    desk.tell(ANA, "dev-a", "upd", *parts_of(body, "dev-a")[1])
    for message, piece in parts_of(body, "dev-b"):
        desk.tell(BOB, "dev-b", "upd", message, piece)

    assert desk.inbox.refused == {"memory": 1}
    assert desk.verdicts() == ["accepted", "accepted"]
    assert desk.inbox._updates._assemblies.size == 0
