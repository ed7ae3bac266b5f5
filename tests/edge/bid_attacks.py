"""Somebody who may publish where devices of a home settle which of them answers. For tests and benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import msgspec

from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle_edge.listening.events.bids import Bid, Close, Signed
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.sound import Detection

TOPIC = "auricle-bids"
WORDS = 6
"""Of a story: each is heard by every device of the house."""
LEVELS = {"hall-1": 30.0, "kitchen-1": 20.0, "room-1": 10.0}
"""Devices, and the decibels by which a word stands out at each."""

Attack = Callable[[Bid | Close, list[bytes]], Sequence[object]]
"""What is published at once when a message of the house is seen, after all that was seen before it."""


def forged(device: str, word: str, over_noise: float = 120.0) -> Bid:
    """A bid of nobody."""
    return Bid(device, word, secrets.token_hex(6), over_noise)


def highest(seen: Bid | Close, _: object) -> Sequence[object]:
    """One name bids the most for each word and never answers."""
    return [forged("hall-0", seen.word)] if seen.device == "room-1" and isinstance(seen, Bid) else []


def many_names(seen: Bid | Close, _: object) -> Sequence[object]:
    """A hundred names that were never heard before, and those of the house."""
    names = [*(f"x-{secrets.token_hex(3)}" for _ in range(100)), *LEVELS]
    return [forged(name, seen.word) for name in names] if isinstance(seen, Bid) else []


def replay(seen: Bid | Close, before: list[bytes]) -> Sequence[object]:
    """Each round is closed before anybody hears the word and at once after, all that was ever said is said again."""
    if isinstance(seen, Close):
        return []
    rounds = [(bid, Close("x", seen.word, bid.id)) for bid in (forged("hall-0", seen.word) for _ in range(50))]
    return [Close("x", seen.word, seen.id), *rounds[0], *before, *itertools.chain(*rounds), b"noise"]


def false_answer(seen: Bid | Close, _: object) -> Sequence[object]:
    """The highest bid, and a word that it answers: what only the broker can prevent, by who may publish."""
    bid = forged("hall-0", seen.word)
    return [bid, {"type": "answer", "device": bid.device, "word": bid.word, "id": bid.id}]


ATTACKS: dict[str, Attack] = {"highest bid": highest, "many names": many_names, "replay": replay}
"""Under each, every word is answered."""


async def answers_under(address: BrokerAddress, attacking: Attack | None, key: bytes | None = None) -> list[int]:
    """How many devices of the house answered each of `WORDS` words, while somebody attacks."""
    seen = list[bytes]()
    homes = [HomeMqtt(address, "home/{device}", name, lambda _: Future(), bids=TOPIC, bids_key=key) for name in LEVELS]

    async def listen(arrived: Delivery) -> None:
        try:
            payload = arrived.payload if key is None else msgspec.json.decode(arrived.payload, type=Signed).message
            message = msgspec.json.decode(payload, type=Bid | Close)
        except msgspec.DecodeError:
            return
        if attacking is None or message.device not in LEVELS or (isinstance(message, Bid) and message.over_noise > 100):
            return
        before = list(seen)
        seen.append(arrived.payload)
        for said in attacking(message, before):
            payload = said if isinstance(said, bytes) else msgspec.json.encode(said)
            await stranger.publish(TOPIC, payload, qos=0)

    async def close_always() -> None:
        """Whatever is said next comes after the end of a round that somebody else has won."""
        while True:
            for word in ("word-0", "word-1"):
                bid = forged(f"y-{secrets.token_hex(3)}", word)
                for said in (bid, Close("x", word, bid.id)):
                    await stranger.publish(TOPIC, msgspec.json.encode(said), qos=0)
            await asyncio.sleep(0.2)

    stranger = MqttLink(LinkSettings(address, "stranger"), handlers={TOPIC: listen})
    await stranger.start()
    await stranger.wait_connected(20)
    for home in homes:
        await home.open()
        await home.link.wait_connected(20)
    closing = asyncio.create_task(close_always()) if attacking is replay else None
    try:
        return [await _answered(homes, f"word-{number % 2}") for number in range(WORDS)]
    finally:
        if closing is not None:
            closing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await closing
        for home in homes:
            await home.close()
        await stranger.stop()


async def _answered(homes: Sequence[HomeMqtt], word: str) -> int:
    heard = [
        Detection(secrets.token_hex(6), word, 0.9, "plugin", 0, 1, 1, 0.0, 0.1, kind="wake", over_noise=level)
        for level in LEVELS.values()
    ]
    asked = [home.one_answer for home in homes]
    told = await asyncio.gather(
        *(each.answers(event) for each, event in zip(asked, heard, strict=True) if each is not None)
    )
    await asyncio.sleep(1.2)  # a second utterance of the same word; a bid within a second is for the first
    return sum(told)
