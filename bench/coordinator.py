"""How many updates a coordinator takes in, how long a device waits for its acknowledgement, and how its memory grows.

A real mosquitto, the coordinator in a process of its own, and real links: every simulated device signs an update
of the plug-in's size for every round, and notes the seconds from its first byte to the acknowledgement, which comes
after the commit. Devices answer an invitation at once, all together: the worst case.

    python bench/coordinator.py [--devices 1000] [--rounds 10] [--processes 2] [--database URL] [--json]

Prints for every round seconds, updates a second, the latency's median and 99th percentile, and the coordinator's
memory (PSS) at its end; then the same over all rounds, and the largest rise of memory after the first round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from auricle.frames import CHUNK, open_frame, seal
from auricle.identity import Identity
from auricle.messages import Ack, CoordinatorState, Invite, Nothing, Register, Update
from auricle.mqtt import BrokerAddress, LinkSettings, MqttLink
from auricle.mqtt import Message as Arrived
from auricle.pack import load_pack
from auricle.tensors import digest, encode
from auricle.topics import Topics
from auricle_cloud.coordinator import Coordinator
from auricle_cloud.presets import PAPER
from auricle_cloud.run_settings import RoundDone, RunSettings

FLEET, PACK = "bench", "gsc35"


class Device:
    """One simulated device: no training, real updates."""

    def __init__(self, name: str, address: BrokerAddress, key: bytes, pack: str, weights: np.ndarray) -> None:
        self.name, self._key, self._pack, self._weights = name, key, pack, weights
        self._identity, self._topics = Identity.create(), Topics(FLEET)
        self.sent: dict[int, float] = {}
        self.waits: dict[int, float] = {}
        handlers = {
            self._topics.down(name, "+"): self._heard,
            self._topics.coordinator_state: self._coordinator,
        }
        self.link = MqttLink(LinkSettings(address, name, keepalive=120), handlers=handlers)

    def _head(self) -> dict[str, Any]:
        return {"fleet": FLEET, "device": self.name, "boot": "b"}

    async def _coordinator(self, arrived: Arrived) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        if isinstance(message, CoordinatorState) and message.online:
            await self._register()

    async def _register(self) -> None:
        topic = self._topics.up(self.name, "reg")
        register = Register(
            **self._head(), public_key=self._identity.public, agent="bench", pack=self._pack,
            architecture="crnn-lite", codecs=("float32",), samples=10,
        )  # fmt: skip
        await self.link.publish(topic, seal(self._identity, topic, register))

    async def _heard(self, arrived: Arrived) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        if isinstance(message, Nothing) and message.again:
            await self._register()
        elif isinstance(message, Invite) and message.round not in self.sent:
            await self._send(message)
        elif isinstance(message, Ack) and message.round in self.sent:
            self.waits.setdefault(message.round, time.monotonic() - self.sent[message.round])
            if message.verdict not in ("accepted", "duplicate"):
                print(json.dumps({"refused": message.verdict}), flush=True)

    async def _send(self, invite: Invite) -> None:
        self._weights[0] = invite.round
        body = encode(self._weights)
        update = Update(
            **self._head(), task=invite.task, round=invite.round, attempt=1, epoch=invite.epoch, base=invite.base,
            body=digest(body), length=len(body), codec="float32", samples=10, loss=1.0,
        )  # fmt: skip
        topic = self._topics.up(self.name, "upd")
        pieces = [body[i : i + CHUNK] for i in range(0, len(body), CHUNK)]
        self.sent[invite.round] = time.monotonic()
        for i, piece in enumerate(pieces):
            whole = {"part": i, "parts": len(pieces)}
            await self.link.publish(topic, seal(self._identity, topic, _with(update, **whole), piece))


def _with(update: Update, **changes: Any) -> Update:
    import msgspec

    return msgspec.structs.replace(update, **changes)


async def simulate(told: dict[str, Any]) -> None:
    """Be many devices until standard input closes; then print every wait."""
    pack = load_pack(PACK)
    rng = np.random.default_rng(0)
    size = pack.plugin_table.size
    devices = []
    for name, url in told["devices"]:
        weights = rng.normal(0, 0.05, size).astype(np.float32)
        devices.append(Device(name, BrokerAddress.parse(url), bytes.fromhex(told["key"]), pack.identity, weights))
    began = time.monotonic()
    for start in range(0, len(devices), 100):
        await asyncio.gather(*(device.link.start() for device in devices[start : start + 100]))
    await asyncio.gather(*(device.link.wait_connected(120) for device in devices))
    print(json.dumps({"connected": len(devices), "seconds": time.monotonic() - began}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    waits = [(number, wait) for device in devices for number, wait in device.waits.items()]
    print(json.dumps({"waits": waits}), flush=True)
    os._exit(0)  # thousands of polite goodbyes are not what is measured


def memory(pid: int) -> float:
    """Proportional set size of a process in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("no Pss in smaps_rollup")


