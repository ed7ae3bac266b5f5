"""How long devices of a home take to settle which of them answers, over a real broker on this machine.

Each device has a link of its own and hears a word up to 100 ms later than another, as hops of 0.1 s have it. Time is
counted from the first device's hearing until the last device knows. Needs mosquitto.

    python bench/one_answer.py [--devices 2 3 5 10] [--words 40]
    python bench/one_answer.py --attacks    # words of six that are answered while somebody else bids
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from auricle.errors import AuricleError
from auricle.mqtt_link.link import BrokerAddress
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.sound import Detection

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.edge.bid_attacks import ATTACKS, answers_under, false_answer
from tests.home_broker import home_broker

KEY = b"a key that the devices of a house share"
APART = 0.1
"""Seconds between the first and the last that hear a word."""


async def main(sizes: list[int], words: int) -> None:
    """Print one line for each number of devices."""
    print(f"load {os.getloadavg()[0]:.1f}, {words} words each")
    print("devices  one answer  the nearest  median ms  95 % ms  longest ms  CPU ms/word")
    with tempfile.TemporaryDirectory() as folder:
        process, address = await home_broker(Path(folder))
        try:
            for size in sizes:
                await _measure(address, size, words)
        finally:
            await process.stop()


async def attacks() -> None:
    """Print one line for each attack: words that were answered, and by how many devices."""
    print("attack          answered  devices that answered each")
    rows = [("none", None, None), *((name, attack, None) for name, attack in ATTACKS.items())]
    for name, attack, key in (*rows, ("false answers", false_answer, None), ("... with a key", false_answer, KEY)):
        with tempfile.TemporaryDirectory() as folder:
            process, address = await home_broker(Path(folder))
            try:
                told = await answers_under(address, attack, key)
            finally:
                await process.stop()
        print(f"{name:14} {sum(map(bool, told)):4} of {len(told)}  {told}")


async def _measure(address: BrokerAddress, size: int, words: int) -> None:
    draw, names = random.Random(size), [f"room-{size}-{number}" for number in range(size)]
    homes = [HomeMqtt(address, "home/{device}", name, lambda _: Future(), bids=f"bids-{size}") for name in names]
    try:
        for home in homes:
            await home.open()
        for home in homes:
            await home.link.wait_connected(20)
        print(await _answered(homes, words, draw))
    finally:
        for home in homes:
            await home.close()


async def _answered(homes: list[HomeMqtt], words: int, draw: random.Random) -> str:
    """Let the devices hear words; a line of the table."""
    size = len(homes)
    taken, single, nearest, cpu = [], 0, 0, time.process_time()
    for number in range(words):
        levels = [round(draw.uniform(3, 40), 1) for _ in homes]
        late = [draw.uniform(0, APART) for _ in homes]
        begun = time.monotonic()
        told = await asyncio.gather(*(_ask(home, number, at, levels[at], late[at]) for at, home in enumerate(homes)))
        taken.append(time.monotonic() - begun - min(late))
        single += sum(told) == 1
        nearest += told[levels.index(max(levels))]
    cpu = (time.process_time() - cpu) / words
    taken.sort()
    median, late_one, longest = taken[words // 2], taken[int(0.95 * words)], taken[-1]
    return (
        f"{size:7} {single:7}/{words} {nearest:8}/{words} {1000 * median:10.0f} {1000 * late_one:8.0f} "
        f"{1000 * longest:11.0f} {1000 * cpu:12.1f}"
    )


async def _ask(home: HomeMqtt, number: int, device: int, over_noise: float, late: float) -> bool:
    await asyncio.sleep(late)
    identity = f"{number:06x}{device:06x}"
    assert home.one_answer is not None
    heard = Detection(identity, f"word-{number}", 0.9, "plugin", 0, 1, 1, 0.0, 0.1, over_noise=over_noise)
    return await home.one_answer.answers(heard)


def number_of(least: int) -> Callable[[str], int]:
    """What reads a whole number from `least` on."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from {least} on')
        return int(text)

    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=number_of(2), nargs="+", default=[2, 3, 5, 10])
    parser.add_argument("--words", type=number_of(1), default=40)
    parser.add_argument("--attacks", action="store_true", help="what somebody else who bids can do")
    given = parser.parse_args()
    try:
        asyncio.run(attacks() if given.attacks else main(given.devices, given.words))
    except AuricleError as error:
        sys.exit(str(error))
