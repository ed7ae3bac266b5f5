"""The Wyoming service as the protocol's own client library sees it, and as a hostile client does."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle_edge.listening.events.wyoming import MOST_CLIENTS, WyomingService
from auricle_edge.listening.sound import Block, Detection, Timeout

pytest.importorskip("wyoming", reason="the wyoming package is not installed")

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.wake import Detect, NotDetected
from wyoming.wake import Detection as WakeDetection

WORDS = ("yes", "no")
WAKE = Detection("aabbccddeeff", "computer", 0.9, "plugin", 0, 32000, 31000, 0.0, 0.1, "wake")
STOP = Detection("00112233aabb", "stop", 0.5, "plugin", 0, 64000, 63000, 0.0, 0.1, "detection", WAKE.id, "computer")
NO = Detection("00112233aabb", "no", 0.9, "plugin", 0, 16000, 12000, 0.0, 0.1)
YES = Detection("00112233aabb", "yes", 0.9, "plugin", 0, 16000, 16000, 0.0, 0.1)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def at_once(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(story)
    def test(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(story(*arguments, **named), 20))

    return test


class Hears:
    """Finds the next of some detections in each loud block, as a detector with states does."""

    def __init__(self, *found: Detection) -> None:
        self._next = list(found)

    def feed(self, block: Block) -> list[Detection]:
        loud = np.abs(block.samples.astype(int)).max(initial=0) > 1000
        return [self._next.pop(0)] if loud and self._next else []


@asynccontextmanager
async def service(
    silence: float = 20, pause: float = 20, *, words: Sequence[str] = WORDS, found: Sequence[Detection] = (YES,)
) -> AsyncIterator[WyomingService]:
    made = WyomingService("tcp://127.0.0.1:0", words, "gsc12", lambda: Hears(*found), silence, pause)
    await made.open()
    yield made
    await made.close()


def waking() -> Any:
    return service(words=("computer",), found=(WAKE, STOP))


def client_of(running: WyomingService) -> AsyncTcpClient:
    return AsyncTcpClient("127.0.0.1", running.port)


@asynccontextmanager
async def connections(
    running: WyomingService, count: int = MOST_CLIENTS, sent: bytes = b""
) -> AsyncIterator[list[Streams]]:
    opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(count)]
    for _, writer in opened:
        writer.write(sent)
    yield opened
    for _, writer in opened:
        writer.close()


async def ask(client: AsyncTcpClient, *events: Event) -> Event:
    for event in events:
        await client.write_event(event)
    answer = await client.read_event()
    assert answer is not None
    return answer


async def answers_of(client: AsyncTcpClient, *events: Event) -> list[Event]:
    """Send events and a ping, and return what is answered before the pong."""
    found = [await ask(client, *events, Ping("end").event())]
    while not Pong.is_type(found[-1].type):
        found.append(await ask(client))
    return found[:-1]


def names(events: Sequence[Event]) -> list[str | None]:
    return [WakeDetection.from_event(event).name for event in events]


def sound(level: int) -> list[Event]:
    """A stream of half a second."""
    chunk = AudioChunk(16000, 2, 1, np.full(1600, level, "<i2").tobytes()).event()
    return [AudioStart(16000, 2, 1).event(), *[chunk] * 5, AudioStop().event()]


@at_once
async def test_the_reference_client_lists_the_models_and_receives_a_detection() -> None:
    async with service() as running:
        async with client_of(running) as client:
            info = Info.from_event(await ask(client, Describe().event()))
            assert [(model.name, model.installed) for model in info.wake[0].models] == [("yes", True), ("no", True)]
            assert names([await ask(client, Detect(names=["yes"]).event(), *sound(8000))]) == ["yes"]
        async with client_of(running) as client:
            assert NotDetected.is_type((await ask(client, Detect().event(), *sound(10))).type)


@at_once
async def test_a_client_without_sound_hears_of_the_devices_own_microphone() -> None:
    async with service() as running, client_of(running) as client, client_of(running) as other:
        await ask(other, Detect(names=["yes"]).event(), Ping("here").event())
        await ask(client, Detect(names=["no"]).event(), Ping().event())
        await running.deliver(NO)
        assert names([await ask(client)]) == ["no"]
        assert Pong.from_event(await ask(other, Ping("still").event())).text == "still"  # it waits for another word


@at_once
async def test_a_client_with_sound_gets_the_wake_word_only_and_commands_where_it_names_them() -> None:
    """What Home Assistant expects: the offered models are wake words, and it listens on after the first detection."""
    async with waking() as running:
        async with client_of(running) as client:
            info = Info.from_event(await ask(client, Describe().event()))
            assert [model.name for model in info.wake[0].models] == ["computer"]
            assert names(await answers_of(client, Detect(names=["computer"]).event(), *sound(8000))) == ["computer"]
            nothing = await answers_of(client, Detect().event(), *sound(10))
            assert [event.type for event in nothing] == ["not-detected"]
        async with client_of(running) as client:
            both = await answers_of(client, Detect(names=["computer", "stop"]).event(), *sound(8000))
            assert names(both) == ["computer", "stop"]


@at_once
async def test_the_devices_own_microphone_tells_of_the_wake_word_and_a_timeout_is_told_nobody() -> None:
    async with waking() as running, client_of(running) as client, client_of(running) as asker:
        assert await answers_of(client, Detect().event()) == []
        assert await answers_of(asker, Detect(names=["stop"]).event()) == []
        for event in (WAKE, STOP, Timeout(WAKE.id, "computer", 96_000, 0.0)):
            await running.deliver(event)
        (told,) = await answers_of(client)
        assert (WakeDetection.from_event(told).name, WakeDetection.from_event(told).timestamp) == ("computer", 2000)
        assert names(await answers_of(asker)) == ["stop"]


SOUND = b'{"type": "audio-start", "data": {"rate": 16000, "width": 2, "channels": 1}}\n'
HOSTILE = {
    "no json": b"hello\n",
    "endless line": b"{" * (1 << 17),
    "huge payload": json.dumps({"type": "audio-chunk", "payload_length": 1 << 40}).encode() + b"\n",
    "negative length": b'{"type": "audio-chunk", "payload_length": -1}\n',
    "nested": b'{"type": "x", "data": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "other rate": SOUND.replace(b"16000", b"8000"),
    "half a sample": SOUND.replace(b"start", b"chunk").replace(b"}}", b'}, "payload_length": 1}') + b"\0",
    "names that are none": b'{"type": "detect", "data": {"names": [1, 2]}}\n',
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE])
@at_once
async def test_a_hostile_client_is_hung_up_on_and_the_next_is_served(sent: bytes) -> None:
    async with service() as running:
        async with connections(running, 1, sent) as [(reader, _)]:
            with suppress(ConnectionError):  # what it had not read is thrown away with the connection
                assert b'"error"' in await reader.read()
        async with client_of(running) as client:
            await ask(client, Describe().event())


CHUNK = SOUND.replace(b"start", b"chunk").replace(b"}}", b'}, "payload_length": 4}') + bytes(4)
PING = b'{"type": "ping"}\n'


@at_once
async def test_more_clients_than_allowed_are_turned_away_where_all_send_sound() -> None:
    """But another address gets a place of an address that has all."""
    async with service() as running, connections(running, sent=CHUNK + PING) as opened:
        for reader, _ in opened:
            assert b"pong" in await reader.readline()
        async with connections(running, 1) as [(reader, _)]:
            assert await reader.read() == b""
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port, local_addr=("127.0.0.2", 0))
        writer.write(b'{"type": "describe"}\n')
        assert Info.is_type(json.loads(await reader.readline())["type"])
        writer.close()


@pytest.mark.parametrize("sent", [b"", PING, b'{"type": "detect"}\n' + PING], ids=["silent", "pings", "waits"])
@at_once
async def test_who_only_holds_a_place_loses_it_to_who_comes(sent: bytes) -> None:
    places = MOST_CLIENTS * 2
    async with service() as running, connections(running, places, sent) as opened, client_of(running) as client:
        assert Info.is_type((await ask(client, Describe().event())).type)
        gone = b""
        with suppress(ConnectionError):
            gone = (await opened[0][0].read()).partition(b"\n")[2]
        assert b"pong" not in gone


SLOW = {
    "says nothing": b"",
    "begins an event": b'{"type": "describe"',
    "keeps a payload back": b'{"type": "audio-chunk", "payload_length": 3200}\n1234',
    "stops in its sound": SOUND,
    "waits and then begins an event": b'{"type": "detect"}\n{',
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=[name.replace(" ", "-") for name in SLOW])
@at_once
async def test_eight_slow_clients_are_hung_up_on_and_give_their_places_back(sent: bytes) -> None:
    async with service(silence=0.3) as running:
        async with connections(running, sent=sent) as opened:
            told = await asyncio.gather(*(reader.read() for reader, _ in opened))
            assert all(b"nothing for 0.3 s" in each for each in told)
        async with client_of(running) as client:
            assert Info.is_type((await ask(client, Describe().event())).type)


@at_once
async def test_a_client_that_asked_to_detect_may_pause_in_its_sound() -> None:
    sent = b'{"type": "detect"}\n' + SOUND
    async with service(silence=0.1, pause=0.6) as running, connections(running, 1, sent) as [(reader, _)]:
        began = asyncio.get_running_loop().time()
        assert b"nothing for 0.6 s" in await reader.read()
        assert asyncio.get_running_loop().time() - began > 0.5


@at_once
async def test_a_client_that_waits_for_the_devices_microphone_is_left_in_peace() -> None:
    async with service(0.1) as running, connections(running, 1) as [(reader, _)], client_of(running) as client:
        await ask(client, Detect(names=["no"]).event(), Ping().event())
        assert b"said nothing" in await reader.read()  # that one came first, and asked for nothing
        await running.deliver(NO)
        assert names([await ask(client)]) == ["no"]


@at_once
@pytest.mark.slow
async def test_a_client_that_takes_no_answers_is_hung_up_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with service(0.5, words=[f"word {at}" for at in range(1000)]) as running:
        deaf = socket.create_connection(("127.0.0.1", running.port))
        deaf.setblocking(False)
        with suppress(ConnectionError):  # each answer has 300 kB: they fill what the kernel keeps
            while True:
                await asyncio.get_running_loop().sock_sendall(deaf, b'{"type": "describe"}\n' * 100)
        deaf.close()
    assert "took nothing for 0.5 s" in caplog.text


@pytest.mark.parametrize("url", ["127.0.0.1:10400", "tcp://127.0.0.1", "tcp://h:99999", "unix:///x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="tcp"):
        WyomingService(url, WORDS, "gsc12", Hears)
