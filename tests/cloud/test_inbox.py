"""What devices send, honest and hostile: real frames, real keys, a real database (RELIABILITY C1-C6)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auricle.errors import BrokerError
from auricle.frames import CHUNK, DOMAIN, MAGIC, Sealed, seal
from auricle.identity import Identity
from auricle.messages import Ack, DeviceState, Get, Message, Register, Status, Update
from auricle.mqtt import Message as Arrived
from auricle.tensors import digest, encode
from auricle.topics import Topics
from auricle_cloud import inbox as inbox_module
from auricle_cloud.blobs import Blobs
from auricle_cloud.inbox import Inbox
from auricle_cloud.store import Store

FLEET, TASK = "f", "keywords"
TOPICS = Topics(FLEET)
PACK, BASE = "c" * 64, "a" * 64
ANA, BOB = Identity(b"a" * 32), Identity(b"b" * 32)
SIZE = 6


def arrived(topic: str, payload: bytes) -> Arrived:
    return Arrived(topic, payload, qos=1, retain=False, duplicate=False, mid=1, generation=1)


class Desk:
    """An inbox with its database, and everything that it answered."""

    def __init__(self, folder: Path, size: int = SIZE, devices: tuple[str, ...] = ("dev-a", "dev-b")) -> None:
        self.folder = folder
        self.store, self.blobs = Store(folder / "c.db"), Blobs(folder / "blobs")
        self.answers: list[tuple[str, str, str]] = []
        self.strangers: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.inbox = Inbox(FLEET, PACK, size, self.store, self.blobs, self._answer, self._unknown)
        self.store.open_round(TASK, 1, BASE, list(devices), b"")
        for name, key in zip(devices, (ANA, BOB), strict=False):
            self.tell(key, name, "reg", register(name, key))
        self.answers.clear()

    async def _answer(self, message: Message, what: str) -> None:
        self.answers.append((type(message).__name__, message.device, what))

    async def _unknown(self, device: str) -> None:
        self.strangers.append(device)

    def give(self, topic: str, payload: bytes) -> None:
        self.loop.run_until_complete(self.inbox.handle(arrived(topic, payload)))

    def tell(self, key: Identity, device: str, kind: str, message: Message, body: bytes = b"") -> None:
        topic = TOPICS.device_state(device) if kind == "state" else TOPICS.up(device, kind)
        self.give(topic, seal(key, topic, message, body))

    def verdicts(self) -> list[str]:
        return [what for kind, _, what in self.answers if kind == "Update"]

    def files(self) -> int:
        return sum(p.is_file() for p in (self.folder / "blobs").rglob("*"))

    def close(self) -> None:
        self.store.close()
        self.loop.close()


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Desk]:
    numbers = itertools.count()

    def build(*arguments: Any, **options: Any) -> Desk:
        desk = Desk(tmp_path / str(next(numbers)), *arguments, **options)
        request.addfinalizer(desk.close)
        return desk

    return build


@pytest.fixture
def desk(make: Callable[..., Desk]) -> Desk:
    return make()


def register(device: str, key: Identity, **changes: Any) -> Register:
    message = Register(
        fleet=FLEET, device=device, boot="b1", public_key=key.public, agent="1", pack=PACK, architecture="crnn-lite",
        codecs=("float32",), samples=5,
    )  # fmt: skip
    return msgspec.structs.replace(message, **changes)


def body_of(*values: float, size: int = SIZE) -> bytes:
    return np.resize(np.array(values or (0.5,), "<f4"), size).tobytes()


def update(body: bytes, device: str = "dev-a", **changes: Any) -> Update:
    message = Update(
        fleet=FLEET, device=device, boot="b1", task=TASK, round=1, attempt=1, epoch=1, base=BASE, body=digest(body),
        length=len(body), codec="float32", samples=5, loss=1.5,
    )  # fmt: skip
    return msgspec.structs.replace(message, **changes)


def parts_of(body: bytes, device: str = "dev-a", piece: int = CHUNK, **changes: Any) -> list[tuple[Update, bytes]]:
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)]
    return [(update(body, device, part=i, parts=len(pieces), **changes), p) for i, p in enumerate(pieces)]


def signed(key: Identity, topic: str, fields: Any, body: bytes = b"") -> bytes:
    """A frame with a true signature around whatever a registered device may make up."""
    encoded = msgspec.msgpack.encode(fields)
    signature = key.sign(DOMAIN + topic.encode() + b"\0" + encoded)
    header = msgspec.msgpack.encode(Sealed(encoded, signature))
    return MAGIC + struct.pack("<H", len(header) & 0xFFFF) + header + body


# -- who speaks


def test_a_registered_device_is_heard(desk: Desk) -> None:
    body = body_of()

    desk.tell(ANA, "dev-a", "get", Get(fleet=FLEET, device="dev-a", boot="b1", round=0))
    desk.tell(ANA, "dev-a", "st", Status(fleet=FLEET, device="dev-a", boot="b1", task=TASK, round=1, state="failed"))
    desk.tell(ANA, "dev-a", "state", DeviceState(fleet=FLEET, device="dev-a", boot="b2", online=False))
    desk.tell(ANA, "dev-a", "state", DeviceState(fleet=FLEET, device="dev-a", boot="b1", online=False))
    desk.tell(ANA, "dev-a", "upd", update(body), body)

    assert [what for _, _, what in desk.answers] == ["get", "failed", "presence", "presence", "accepted"]
    assert [row["online"] for row in desk.store.devices()] == [False, True]
    assert desk.inbox.refused == {}
    (row,) = desk.store.counted(TASK, 1)
    assert desk.blobs.get(row["body"]) == body


def test_a_stranger_is_asked_to_register_and_not_believed(desk: Desk) -> None:
    key, body = Identity.create(), body_of()

    desk.tell(key, "dev-x", "upd", update(body, "dev-x"), body)
    desk.tell(key, "dev-x", "get", Get(fleet=FLEET, device="dev-x", boot="b", round=0))
    desk.give(TOPICS.up("dev-x", "upd"), b"noise")
    desk.give("auricle/1/f", b"noise")

    assert desk.strangers == ["dev-x", "dev-x", "dev-x", ""]
    assert desk.inbox.refused == {"unregistered": 4}
    assert desk.answers == []
    assert desk.store.counted(TASK, 1) == []
    assert desk.files() == 0


def test_registration_then_updates_count_after_a_restart_too(tmp_path: Path) -> None:
    first = Desk(tmp_path)
    second = Inbox(FLEET, PACK, SIZE, first.store, first.blobs, first._answer, first._unknown)
    body = body_of()
    topic = TOPICS.up("dev-a", "upd")

    first.loop.run_until_complete(second.handle(arrived(topic, seal(ANA, topic, update(body), body))))

    assert first.verdicts() == ["accepted"]
    first.close()


def test_nobody_takes_another_devices_name(desk: Desk) -> None:
    thief, body = Identity.create(), body_of()

    desk.tell(thief, "dev-a", "reg", register("dev-a", thief))
    desk.tell(thief, "dev-a", "upd", update(body), body)
    desk.tell(ANA, "dev-a", "reg", register("dev-a", thief))

    assert desk.inbox.refused == {"signature": 2, "identity": 1}
    assert desk.inbox.keys["dev-a"] == ANA.public
    assert bytes(desk.store.devices()[0]["public_key"]) == ANA.public
    assert desk.answers == []


@pytest.mark.parametrize(
    ("device", "fleet"), [("dev-b", FLEET), ("dev-a", "other"), ("coordinator", FLEET)], ids=["device", "fleet", "name"]
)
def test_a_header_of_another_device_or_fleet_is_refused(desk: Desk, device: str, fleet: str) -> None:
    body = body_of()
    for key in (ANA, BOB):
        desk.tell(key, "dev-a", "upd", update(body, device, fleet=fleet), body)

    assert sum(desk.inbox.refused.values()) == 2
    assert set(desk.inbox.refused) <= {"identity", "signature"}
    assert desk.answers == []
    assert desk.store.counted(TASK, 1) == []


def test_a_registration_of_one_name_on_anothers_topic_registers_nobody(desk: Desk) -> None:
    key = Identity.create()

    desk.tell(key, "dev-a", "reg", register("dev-new", key))
    desk.tell(key, "dev-x", "reg", register("dev-new", key))

    assert "dev-new" not in desk.inbox.keys
    assert desk.inbox.refused == {"identity": 1, "unregistered": 1}
    assert len(desk.store.devices()) == 2


def test_a_device_with_another_pack_is_not_registered(desk: Desk) -> None:
    key = Identity.create()

    desk.tell(key, "dev-p", "reg", register("dev-p", key, pack="d" * 64))

    assert desk.inbox.refused == {"pack": 1}
    assert "dev-p" not in desk.inbox.keys


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


def test_another_schema_asks_for_an_upgrade(desk: Desk) -> None:
    topic = TOPICS.up("dev-a", "get")
    fields = {"type": "get", "fleet": FLEET, "device": "dev-a", "boot": "b", "round": 0, "schema": 2, "new": [1]}

    desk.give(topic, signed(ANA, topic, fields))
    desk.give(topic, signed(ANA, topic, {**fields, "schema": 1}))

    assert desk.inbox.refused == {"upgrade_required": 1}
    assert desk.answers == [("Get", "dev-a", "get")]


# -- what counts


def test_a_replay_and_a_duplicate_count_once(desk: Desk) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    frame = seal(ANA, topic, update(body), body)

    for _ in range(5):
        desk.give(topic, frame)
    desk.tell(ANA, "dev-a", "upd", update(body, attempt=2), body)

    assert desk.verdicts() == ["accepted", *["duplicate"] * 5]
    assert [r["attempt"] for r in desk.store.counted(TASK, 1)] == [1]
    assert desk.files() == 1


def test_two_different_updates_are_a_security_event(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    first, second = body_of(1.0), body_of(2.0)

    desk.tell(ANA, "dev-a", "upd", update(first), first)
    desk.tell(ANA, "dev-a", "upd", update(second, attempt=2), second)

    assert desk.verdicts() == ["accepted", "conflict"]
    assert "SECURITY: dev-a sent two different updates for round 1" in caplog.text
    assert [r["body"] for r in desk.store.counted(TASK, 1)] == [digest(first)]
    assert desk.files() == 1


def test_what_does_not_count_leaves_no_file(desk: Desk) -> None:
    body = body_of(3.0)
    desk.store.open_round(TASK, 2, BASE, ["dev-b"], b"")

    desk.tell(ANA, "dev-a", "upd", update(body, round=3), body)
    desk.tell(ANA, "dev-a", "upd", update(body, task="other"), body)
    desk.tell(ANA, "dev-a", "upd", update(body, round=2), body)
    desk.tell(ANA, "dev-a", "upd", update(body, base="e" * 64), body)
    desk.store.set_state(TASK, 1, "closing")
    desk.tell(ANA, "dev-a", "upd", update(body), body)

    assert desk.verdicts() == [
        "rejected:round", "rejected:round", "rejected:not invited", "rejected:base", "late",
    ]  # fmt: skip
    assert desk.store.counted(TASK, 1) == []
    assert desk.files() == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"codec": "int4"}, "codec"),
        ({"codec": "float16"}, "shape"),
        ({"length": SIZE * 4 - 4}, "shape"),
        ({"length": SIZE * 4 + 4}, "shape"),
        ({"body": "9" * 64}, "hash"),
        ({"loss": -0.1}, "loss"),
        ({"loss": float("nan")}, "loss"),
        ({"loss": float("inf")}, "loss"),
        ({"loss": float("-inf")}, "loss"),
        ({"loss": 1e300}, "loss"),
        ({"samples": 0}, "samples"),
        ({"samples": 10**12}, "samples"),
        ({"part": 1}, "part"),
    ],
)
def test_a_header_that_cannot_be_is_rejected_with_the_reason(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    body = body_of()
    topic = TOPICS.up("dev-a", "upd")
    fields = {**msgspec.to_builtins(update(body)), "type": "update", **changes}

    desk.give(topic, signed(ANA, topic, fields, body[: fields["length"]]))

    assert desk.inbox.refused == {reason: 1}
    assert [v.split(":")[:2] for v in desk.verdicts()] == [["rejected", reason]]
    assert desk.store.counted(TASK, 1) == []
    assert desk.files() == 0


@pytest.mark.parametrize("field", ["samples", "round", "attempt", "epoch", "length"])
def test_a_negative_number_is_no_message(desk: Desk, field: str) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    fields = {**msgspec.to_builtins(update(body)), "type": "update", field: -1}

    desk.give(topic, signed(ANA, topic, fields, body))

    assert desk.inbox.refused == {"schema": 1}
    assert desk.answers == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 3e38, -3e38])
def test_weights_that_no_model_has_are_rejected_and_others_still_count(desk: Desk, value: float) -> None:
    bad, good = body_of(0.5, value, 0.5), body_of(0.5, 1e-40)

    desk.tell(ANA, "dev-a", "upd", update(bad), bad)
    desk.tell(BOB, "dev-b", "upd", update(good, "dev-b"), good)

    assert [v.split(":")[:2] for v in desk.verdicts()] == [["rejected", "values"], ["accepted"]]
    assert [r["device"] for r in desk.store.counted(TASK, 1)] == ["dev-b"]


def test_a_shorter_or_longer_body_than_the_header_says(desk: Desk) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    fields = {**msgspec.to_builtins(update(body)), "type": "update"}

    desk.give(topic, signed(ANA, topic, fields, body[:-1]))
    desk.give(topic, signed(ANA, topic, fields, body + b"x"))
    desk.give(topic, signed(ANA, topic, fields, bytes(121 * 1024)))

    assert desk.inbox.refused == {"hash": 1, "body": 1, "frame": 1}
    assert desk.store.counted(TASK, 1) == []


# -- updates in parts


def test_parts_in_any_order_and_repeated_make_one_update(make: Callable[..., Desk]) -> None:
    size = 4 * CHUNK // 4 + 17
    body = np.arange(size, dtype="<f4").tobytes()
    rng = random.Random(0)
    for _ in range(4):
        desk = make(size)
        sent = parts_of(body) + parts_of(body)[:2]
        rng.shuffle(sent)

        for message, piece in sent:
            desk.tell(ANA, "dev-a", "upd", message, piece)

        # What came twice before the whole did is nothing new; what came after it stands alone until it is resent.
        assert desk.verdicts() == ["accepted"]
        assert desk.inbox.refused == {}
        (row,) = desk.store.counted(TASK, 1)
        assert desk.blobs.get(row["body"]) == body


def test_two_devices_parts_do_not_mix(make: Callable[..., Desk]) -> None:
    size = CHUNK // 4 + 1
    desk = make(size)
    bodies = {"dev-a": bytes(4 * size), "dev-b": body_of(1.0, 2.0, size=size)}
    pairs = zip(parts_of(bodies["dev-a"], "dev-a"), parts_of(bodies["dev-b"], "dev-b"), strict=True)

    for one, other in pairs:
        desk.tell(ANA, "dev-a", "upd", *one)
        desk.tell(BOB, "dev-b", "upd", *other)

    assert desk.verdicts() == ["accepted", "accepted"]
    assert [desk.blobs.get(r["body"]) for r in desk.store.counted(TASK, 1)] == list(bodies.values())


def test_a_newer_body_replaces_unfinished_parts(make: Callable[..., Desk]) -> None:
    size = CHUNK // 4 + 1
    desk = make(size)
    old, new = bytes(4 * size), body_of(1.0, size=size)

    desk.tell(ANA, "dev-a", "upd", *parts_of(old)[0])
    for message, piece in parts_of(new, attempt=2):
        desk.tell(ANA, "dev-a", "upd", message, piece)

    assert desk.verdicts() == ["accepted"]
    assert [r["body"] for r in desk.store.counted(TASK, 1)] == [digest(new)]


def test_parts_that_are_together_too_long_are_given_up(make: Callable[..., Desk]) -> None:
    size = CHUNK // 4 + 1
    desk = make(size)
    body = bytes(4 * size)

    for i in range(40):
        desk.tell(ANA, "dev-a", "upd", update(body, part=i, parts=4096), body[:CHUNK])

    assert desk.inbox.refused == {"part": 20}
    assert sum(a.size for a in desk.inbox._assemblies.values()) <= len(body)


def test_parts_of_a_lying_header_are_rejected_as_a_whole(make: Callable[..., Desk]) -> None:
    size = CHUNK // 4 + 1
    desk = make(size)
    body = bytes(4 * size)
    (first, _), (second, tail) = parts_of(body)

    desk.tell(ANA, "dev-a", "upd", first, b"x" * CHUNK)
    desk.tell(ANA, "dev-a", "upd", second, tail)
    for message, piece in parts_of(body):
        desk.tell(ANA, "dev-a", "upd", message, piece)

    assert [v.split(":")[0] for v in desk.verdicts()] == ["rejected", "accepted"]
    assert desk.inbox.refused == {"hash": 1}


def test_memory_for_unfinished_updates_is_bounded(make: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "ASSEMBLY_BUDGET", CHUNK + 10)
    size = CHUNK // 4 + 1
    desk = make(size)
    body = bytes(4 * size)

    desk.tell(ANA, "dev-a", "upd", *parts_of(body, "dev-a")[0])
    desk.tell(BOB, "dev-b", "upd", *parts_of(body, "dev-b")[0])
    desk.tell(ANA, "dev-a", "upd", *parts_of(body, "dev-a")[1])
    for message, piece in parts_of(body, "dev-b"):
        desk.tell(BOB, "dev-b", "upd", message, piece)

    assert desk.inbox.refused == {"memory": 1}
    assert desk.verdicts() == ["accepted", "accepted"]
    assert desk.inbox._assemblies == {}


def test_an_update_that_rests_makes_room(make: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "ASSEMBLY_BUDGET", CHUNK + 10)
    size = CHUNK // 4 + 1
    desk = make(size)
    body = bytes(4 * size)
    desk.tell(ANA, "dev-a", "upd", *parts_of(body, "dev-a")[0])
    desk.inbox._assemblies["dev-a"].touched -= inbox_module.ASSEMBLY_SECONDS + 1

    for message, piece in parts_of(body, "dev-b"):
        desk.tell(BOB, "dev-b", "upd", message, piece)

    assert desk.verdicts() == ["accepted"]
    assert desk.inbox.refused == {}


# -- nothing ever leaves the handler


def test_storage_and_link_that_fail_are_logged_and_never_raised(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(*_: object) -> None:
        raise BrokerError("the link was stopped")

    body, other = body_of(), body_of(2.0)
    silent = Inbox(FLEET, PACK, SIZE, desk.store, desk.blobs, refuse, refuse)
    topic = TOPICS.up("dev-a", "upd")
    (desk.folder / "blobs").write_text("not a folder")

    desk.tell(ANA, "dev-a", "upd", update(body), body)
    (desk.folder / "blobs").unlink()
    desk.loop.run_until_complete(silent.handle(arrived(topic, seal(ANA, topic, update(other), other))))
    desk.loop.run_until_complete(silent.handle(arrived(TOPICS.up("dev-x", "upd"), b"noise")))

    assert desk.verdicts() == []
    assert caplog.text.count("not acknowledged") == 3
    assert [r["body"] for r in desk.store.counted(TASK, 1)] == [digest(other)]


def test_every_bit_of_the_header_is_guarded_and_every_cut_noticed(desk: Desk) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    frame = seal(ANA, topic, update(body), body)
    end = len(frame) - len(body)

    for bit in range(end * 8):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        desk.give(topic, bytes(broken))
    for length in range(1, end):
        desk.give(topic, frame[:length])

    # A flip that makes the header name another device is a stranger's; all others are dev-a's, refused and counted.
    assert sum(desk.inbox.refused.values()) == end * 8 + end - 1
    assert desk.answers == []
    assert desk.store.counted(TASK, 1) == []
    desk.give(topic, frame)
    assert desk.verdicts() == ["accepted"]


def test_every_bit_of_a_registration_and_of_a_body_is_guarded(desk: Desk) -> None:
    key = Identity.create()
    topic, body, upload = TOPICS.up("dev-n", "reg"), body_of(), TOPICS.up("dev-a", "upd")
    frame, sent = seal(key, topic, register("dev-n", key)), seal(ANA, upload, update(body), body)

    for bit in range(len(frame) * 8):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        desk.give(topic, bytes(broken))
    for bit in range((len(sent) - len(body)) * 8, len(sent) * 8):
        broken = bytearray(sent)
        broken[bit // 8] ^= 1 << bit % 8
        desk.give(upload, bytes(broken))

    assert "dev-n" not in desk.inbox.keys
    assert desk.inbox.refused == {"unregistered": len(frame) * 8, "hash": len(body) * 8}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("fuzz"))


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@FUZZ
@given(noise=st.binary(min_size=1, max_size=600), framed=st.booleans())
def test_random_bytes_are_refused_and_counted(target: Desk, noise: bytes, framed: bool) -> None:
    before = sum(target.inbox.refused.values())
    payload = MAGIC + struct.pack("<H", len(noise)) + noise if framed else noise

    target.give(TOPICS.up("dev-a", "upd"), payload)

    assert sum(target.inbox.refused.values()) == before + 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=80)
    | st.binary(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@FUZZ
@given(
    changes=st.dictionaries(st.sampled_from([*Update.__struct_fields__, "type", "more"]), VALUES, max_size=5),
    body=st.binary(max_size=40) | st.just(body_of(2.5)),
    kind=st.sampled_from(["upd", "reg", "get", "st"]),
)
def test_a_registered_devices_inventions_never_leave_the_handler(
    target: Desk, changes: dict[str, Any], body: bytes, kind: str
) -> None:
    topic = TOPICS.up("dev-a", kind)
    fields = {**msgspec.to_builtins(update(body_of(2.5))), "type": "update", **changes}

    target.give(topic, signed(ANA, topic, fields, body))

    assert {r["body"] for r in target.store.counted(TASK, 1)} <= {digest(body_of(2.5))}


def test_deep_and_wide_headers_cost_nothing(desk: Desk) -> None:
    topic = TOPICS.up("dev-a", "upd")
    deep = msgspec.Raw(b"\x91" * 3000 + b"\x00")
    for value in (deep, {str(i): i for i in range(500)}, ["x"] * 2000):
        desk.give(topic, signed(ANA, topic, {**msgspec.to_builtins(update(body_of())), "type": "update", "x": value}))
    for raw in (b"\x91" * 20_000, b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x81" * 4000):
        for message in (raw, msgspec.msgpack.encode([raw[:4000], bytes(64)])):
            desk.give(topic, MAGIC + struct.pack("<H", min(len(message), 65535)) + message)

    assert desk.store.counted(TASK, 1) == []
    assert sum(desk.inbox.refused.values()) == 11


def test_an_empty_payload_clears_a_retained_message_and_says_nothing(desk: Desk) -> None:
    desk.give(TOPICS.device_state("dev-a"), b"")

    assert desk.inbox.refused == {}
    assert desk.answers == []


def test_refusals_are_logged_by_device(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "auricle.cloud"):
        desk.give(TOPICS.up("dev-a", "upd"), b"noise")

    assert "refused a frame of dev-a: frame" in caplog.text


def test_half_precision_counts_as_it_is(desk: Desk) -> None:
    body = encode(np.linspace(-1, 1, SIZE, dtype=np.float32), "float16")

    desk.tell(ANA, "dev-a", "upd", update(body, codec="float16"), body)

    assert desk.verdicts() == ["accepted"]
