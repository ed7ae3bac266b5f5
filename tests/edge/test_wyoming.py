"""The Wyoming service as the protocol's own client library sees it, and as a hostile client does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

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

T = TypeVar("T")


class Loud:
    """Finds "yes" in the first block that is loud."""

    def feed(self, block: Block) -> list[Detection]:
        """A detection for a loud block."""
        if not np.abs(block.samples.astype(int)).max(initial=0) > 1000:
            return []
        return [Detection("00112233aabb", "yes", 0.9, "plugin", 0, block.end, block.end, 0.0, 0.1)]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or fail after 20 seconds."""
    return asyncio.run(asyncio.wait_for(work, 20))


async def service(silence: float = 20, pause: float = 20) -> WyomingService:
    """A running service on a free port."""
    made = WyomingService("tcp://127.0.0.1:0", ("yes", "no"), "gsc12", Loud, silence, pause)
    await made.open()
    return made


async def ask(client: AsyncTcpClient, *events: Event) -> Event:
    """Send events and return the next answer."""
    for event in events:
        await client.write_event(event)
    answer = await client.read_event()
    assert answer is not None
    return answer


def sound(level: int) -> list[Event]:
    """A stream of half a second."""
    chunk = AudioChunk(16000, 2, 1, np.full(1600, level, "<i2").tobytes()).event()
    return [AudioStart(16000, 2, 1).event(), *[chunk] * 5, AudioStop().event()]


def test_the_reference_client_lists_the_models_and_receives_a_detection() -> None:
    async def story() -> tuple[Info, Event, Event]:
        running = await service()
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            info = Info.from_event(await ask(client, Describe().event()))
            found = await ask(client, Detect(names=["yes"]).event(), *sound(8000))
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            missed = await ask(client, Detect().event(), *sound(10))
        await running.close()
        return info, found, missed

    info, found, missed = run(story())
    assert [model.name for model in info.wake[0].models] == ["yes", "no"]
    assert all(model.installed for model in info.wake[0].models)
    assert WakeDetection.from_event(found).name == "yes"
    assert NotDetected.is_type(missed.type)


def test_a_client_without_sound_hears_of_the_devices_own_microphone() -> None:
    async def story() -> tuple[Event, str]:
        running = await service()
        heard = Detection("00112233aabb", "no", 0.9, "plugin", 0, 16000, 12000, 0.0, 0.1)
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            other = AsyncTcpClient("127.0.0.1", running.port)
            await other.connect()
            pong = await ask(other, Detect(names=["yes"]).event(), Ping("here").event())
            await ask(client, Detect(names=["no"]).event(), Ping().event())
            await running.deliver(heard)
            event = await client.read_event()
            assert event is not None
            after = await ask(other, Ping("still").event())  # nothing was said to the one who waits for another word
            await other.disconnect()
        await running.close()
        return event, str(Pong.from_event(pong).text) + str(Pong.from_event(after).text)

    event, pongs = run(story())
    assert WakeDetection.from_event(event).name == "no"
    assert pongs == "herestill"


WAKE = Detection("aabbccddeeff", "computer", 0.9, "plugin", 0, 32000, 31000, 0.0, 0.1, "wake")
STOP = Detection("00112233aabb", "stop", 0.5, "plugin", 0, 64000, 63000, 0.0, 0.1, "detection", WAKE.id, "computer")


async def waking() -> WyomingService:
    """A running service of a device with a wake word."""
    made = WyomingService("tcp://127.0.0.1:0", ("computer",), "home", Talk)
    await made.open()
    return made


class Talk:
    """Hears the wake word in the first loud block and a command in the second, as a detector with states does."""

    def __init__(self) -> None:
        self._next = [WAKE, STOP]

    def feed(self, block: Block) -> list[Detection]:
        """The next detection for a loud block."""
        loud = np.abs(block.samples.astype(int)).max(initial=0) > 1000
        return [self._next.pop(0)] if loud and self._next else []


async def answers_of(client: AsyncTcpClient, *events: Event) -> list[Event]:
    """Send events and a ping, and return what is answered before the pong."""
    for event in (*events, Ping("end").event()):
        await client.write_event(event)
    found: list[Event] = []
    while (answer := await client.read_event()) is not None and not Pong.is_type(answer.type):
        found.append(answer)
    return found