async def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run broker, coordinator and devices; everything that was measured."""
    from auricle_fleet.broker import start_broker

    names = [f"dev-{i:05d}" for i in range(arguments.devices)]
    users = {name: secrets.token_hex(8) for name in ("coordinator", *names)}
    async with await start_broker(folder, users, fleet=FLEET, kind="mosquitto") as broker:
        told = {
            "broker": broker.address("coordinator").url, "folder": str(folder / "state"), "rounds": arguments.rounds,
            "devices": arguments.devices, "rule": arguments.rule, "database": arguments.database,
        }  # fmt: skip
        server = await _child("--serve", told)
        key = json.loads(await server.stdout.readline())["coordinator"]
        everybody = [(name, broker.address(name).url) for name in names]
        shares = [everybody[i :: arguments.processes] for i in range(arguments.processes)]
        simulators = [await _child("--simulate", {"key": key, "devices": share}) for share in shares]
        connected = [json.loads(await s.stdout.readline()) for s in simulators]
        rounds = []
        while line := await server.stdout.readline():
            told = json.loads(line)
            if "round" in told:
                rounds.append({**told, "mb": memory(server.pid)})
        await server.wait()
        waits: list[tuple[int, float]] = []
        for simulator in simulators:
            out, _ = await simulator.communicate(b"")
            for line in out.splitlines():
                said = json.loads(line)
                waits += [tuple(entry) for entry in said.get("waits", [])]
                if "refused" in said:
                    print("refused:", said["refused"], file=sys.stderr)
    return {"rounds": rounds, "waits": waits, "connect_seconds": max(c["seconds"] for c in connected)}


async def _child(part: str, told: dict[str, Any]) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, part, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(told).encode() + b"\n")
    await process.stdin.drain()
    return process


async def serve(told: dict[str, Any]) -> None:
    """Be the coordinator, and print a line a round."""

    async def show_round(done: RoundDone) -> None:
        line = {"round": done.number, "state": done.state, "counted": done.counted, "seconds": done.seconds}
        print(json.dumps(line), flush=True)

    settings = RunSettings(
        FLEET, BrokerAddress.parse(told["broker"]), Path(told["folder"]), told["rounds"], devices=told["devices"],
        gather=300.0, quorum=1.0, preset=replace(PAPER, rule=told["rule"], rule_options={}),
        database=told["database"],
    )  # fmt: skip
    coordinator = Coordinator(settings, load_pack(PACK), show_round)
    print(json.dumps({"coordinator": coordinator.identity.public.hex()}), flush=True)
    await coordinator.run()


def report(found: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """What is printed."""
    table = []
    for entry in found["rounds"]:
        waits = sorted(wait for number, wait in found["waits"] if number == entry["round"])
        table.append(
            {
                "round": entry["round"],
                "counted": entry["counted"],
                "seconds": entry["seconds"],
                "updates_per_second": entry["counted"] / entry["seconds"],
                "ack_median": statistics.median(waits) if waits else None,
                "ack_p99": waits[int(0.99 * (len(waits) - 1))] if waits else None,
                "mb": entry["mb"],
            }
        )
    every = sorted(wait for _, wait in found["waits"])
    memories = [row["mb"] for row in table]
    return {
        "devices": arguments.devices, "rounds": table, "counted": sum(row["counted"] for row in table),
        "connect_seconds": found["connect_seconds"],
        "updates_per_second": statistics.median(row["updates_per_second"] for row in table),
        "ack_median": statistics.median(every), "ack_p99": every[int(0.99 * (len(every) - 1))],
        "mb_first": memories[0], "mb_last": memories[-1], "mb_rise": max(memories[1:], default=0) - memories[0],
        "load": os.getloadavg()[0], "cores": os.cpu_count(),
    }  # fmt: skip


def show(result: dict[str, Any]) -> None:
    """Print a table."""
    print(f"{result['devices']} devices connected in {result['connect_seconds']:.1f} s; {result['cores']} cores, "
          f"load {result['load']:.1f}")  # fmt: skip
    print("round  counted  seconds  updates/s  ack median  ack p99     PSS")
    for row in result["rounds"]:
        print(
            f"{row['round']:5d}  {row['counted']:7d}  {row['seconds']:7.2f}  {row['updates_per_second']:9.0f}  "
            f"{row['ack_median']:8.2f} s  {row['ack_p99']:6.2f} s  {row['mb']:5.0f} MB"
        )
    print(
        f"all    {result['counted']:7d}           {result['updates_per_second']:9.0f}  {result['ack_median']:8.2f} s  "
        f"{result['ack_p99']:6.2f} s  rise after round 1: {result['mb_rise']:.1f} MB"
    )


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rule", default="lpa")
    parser.add_argument("--database", default=None)
    parser.add_argument("--json", action="store_true")
    for part in ("--simulate", "--serve"):
        parser.add_argument(part, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.simulate or arguments.serve:
        part = simulate if arguments.simulate else serve
        asyncio.run(part(json.loads(sys.stdin.readline())))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        result = report(asyncio.run(measure(arguments, Path(folder))), arguments)
    if arguments.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
