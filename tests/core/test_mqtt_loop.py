"""What a link stands on: one timer for all links of a loop, a socket read in large pieces, and filters of topics."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from auricle.mqtt_link import ticker as ticker_module
from auricle.mqtt_link.buffered_socket import PIECE, BufferedSocket
from auricle.mqtt_link.subscriptions import matches
from auricle.mqtt_link.ticker import ticker_of


def test_one_timer_ticks_for_all_and_ends_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker_module, "EVERY", 0.001)

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


@pytest.fixture
def pair() -> Iterator[tuple[BufferedSocket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    yield BufferedSocket(near), far
    near.close()
    far.close()


def test_a_socket_gives_every_byte_once_and_in_order(pair: tuple[BufferedSocket, socket.socket]) -> None:
    near, far = pair
    with pytest.raises(BlockingIOError):
        near.recv(1)
    sent = bytes(range(256)) * (PIECE // 128)
    far.sendall(sent)
    read = near.recv(1)
    assert near.pending() == PIECE - 1
    while len(read) < len(sent):
        read += near.recv(min(len(sent) - len(read), 777))
    assert read == sent
    far.sendall(sent)
    assert near.recv(PIECE) == sent[:PIECE] and near.pending() == 0  # large ones are not copied twice
    far.close()
    while near.recv(PIECE):
        pass
    assert near.recv(1) == b""


def test_a_socket_sends_and_closes(pair: tuple[BufferedSocket, socket.socket]) -> None:
    near, far = pair
    assert near.send(b"abc") == 3 and far.recv(9) == b"abc" and near.fileno() >= 0
    far.sendall(b"abc")
    assert near.recv(1) == b"a"
    near.close()
    assert near.pending() == 0 and near.fileno() == -1


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$SYS", "longer"]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "b", "", "+", "$SYS", "longer"]), min_size=1, max_size=4), st.booleans(), LEVELS)
def test_filters_match_as_the_library_has_it(levels: list[str], rest: bool, topic: list[str]) -> None:
    asked, name = "/".join([*levels, *["#"] * rest]), "/".join(topic)
    assert matches(asked, name) == topic_matches_sub(asked, name)
    assert matches(f"$share/group/{asked}", name) == topic_matches_sub(asked, name)
    assert matches("#", name) == topic_matches_sub("#", name)
