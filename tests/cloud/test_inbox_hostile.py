"""Noise, flipped bits and inventions: nothing ever leaves the handler, on SQLite and on PostgreSQL."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cloud.desk import ANA, FLEET, SIZE, TASK, TOPICS, Desk, Silent, body_of, register, signed, update
from tests.recorder import Record

from auricle.errors import BrokerError
from auricle.wire.frames import CHUNK, MAGIC, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Status, Update
from auricle.wire.tensors import digest, encode


def test_storage_and_link_that_fail_are_logged_and_never_raised(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    body, other = body_of(), body_of(2.0)
    receiver = Silent()
    receiver.error = BrokerError
    silent = desk.open(receiver)
    (desk.folder / "blobs").write_text("not a folder")

    desk.send(body)
    (desk.folder / "blobs").unlink()
    desk.send(other, inbox=silent)
    desk.give(TOPICS.up("dev-x", "upd"), b"noise", silent)

    assert desk.verdicts() == []
    assert caplog.text.count("not acknowledged") == 3
    assert [r.body for r in desk.counted()] == [digest(other)]


def test_what_is_unanswered_because_the_run_ends_is_no_error_in_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.send(body_of(), inbox=desk.open(Silent()))
    assert desk.verdicts() == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.reliability("C2", load="every bit flipped, cut at every byte")
@pytest.mark.slow
def test_every_bit_of_the_header_is_guarded_and_every_cut_noticed(desk: Desk, record_property: Record) -> None:
    body, topic = body_of(), TOPICS.up("dev-a", "upd")
    frame = seal(ANA, topic, update(body), body)
    end = len(frame) - len(body)

    for broken in flipped(frame[:end]):
        desk.give(topic, broken + body)
    for length in range(1, end):
        desk.give(topic, frame[:length])

    # A flip that makes the header name another device is a stranger's; all others are dev-a's, refused and counted.
    record_property("inputs", end * 8 + end - 1)
    record_property("refused", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert sum(desk.inbox.refused.values()) == end * 8 + end - 1
    assert desk.answers == []
    assert desk.counted() == []
    desk.give(topic, frame)
    assert desk.verdicts() == ["accepted"]


def flipped(frame: bytes, begin: int = 0) -> Iterator[bytes]:
    """It with each bit from this byte on the other way round."""
    for bit in range(begin * 8, len(frame) * 8):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        yield bytes(broken)


def test_every_bit_of_a_registration_and_of_a_body_is_guarded(desk: Desk) -> None:
    key = Identity.create()
    topic, body, upload = TOPICS.up("dev-n", "reg"), body_of(), TOPICS.up("dev-a", "upd")
    frame, sent = seal(key, topic, register("dev-n", key)), seal(ANA, upload, update(body), body)

    for broken in flipped(frame):
        desk.give(topic, broken)
    for broken in flipped(sent, len(sent) - len(body)):
        desk.give(upload, broken)

    assert "dev-n" not in desk.inbox.keys
    schema = desk.inbox.refused.pop("upgrade_required")
    assert schema == 7, "the bits of the version's byte, but for the one that makes it none"
    assert desk.inbox.refused == {"unregistered": len(frame) * 8 - schema, "hash": len(body) * 8}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    place = None if request.param == "sqlite" else request.getfixturevalue("server").migrated()
    desk = Desk(tmp_path_factory.mktemp("fuzz"), place=place)
    yield desk
    desk.close()


FUZZ = settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.mark.reliability("C2", load="300 inputs, SQLite and PostgreSQL")
@FUZZ
@given(noise=st.binary(min_size=1, max_size=600), framed=st.booleans())
def test_random_bytes_are_refused_and_counted(
    target: Desk, noise: bytes, framed: bool, record_property: Record
) -> None:
    before = sum(target.inbox.refused.values())
    payload = MAGIC + struct.pack("<H", len(noise)) + noise if framed else noise
    target.give(TOPICS.up("dev-a", "upd"), payload)
    record_property("inputs", sum(target.inbox.refused.values()))
    record_property("counted of wrong ones", len(target.counted()))
    assert sum(target.inbox.refused.values()) == before + 1


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=80)
    | st.binary(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
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
    assert {r.body for r in target.store.updates.counted(TASK, 1)} <= {digest(body_of(2.5))}


@pytest.mark.reliability("C5", load="nesting of 20,000, lengths of 4 GB")
def test_deep_and_wide_headers_cost_nothing(desk: Desk, record_property: Record) -> None:
    topic = TOPICS.up("dev-a", "upd")
    deep = msgspec.Raw(b"\x91" * 3000 + b"\x00")
    for value in (deep, {str(i): i for i in range(500)}, ["x"] * 2000):
        desk.send_fields({"x": value}, b"")
    for raw in (b"\x91" * 20_000, b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x81" * 4000):
        for message in (raw, msgspec.msgpack.encode([raw[:4000], bytes(64)])):
            desk.give(topic, MAGIC + struct.pack("<H", min(len(message), 65535)) + message)

    record_property("refused", sum(desk.inbox.refused.values()))
    record_property("counted of wrong ones", len(desk.counted()))
    assert desk.counted() == []
    assert sum(desk.inbox.refused.values()) == 11


@pytest.mark.reliability(
    "C5", load="2 MB frame, 100,000 parts, 10,000 deep, 1,000,000 keys: memory, and what comes after"
)
@pytest.mark.slow
def test_what_is_far_too_large_takes_less_than_32_mb_and_what_comes_after_counts(
    desk: Desk, record_property: Record
) -> None:
    topic, body = TOPICS.up("dev-a", "upd"), body_of()
    fields = {**msgspec.to_builtins(update(body)), "type": "update"}
    many = fields | {"parts": 100_000, "length": 100_000 * CHUNK}
    frames = [
        seal(ANA, topic, update(body), body) + bytes(2 << 20),
        signed(ANA, topic, fields | {"x": {str(i): i for i in range(1_000_000)}}),
        signed(ANA, topic, fields | {"x": msgspec.Raw(b"\x91" * 10_000 + b"\x00")}),
        *(signed(ANA, topic, many | {"part": part}, bytes(CHUNK)) for part in range(50)),
    ]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for frame in frames:
            desk.give(topic, frame)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()

    record_property("MB", round(most / 1e6, 1))
    record_property("refused", sum(desk.inbox.refused.values()))
    assert most < 32 << 20
    assert sum(desk.inbox.refused.values()) == len(frames)
    assert desk.verdicts() == []
    desk.send(body)
    assert desk.verdicts() == ["accepted"]


def test_a_devices_words_cannot_forge_a_line_of_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    forged = "x\nSECURITY: dev-b sent two different updates\x1b[2J"
    status = Status(fleet=FLEET, device="dev-a", boot="b1", task=TASK, round=1, state="failed", reason=forged)
    desk.tell(ANA, "dev-a", "st", status)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "auricle.cloud"]
    assert said.startswith("dev-a: round 1 failed: ")
    assert said.isprintable()


def test_half_precision_counts_as_it_is_and_an_empty_payload_clears_what_was_retained(desk: Desk) -> None:
    desk.send(encode(np.linspace(-1, 1, SIZE, dtype=np.float32), "float16"), codec="float16")
    desk.give(TOPICS.device_state("dev-a"), b"")
    assert (desk.verdicts(), len(desk.answers), desk.inbox.refused) == (["accepted"], 1, {})
