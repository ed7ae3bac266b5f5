"""Small pieces of ours beside the library that could stand there: CPU time of this process, the fastest of some rounds.

MQTT packets (a PUBLISH with QoS 1 that is read from a socket and acknowledged, beside paho) and half precision (beside
NumPy). docs/design/own-code.md says what else is ours, and which command measures that.

    python bench/own_code.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from auricle.mqtt_link.packet_socket import PacketSocket
from auricle.mqtt_link.packets import puback, publish_head, read_publish
from auricle.wire.float16 import from_float16, to_float16
from bench.comparison_table import table

SIZES_BYTES = {200: 5000, 112_000: 400, 504_000: 100}
"""Payloads of an invitation, of a plug-in and of a larger one, and how many of each are read."""
WEIGHTS = 28_000
CONVERSIONS = 200
LARGEST_BYTES = 1 << 20


def fed(size: int, count: int, read: Callable[[socket.socket, int], None]) -> float:
    """CPU microseconds a message of reading `count` messages that another process writes."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        head = publish_head(b"auricle/1/home/updates", size, qos=1, retain=False, mid=7, properties=False)
        for _ in range(count):
            theirs.sendall(head + bytes(size))
        while theirs.recv(1 << 16):
            pass
        os._exit(0)
    theirs.close()
    ours.setblocking(False)
    began = time.process_time()
    read(ours, count)
    took = time.process_time() - began
    ours.close()
    os.waitpid(child, 0)
    return 1e6 * took / count


def by_packets(sock: socket.socket, count: int) -> None:
    """Read and acknowledge as the link does."""
    packets, seen = PacketSocket(sock, LARGEST_BYTES), 0
    while seen < count:
        select.select([sock], [], [])
        packets.fill()
        while (packet := packets.packet()) is not None:
            first, data, start, stop = packet
            seen += len(read_publish(data, first, start, stop, properties=False).payload) > 0
            packets.write(puback(7))
        packets.flush()


def by_paho(sock: socket.socket, count: int) -> None:
    """Read and acknowledge with paho's own loop, over a socket that is given to it."""
    client, seen = Client(CallbackAPIVersion.VERSION2), [0]

    def take(*_given: object) -> None:
        seen[0] += 1

    client.on_message = take
    client._sock = sock
    while seen[0] < count:
        select.select([sock], [], [])
        client.loop_read()
        if client.want_write():
            client.loop_write()


def microseconds(work: Callable[[], object], times: int) -> float:
    """CPU microseconds of one call."""
    began = time.process_time()
    for _ in range(times):
        work()
    return 1e6 * (time.process_time() - began) / times


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts [3]")
    given = parser.parse_args()
    numbers = np.random.default_rng(0).standard_normal(WEIGHTS).astype(np.float32)
    halves = numbers.astype("<f2").tobytes()
    pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        f"MQTT, a message of {size:,} B": (
            lambda size=size, count=count: fed(size, count, by_packets),  # type: ignore[misc]
            lambda size=size, count=count: fed(size, count, by_paho),  # type: ignore[misc]
        )
        for size, count in SIZES_BYTES.items()
    }
    pairs[f"float16, {WEIGHTS:,} weights written"] = (
        lambda: microseconds(lambda: to_float16(numbers), CONVERSIONS),
        lambda: microseconds(lambda: numbers.astype("<f2").tobytes(), CONVERSIONS),
    )
    pairs[f"float16, {WEIGHTS:,} weights read"] = (
        lambda: microseconds(lambda: from_float16(halves), CONVERSIONS),
        lambda: microseconds(lambda: np.frombuffer(halves, "<f2").astype(np.float32), CONVERSIONS),
    )
    rows = []
    for name, (ours, library) in pairs.items():
        best = min(ours() for _ in range(given.rounds)), min(library() for _ in range(given.rounds))
        rows.append([name, f"{best[0]:.1f}", f"{best[1]:.1f}", f"{best[0] / best[1]:.2f}"])
    print(table(["CPU time in us", "ours", "library", "ratio"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