def test_a_client_with_sound_gets_the_wake_word_only_and_commands_where_it_names_them() -> None:
    """What Home Assistant expects: the offered models are wake words, and it listens on after the first detection."""

    async def story() -> tuple[Info, list[Event], list[Event], list[Event]]:
        running = await waking()
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            info = Info.from_event(await ask(client, Describe().event()))
            usual = await answers_of(client, Detect(names=["computer"]).event(), *sound(8000))
            nothing = await answers_of(client, Detect().event(), *sound(10))
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            both = await answers_of(client, Detect(names=["computer", "stop"]).event(), *sound(8000))
        await running.close()
        return info, usual, nothing, both

    info, usual, nothing, both = run(story())
    assert [model.name for model in info.wake[0].models] == ["computer"]
    assert [WakeDetection.from_event(event).name for event in usual] == ["computer"]
    assert [event.type for event in nothing] == ["not-detected"]
    assert [WakeDetection.from_event(event).name for event in both] == ["computer", "stop"]


def test_the_devices_own_microphone_tells_of_the_wake_word_and_a_timeout_is_told_nobody() -> None:
    async def story() -> tuple[list[Event], list[Event]]:
        running = await waking()
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            asker = AsyncTcpClient("127.0.0.1", running.port)
            await asker.connect()
            assert await answers_of(client, Detect().event()) == []
            assert await answers_of(asker, Detect(names=["stop"]).event()) == []
            for event in (WAKE, STOP, Timeout(WAKE.id, "computer", 96_000, 0.0)):
                await running.deliver(event)
            told = await answers_of(client), await answers_of(asker)
            await asker.disconnect()
        await running.close()
        return told

    wake, command = run(story())
    assert [(WakeDetection.from_event(e).name, WakeDetection.from_event(e).timestamp) for e in wake] == [
        ("computer", 2000)
    ]
    assert [WakeDetection.from_event(event).name for event in command] == ["stop"]


HOSTILE = {
    "no json": b"hello\n",
    "endless line": b"{" * (1 << 17),
    "huge payload": json.dumps({"type": "audio-chunk", "payload_length": 1 << 40}).encode() + b"\n",
    "negative length": b'{"type": "audio-chunk", "payload_length": -1}\n',
    "nested": b'{"type": "x", "data": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "other rate": b'{"type": "audio-start", "data": {"rate": 8000, "width": 2, "channels": 1}}\n',
    "half a sample": b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 1}, '
    b'"payload_length": 1}\n\x00',
    "names that are none": b'{"type": "detect", "data": {"names": [1, 2]}}\n',
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE])
def test_a_hostile_client_is_hung_up_on_and_the_next_is_served(sent: bytes) -> None:
    async def story() -> bytes:
        running = await service()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(sent)
        try:
            answer = await reader.read()
        except ConnectionError:  # what it had not read is thrown away with the connection
            answer = b'"error"'
        writer.close()
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            await ask(client, Describe().event())
        await running.close()
        return answer

    assert b'"error"' in run(story())


CHUNK = b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 1}, "payload_length": 4}\n\0\0\0\0'
PING = b'{"type": "ping"}\n'


def test_more_clients_than_allowed_are_turned_away_where_all_send_sound() -> None:
    async def story() -> bytes:
        running = await service()
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(MOST_CLIENTS)]
        for reader, writer in opened:
            writer.write(CHUNK + PING)
            assert b"pong" in await reader.readline()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        answer = await reader.read()
        for _, each in [*opened, (reader, writer)]:
            each.close()
        await running.close()
        return answer

    assert run(story()) == b""


@pytest.mark.parametrize("sent", [b"", PING, b'{"type": "detect"}\n' + PING], ids=["silent", "pings", "waits"])
def test_who_only_holds_a_place_loses_it_to_who_comes(sent: bytes) -> None:
    async def story() -> tuple[Event, bytes]:
        running = await service()
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(MOST_CLIENTS * 2)]
        for _, writer in opened:
            writer.write(sent)
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            answer = await ask(client, Describe().event())
            gone = b""
            with contextlib.suppress(ConnectionError):
                gone = (await opened[0][0].read()).partition(b"\n")[2]
        for _, writer in opened:
            writer.close()
        await running.close()
        return answer, gone

    answer, gone = run(story())
    assert Info.is_type(answer.type)
    assert b"pong" not in gone


