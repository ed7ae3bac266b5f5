"""What a link stands on: one timer for all links of a loop, packets read and written here, filters of topics."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt._packet import decode_publish
from paho.mqtt.client import topic_matches_sub
from paho.mqtt.enums import MQTTProtocolVersion

from auricle.mqtt_link import ticker as ticker_module
from auricle.mqtt_link.packet_socket import PacketSocket
from auricle.mqtt_link.packets import MalformedPacketError, extent, puback, publish_head, read_puback, read_publish
from auricle.mqtt_link.subscriptions import matches
from auricle.mqtt_link.ticker import ticker_of


def test_one_timer_ticks_for_all_and_ends_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker_module, "EVERY_SECONDS", 0.001)

    async def scene() -> None:
        ticker, done, ticks = ticker_of(asyncio.get_running_loop()), asyncio.Event(), dict.fromkeys("abc", 0)
        assert ticker_of(asyncio.get_running_loop()) is ticker

        def tick(name: str) -> None:
            ticks[name] += 1
            if name == "a":
                ticker.remove("b")  # one ends another, which is not called any more
            if ticks["c"] == 3:
                done.set()

        for name in ticks:
            ticker.add(name, lambda name=name: tick(name))  # type: ignore[misc]
        await asyncio.wait_for(done.wait(), 10)
        assert ticks["b"] == 0 and ticks["a"] == ticks["c"] and len(ticker) == 2
        ticker.remove("a")
        ticker.remove("c")
        assert ticker._timer is None and len(ticker) == 0

    asyncio.run(scene())
    gc.collect()
    assert not [loop for loop in ticker_module._TICKERS if loop.is_closed()]


LARGEST = 1 << 20
PROPERTIES = st.sampled_from([b"", b"\x02\x00\x00\x00\x09", b"\x26\x00\x01k\x00\x01v" * 20])


@pytest.fixture
def pair() -> Iterator[tuple[PacketSocket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    yield PacketSocket(near, LARGEST), far
    near.close()
    far.close()


def packets_of(near: PacketSocket) -> Iterator[tuple[int, bytes]]:
    while near.fill():
        pass
    while (packet := near.packet()) is not None:
        first, data, start, stop = packet
        yield first, bytes(data[start:stop])


def test_a_socket_gives_every_packet_once_whole_and_in_order(pair: tuple[PacketSocket, socket.socket]) -> None:
    near, far = pair
    contents = [b"", b"a" * 127, b"b" * 128, b"c" * 70_000, b"d"]
    sent = b"".join(bytes([0x30 + i, *length_of(len(each))]) + each for i, each in enumerate(contents))
    found: list[tuple[int, bytes]] = []
    for start in range(0, len(sent), 777):
        far.sendall(sent[start : start + 777])
        found += packets_of(near)
    assert found == [(0x30 + i, each) for i, each in enumerate(contents)]
    far.close()
    assert not near.fill() and near.ended and near.recv(1) == b""


def test_what_is_left_to_the_library_is_all_that_it_reads(pair: tuple[PacketSocket, socket.socket]) -> None:
    near, far = pair
    far.sendall(b"\x20\x02ab" + b"\x30\x01c" + b"\xd0\x00")
    near.fill()
    with pytest.raises(BlockingIOError):
        near.recv(1)
    for left in (True, False, True):
        assert near.packet() is not None
        if left:
            near.leave()
    assert near.packet() is None
    assert (near.recv(1), near.recv(9)) == (b"\x20", b"\x02ab\xd0\x00")


@pytest.mark.parametrize("sent", [b"\x30\xff\xff\xff\xff", b"\x30\x81\x80\x40", b"\x30\xff\xff\xff\x7f"])
def test_a_packet_above_the_agreed_size_is_refused_by_its_first_bytes(
    pair: tuple[PacketSocket, socket.socket], sent: bytes
) -> None:
    near, far = pair
    far.sendall(sent)
    near.fill()
    with pytest.raises(MalformedPacketError):
        near.packet()


def test_what_the_socket_has_no_room_for_is_sent_later_and_the_last_word_first_of_all(
    pair: tuple[PacketSocket, socket.socket],
) -> None:
    near, far = pair
    sent = bytes(range(256)) * (1 << 14)
    near.write(sent[:1000], sent[1000:])
    assert near.send(b"end") == 3
    near.flush()
    assert 0 < near.backlog < len(sent)
    read = bytearray()
    while near.backlog:
        read += far.recv(1 << 20)
        near.flush()
    near.write(b"goodbye")
    near.close()
    while piece := far.recv(1 << 20):
        read += piece
    assert read == sent + b"end" + b"goodbye" and near.fileno() == -1


def length_of(value: int) -> bytes:
    """As the standard writes it (MQTT 5, 1.5.5)."""
    made = b""
    while True:
        value, byte = divmod(value, 128)
        made += bytes([byte | 128 * bool(value)])
        if not value:
            return made


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), st.binary(max_size=200), st.booleans())
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(("five", "expiry"), [(False, None), (True, None), (True, 7)])
def test_a_message_is_written_as_the_library_reads_it_and_read_as_it_was(
    qos: int, five: bool, expiry: int | None, topic: str, payload: bytes, retain: bool
) -> None:
    name = topic.encode()
    if set(topic) & {"+", "#", "\0"}:
        with pytest.raises(ValueError, match="topic"):
            publish_head(name, 0, qos=qos, retain=retain, mid=9, properties=five)
        return
    packet = publish_head(name, len(payload), qos=qos, retain=retain, mid=9, properties=five, expiry=expiry) + payload
    where = extent(packet)
    assert where is not None and where[1] == len(packet)
    theirs = decode_publish(
        packet[0], packet[where[0] :], MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311
    )
    ours = read_publish(packet, packet[0], *where, properties=five)
    assert ours == (name, payload, qos, retain, False, 9 * qos)
    found = (theirs.topic, theirs.payload, theirs.qos, theirs.retain, theirs.mid)
    assert found == (name, payload, qos, retain, 9 * qos)
    assert getattr(theirs.properties, "MessageExpiryInterval", None) == expiry


@given(st.binary(max_size=60), st.integers(0, 15), st.booleans())
def test_a_message_is_read_as_the_library_reads_it_or_refused(contents: bytes, flags: int, five: bool) -> None:
    try:
        ours = read_publish(contents, 0x30 | flags, 0, len(contents), properties=five)
    except MalformedPacketError:
        return
    assert ours.qos < 2 and ours.topic and len(ours.topic) + len(ours.payload) <= len(contents)
    if not five:
        theirs = decode_publish(0x30 | flags, contents, MQTTProtocolVersion.MQTTv311)
        assert (theirs.topic, theirs.payload, theirs.mid) == (ours.topic, ours.payload, ours.mid)


@given(PROPERTIES, st.binary(max_size=9))
def test_properties_are_passed_over(properties: bytes, payload: bytes) -> None:
    contents = b"\0\1t" + length_of(len(properties)) + properties + payload
    assert read_publish(contents, 0x30, 0, len(contents), properties=True).payload == payload


def test_acknowledgements() -> None:
    assert puback(0x1234) == b"\x40\x02\x12\x34"
    assert [read_puback(b"\x12\x34" + more, 0, 2 + len(more)) for more in (b"", b"\x87", b"\x87\0")] == [
        (0x1234, 0),
        (0x1234, 0x87),
        (0x1234, 0x87),
    ]
    with pytest.raises(MalformedPacketError):
        read_puback(b"\x12", 0, 1)


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$SYS", "longer"]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "b", "", "+", "$SYS", "longer"]), min_size=1, max_size=4), st.booleans(), LEVELS)
def test_filters_match_as_the_library_has_it(levels: list[str], rest: bool, topic: list[str]) -> None:
    asked, name = "/".join([*levels, *["#"] * rest]), "/".join(topic)
    assert matches(asked, name) == topic_matches_sub(asked, name)
    assert matches(f"$share/group/{asked}", name) == topic_matches_sub(asked, name)
    assert matches("#", name) == topic_matches_sub("#", name)
