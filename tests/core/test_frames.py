"""Frames: what was signed arrives unchanged, everything else is refused and never crashes the reader."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgspec
import pytest

from auricle.errors import WireError
from auricle.wire.frames import CHUNK, LARGEST_FRAME, LARGEST_HEADER, MAGIC, Sealed, _bytes_to_sign, open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Get, Message, Register, Update

IDENTITY = Identity(bytes(range(32)))
STRANGER = Identity(bytes(range(1, 33)))
TOPIC = "auricle/1/home/d/kitchen/up/upd"
GET = Get(fleet="home", device="kitchen", boot="b00t", round=3)
HASH = "0" * 64


def _update(**changes: Any) -> Update:
    values: dict[str, Any] = {"fleet": "home", "device": "kitchen", "boot": "b00t", "task": "keywords", "round": 3}
    values |= {"attempt": 1, "epoch": 1, "base": HASH, "body": HASH, "length": 1 << 20}
    return Update(**{**values, "codec": "float32", "samples": 40, "loss": 2.5, **changes})


def _key(_: Message) -> bytes:
    return IDENTITY.public


def _raw(message: bytes, topic: str = TOPIC, identity: Identity = IDENTITY) -> bytes:
    """A frame around any bytes, rightly signed."""
    header = msgspec.msgpack.encode(Sealed(message, identity.sign(_bytes_to_sign(topic, message))))
    return MAGIC + struct.pack("<H", len(header)) + header


def test_a_frame_opens_to_what_was_sealed() -> None:
    message, body = open_frame(seal(IDENTITY, TOPIC, _update(), b"\0\1\2"), TOPIC, _key)
    assert msgspec.structs.replace(message, nonce="") == _update()
    assert len(message.nonce) == 16
    assert seal(IDENTITY, TOPIC, GET) != seal(IDENTITY, TOPIC, GET)
    assert body == b"\0\1\2"


def test_the_layout_is_magic_length_header_body() -> None:
    frame = seal(IDENTITY, TOPIC, _update(nonce="n"), b"body")
    (length,) = struct.unpack("<H", frame[4:6])
    message, signature = msgspec.msgpack.decode(frame[6 : 6 + length])
    assert (frame[:4], frame[6 + length :], len(signature)) == (b"AUR1", b"body", 64)
    assert msgspec.msgpack.decode(message)["type"] == "update"
    assert IDENTITY.sign(b"auricle/1\0" + TOPIC.encode() + b"\0" + message) == signature


@pytest.mark.parametrize("changes", [{}, {"task": "~" * 64, "boot": "~" * 64, "codec": "~" * 64, "nonce": "~" * 64}])
def test_a_chunk_always_fits_a_frame(changes: dict[str, str]) -> None:
    frame = seal(IDENTITY, TOPIC, _update(fleet="f" * 64, device="d" * 64, **changes), bytes(CHUNK))
    assert len(frame) <= LARGEST_FRAME
    assert len(open_frame(frame, TOPIC, _key)[1]) == CHUNK


def test_a_chunk_beside_the_largest_header_fits_a_frame() -> None:
    header = msgspec.msgpack.encode(Sealed(bytes(LARGEST_HEADER), bytes(64)))
    assert len(MAGIC) + 2 + len(header) + CHUNK <= LARGEST_FRAME


def test_what_does_not_fit_is_not_sealed() -> None:
    with pytest.raises(WireError, match="over the limit"):
        seal(IDENTITY, TOPIC, _update(), bytes(LARGEST_FRAME))
    with pytest.raises(WireError, match=r"header of .* is over the limit"):
        seal(IDENTITY, TOPIC, _update(task="x" * 5000))


def test_only_an_update_may_have_a_body_and_no_longer_than_it_says() -> None:
    with pytest.raises(WireError, match="1 bytes where the message allows 0"):
        seal(IDENTITY, TOPIC, GET, b"x")
    with pytest.raises(WireError, match="3 bytes where the message allows 2"):
        seal(IDENTITY, TOPIC, _update(length=2), b"xyz")
    with pytest.raises(WireError, match="body: 5 bytes"):
        open_frame(seal(IDENTITY, TOPIC, GET) + b"audio", TOPIC, _key)


@pytest.mark.parametrize("key", [STRANGER.public, None, b"", IDENTITY.public])
def test_a_frame_that_is_anothers_or_was_moved_does_not_open(key: bytes | None) -> None:
    topic = "auricle/1/home/d/pantry/up/upd" if key == IDENTITY.public else TOPIC
    with pytest.raises(WireError, match="signature"):
        open_frame(seal(IDENTITY, TOPIC, GET), topic, lambda _: key)


def test_a_frame_cut_anywhere_does_not_open() -> None:
    frame = seal(IDENTITY, TOPIC, GET)
    for length in range(len(frame)):
        with pytest.raises(WireError):
            open_frame(frame[:length], TOPIC, _key)


def test_one_changed_byte_of_the_header_does_not_open() -> None:
    frame = seal(IDENTITY, TOPIC, GET)
    for place in range(len(frame)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(frame)
            changed[place] ^= flip
            with pytest.raises(WireError):
                open_frame(bytes(changed), TOPIC, _key)


HOSTILE = {
    "deep list": b"\x91" * 4000,
    "deep map": b"\x81\xa1x" * 1000,
    "deep unknown": b"\x82\xa6schema\x01\xa1x" + b"\x91" * 3000,
    "list bomb": b"\x82\xa6schema\x01\xa1x\xdd\xff\xff\xff\xff",
    "map bomb": b"\x82\xa6schema\x01\xa1x\xdf\xff\xff\xff\xff",
    "bytes bomb": b"\x82\xa6schema\x01\xa1x\xc6\xff\xff\xff\xff",
    "field bomb": b"\x82\xa6schema\x01\xa4type\xa8register\xa6codecs\xdd\xff\xff\xff\xff",
    "large schema": b"\x82\xa6schema\xcf" + b"\xff" * 8,
    "NaN schema": b"\x82\xa6schema\xcb\x7f\xf8" + b"\0" * 6,
    "trailing": msgspec.msgpack.encode(GET) + b"\0",
    "truncated": msgspec.msgpack.encode(GET)[:-1],
    "empty": b"",
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_messages_are_refused_without_being_unpacked(message: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="schema"):
            open_frame(_raw(message), TOPIC, lambda _: IDENTITY.public)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("schema", [0, 2, 1000, 1 << 60])
def test_another_schema_version_is_told_to_upgrade(schema: int) -> None:
    """Even when nothing else in the message is known any more."""
    with pytest.raises(WireError, match=r"^upgrade_required$"):
        open_frame(_raw(msgspec.msgpack.encode({"schema": schema, "type": "hologram"})), TOPIC, _key)


def test_an_unknown_key_is_ignored_and_an_unknown_type_is_not() -> None:
    known = msgspec.to_builtins(GET)
    message, _ = open_frame(_raw(msgspec.msgpack.encode({**known, "schema": 1, "colour": "red"})), TOPIC, _key)
    assert message == GET
    with pytest.raises(WireError, match="schema: Invalid value 'hologram'"):
        open_frame(_raw(msgspec.msgpack.encode({**known, "type": "hologram"})), TOPIC, _key)


@pytest.mark.parametrize("length", [0, 5, LARGEST_FRAME + 1])
def test_a_frame_of_no_allowed_length_is_refused(length: int) -> None:
    with pytest.raises(WireError, match="allowed length"):
        open_frame(b"AUR1" + bytes(length), TOPIC, _key) if length > 5 else open_frame(bytes(length), TOPIC, _key)


def test_the_key_may_be_the_one_a_registration_brings() -> None:
    """Trust on first use: the frame proves that its sender owns the key it names."""
    who: dict[str, Any] = {"fleet": "home", "device": "kitchen", "boot": "b", "public_key": IDENTITY.public}
    has: dict[str, Any] = {"agent": "0.1", "pack": HASH, "architecture": "crnn-base", "codecs": ("float32",)}
    register = Register(**who, **has, samples=3)
    message, _ = open_frame(seal(IDENTITY, TOPIC, register), TOPIC, lambda m: m.public_key)  # type: ignore[attr-defined]
    assert message.public_key == IDENTITY.public
    with pytest.raises(WireError, match="signature"):
        open_frame(seal(STRANGER, TOPIC, register), TOPIC, lambda m: m.public_key)  # type: ignore[attr-defined]
