"""What a secure sum costs: bytes and CPU time of a device, and of the server, by cohort.

A tenth of each cohort drops out after it has shared its secrets; neighbours and threshold as in rounds. Every sum is
checked against that of the updates that came.

    python bench/secure_sum.py [--cohorts 10,100,1000] [--size 28000] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.wire.secure_sum.device import DeviceSum
from auricle.wire.secure_sum.kinds import degree_of, neighbours, threshold_of
from auricle.wire.secure_sum.quantised import quantise
from auricle.wire.secure_sum.server import ServerSum
from bench.comparison_table import table

T = TypeVar("T")


class Meter:
    """CPU seconds of devices, all together."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def run(self, work: Callable[[], T]) -> T:
        """Do something, and count its time."""
        began = time.process_time()
        found = work()
        self.seconds += time.process_time() - began
        return found


def measure(count: int, size: int) -> dict[str, float]:
    """One sum; bytes and seconds a device, and seconds of the server."""
    draw = np.random.default_rng(count)
    names = [f"dev-{i:05d}" for i in range(count)]
    graph = neighbours(names, degree_of(count), random.Random(1))
    degree = len(graph[names[0]])
    threshold = threshold_of(degree)
    server, devices = ServerSum(graph, threshold, size), Meter()
    own = {name: DeviceSum(name, graph[name], threshold) for name in names}
    sent = received = 0
    for name in names:
        keys = devices.run(lambda name=name: own[name].keys)
        server.take_keys(name, keys)
        sent += len(msgspec.msgpack.encode(keys))
    for name in names:
        known = server.keys_for(name)
        boxes = devices.run(lambda name=name, known=known: own[name].shares(known))
        server.take_shares(name, boxes)
        received += len(msgspec.msgpack.encode(known))
        sent += len(msgspec.msgpack.encode(boxes))
    expected = np.zeros(size, np.uint32)
    for name in names[count // 10 :]:
        words, boxes = quantise(draw.normal(0, 0.01, size), 0.05), server.shares_for(name)
        masked = devices.run(lambda name=name, words=words, boxes=boxes: own[name].masked(words, boxes))
        server.take_masked(name, masked)
        expected += words
        received += len(msgspec.msgpack.encode(boxes))
        sent += masked.nbytes
    revealed = {}
    for name in names[count // 10 :]:
        near = set(graph[name])
        came, missing = server.came & near, server.missing & near
        revealed[name] = devices.run(lambda name=name, came=came, missing=missing: own[name].reveal(came, missing))
        received += len(msgspec.msgpack.encode([sorted(came), sorted(missing)]))
        sent += len(msgspec.msgpack.encode(revealed[name]))
    began = time.process_time()
    total = server.total(revealed)
    closing = time.process_time() - began
    if not np.array_equal(total, expected):
        raise SystemExit(f"The sum of {count} devices is wrong.")
    return {
        "devices": count,
        "neighbours": degree,
        "threshold": threshold,
        "sent_bytes": sent / count,
        "received_bytes": received / count,
        "plain_bytes": 4.0 * size,
        "device_ms": 1000 * devices.seconds / count,
        "server_s": closing,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohorts", default="10,100,1000")
    parser.add_argument("--size", type=int, default=28_000, help="Weights of a plug-in.")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    rows = [measure(count, told.size) for count in map(int, told.cohorts.split(","))]
    if told.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    lines = [
        [
            f"{row['devices']:.0f}",
            f"{row['neighbours']:.0f}, {row['threshold']:.0f}",
            f"{row['sent_bytes'] / 1000:.1f} kB",
            f"{row['received_bytes'] / 1000:.1f} kB",
            f"{row['sent_bytes'] / row['plain_bytes']:.3f}",
            f"{row['device_ms']:.1f} ms",
            f"{row['server_s']:.2f} s",
        ]
        for row in rows
    ]
    head = ["devices", "neighbours, threshold", "sent", "received", "of float32", "CPU a device", "CPU of the server"]
    print(table(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
