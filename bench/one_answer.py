"""How long devices of a home take to settle which of them answers, over a real broker on this machine.

Each device has a link of its own and hears a word up to 100 ms later than another, as hops of 0.1 s have it. Time is
counted from the first device's hearing until the last device knows. Needs mosquitto.

    python bench/one_answer.py [--devices 2 3 5 10] [--words 40]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

from auricle.errors import SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.sound import Detection
from auricle_fleet.broker.mosquitto import find_mosquitto
from auricle_fleet.broker.process import BrokerProcess

APART = 0.1
"""Seconds between the first and the last that hear a word."""


async def main(sizes: list[int], words: int) -> None:
    """Print one line for each number of devices."""
    print(f"load {os.getloadavg()[0]:.1f}, {words} words each")
    print("devices  one answer  the nearest  median ms  95 % ms  longest ms  CPU ms/word")
    with tempfile.TemporaryDirectory() as folder:
        process, address = await _broker(Path(folder))
        for size in sizes:
            await _measure(address, size, words)
        await process.stop()


async def _broker(folder: Path) -> tuple[BrokerProcess, BrokerAddress]:
    program = find_mosquitto()
    if program is None:
        raise SettingsError("mosquitto is not installed: apt install mosquitto.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "home.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_dest stderr\nlog_type all\n")
    process = BrokerProcess([str(program), "-c", str(config)], folder / "home.log", sign=" running\n")
    await process.start()
    return process, BrokerAddress("127.0.0.1", port)


async def _measure(address: BrokerAddress, size: int, words: int) -> None:
    draw, names = random.Random(size), [f"room-{size}-{number}" for number in range(size)]
    homes = [HomeMqtt(address, "home/{device}", name, lambda _: Future(), bids=f"bids-{size}") for name in names]
    for home in homes:
        await home.open()
    for home in homes:
        await home.link.wait_connected(20)
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
    for home in homes:
        await home.close()
    taken.sort()
    median, late_one, longest = taken[words // 2], taken[int(0.95 * words)], taken[-1]
    print(
        f"{size:7} {single:7}/{words} {nearest:8}/{words} {1000 * median:10.0f} {1000 * late_one:8.0f} "
        f"{1000 * longest:11.0f} {1000 * cpu:12.1f}"
    )


async def _ask(home: HomeMqtt, number: int, device: int, over_noise: float, late: float) -> bool:
    await asyncio.sleep(late)
    identity = f"{number:06x}{device:06x}"
    assert home.one_answer is not None
    heard = Detection(identity, f"word-{number}", 0.9, "plugin", 0, 1, 1, 0.0, 0.1, over_noise=over_noise)
    return await home.one_answer.answers(heard)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[2, 3, 5, 10])
    parser.add_argument("--words", type=int, default=40)
    given = parser.parse_args()
    asyncio.run(main(given.devices, given.words))