def test_an_address_with_all_places_gives_one_to_another_address_though_it_sends_sound() -> None:
    async def story() -> Event:
        running = await service()
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(MOST_CLIENTS)]
        for reader, writer in opened:
            writer.write(CHUNK + PING)
            assert b"pong" in await reader.readline()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port, local_addr=("127.0.0.2", 0))
        writer.write(b'{"type": "describe"}\n')
        line = await reader.readline()
        for _, each in [*opened, (reader, writer)]:
            each.close()
        await running.close()
        return Event(json.loads(line)["type"])

    assert Info.is_type(run(story()).type)


SLOW = {
    "says nothing": b"",
    "begins an event": b'{"type": "describe"',
    "keeps a payload back": b'{"type": "audio-chunk", "payload_length": 3200}\n1234',
    "stops in its sound": b'{"type": "audio-start", "data": {"rate": 16000, "width": 2, "channels": 1}}\n',
    "waits and then begins an event": b'{"type": "detect"}\n{',
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=[name.replace(" ", "-") for name in SLOW])
def test_eight_slow_clients_are_hung_up_on_and_give_their_places_back(sent: bytes) -> None:
    async def story() -> tuple[list[bytes], Event]:
        running = await service(silence=0.3)
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(MOST_CLIENTS)]
        for _, writer in opened:
            writer.write(sent)
        told = list(await asyncio.gather(*(reader.read() for reader, _ in opened)))
        for _, writer in opened:
            writer.close()
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            answer = await ask(client, Describe().event())
        await running.close()
        return told, answer

    told, answer = run(story())
    assert all(b"said nothing for 0.3 s" in each for each in told)
    assert Info.is_type(answer.type)


def test_a_client_that_asked_to_detect_may_pause_in_its_sound() -> None:
    begin = b'{"type": "detect"}\n{"type": "audio-start", "data": {"rate": 16000, "width": 2, "channels": 1}}\n'

    async def story() -> tuple[float, bytes]:
        running = await service(silence=0.1, pause=0.6)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(begin)
        began = asyncio.get_running_loop().time()
        told = await reader.read()
        lasted = asyncio.get_running_loop().time() - began
        writer.close()
        await running.close()
        return lasted, told

    lasted, told = run(story())
    assert lasted > 0.5
    assert b"said nothing for 0.6 s" in told


def test_a_client_that_waits_for_the_devices_microphone_is_left_in_peace() -> None:
    async def story() -> Event:
        running = await service(silence=0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        async with AsyncTcpClient("127.0.0.1", running.port) as client:
            await ask(client, Detect(names=["no"]).event(), Ping().event())
            assert b"said nothing" in await reader.read()  # that one came first, and asked for nothing
            await running.deliver(Detection("00112233aabb", "no", 0.9, "plugin", 0, 16000, 12000, 0.0, 0.1))
            event = await client.read_event()
            assert event is not None
        writer.close()
        await running.close()
        return event

    assert WakeDetection.from_event(run(story())).name == "no"


def test_a_client_that_takes_no_answers_is_hung_up_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        running = WyomingService("tcp://127.0.0.1:0", [f"word {at}" for at in range(1000)], "large", Loud, 0.5)
        await running.open()
        deaf = socket.create_connection(("127.0.0.1", running.port))
        deaf.setblocking(False)
        with contextlib.suppress(ConnectionError):  # each answer has 300 kB: they fill what the kernel keeps
            while True:
                await asyncio.get_running_loop().sock_sendall(deaf, b'{"type": "describe"}\n' * 100)
        deaf.close()
        await running.close()

    with caplog.at_level("INFO"):
        run(story())
    assert "it took nothing for 0.5 s" in caplog.text


@pytest.mark.parametrize("url", ["127.0.0.1:10400", "tcp://127.0.0.1", "tcp://h:99999", "unix:///x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="tcp://host:port"):
        WyomingService(url, ("yes",), "gsc12", Loud)
