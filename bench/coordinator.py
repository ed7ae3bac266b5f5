"""How many updates a coordinator takes in, how long a device waits for its acknowledgement, and what that costs.

A real mosquitto, the coordinator in a process of its own, and real links: every simulated device signs and sends an
update of the plug-in's size in every round, and notes the seconds from its first byte to the acknowledgement, which
comes after the commit. Devices answer an invitation at once, all together: the worst case; or, with `--rate`, so many
a second, one after the other. Broker and devices run on the same cores as the coordinator, so the CPU time of each is
printed.

    python bench/coordinator.py [--devices 1000] [--rounds 10] [--codec float16] [--rate 20] [--database URL] [--json]
    python bench/coordinator.py --weights 126000              # a larger plug-in: the pack's, with a tensor put in front
    python bench/coordinator.py --devices 2000 --invite 2     # to each that answers one is invited who never does

Prints for every round seconds, updates a second, the latency's median and 99th percentile, milliseconds of CPU an
update took in coordinator, broker and devices, and the coordinator's memory (PSS), threads and open files at its end;
then the same over all rounds, how these three grew after the first round, and how their medians grew from the middle
third of the rounds to the last: by then the pool of threads has filled, and what still grows does so with the rounds.
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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.system.simulated_device import SimulatedDevice

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import Pack, load_pack
from auricle.process.cycles import look_seldom
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import CODECS, TensorTable
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import PAPER
from bench.coordinator_counts import counters_of, database_size

RESEND = 120.0
"""Seconds: an update that is sent twice would be measured twice."""

FLEET, PACK = "bench", "gsc35"
NEVER = 1e9
"""Seconds after which a device answers that is to be silent."""
KEEPALIVE = 120
SERVED = ("rule", "database", "weights", "invite", "blobs", "participation", "keep_models")
"""Options that the coordinator is told."""
TRAFFIC = ("bytes_sent", "bytes_received", "messages_sent")


async def simulate(told: dict[str, Any]) -> None:
    """Be many devices until standard input closes; then print every wait."""
    pack = load_pack(PACK)
    devices = [
        SimulatedDevice(
            name,
            FLEET,
            BrokerAddress.parse(url),
            bytes.fromhex(told["key"]),
            pack.identity,
            told["weights"],
            RESEND,
            codec=told["codec"],
            keepalive=told["keepalive"],
            delay=delay,
        )
        for name, url, delay in told["devices"]
    ]
    began = time.monotonic()
    for start in range(0, len(devices), 100):
        await asyncio.gather(*(device.link.start() for device in devices[start : start + 100]))
    await asyncio.gather(*(device.link.wait_connected(120) for device in devices))
    connected = sum(device.link.connected for device in devices)
    print(json.dumps({"connected": connected, "seconds": time.monotonic() - began}), flush=True)
    asking = [asyncio.create_task(device.ask(told["ask"])) for device in devices if told["ask"]]
    await asyncio.to_thread(sys.stdin.read)
    for task in asking:
        task.cancel()
    waits = [(number, wait) for device in devices for number, wait in device.waits.items()]
    refused = sorted({v for device in devices for v in device.answers.values() if v not in ("accepted", "duplicate")})
    deaf = sum("refuses the subscription" in (device.link.last_error or "") for device in devices)
    counters = [device.link.counters for device in devices]
    traffic = {name: sum(getattr(each, name) for each in counters) for name in TRAFFIC}
    print(json.dumps({"waits": waits, "refused": refused, "suback_errors": deaf, **traffic}), flush=True)
    os._exit(0)  # thousands of polite goodbyes are not what is measured


def resources(pid: int) -> dict[str, float]:
    """A process's proportional set size in MB, what of it is no file's, its threads, and its open files."""
    place = Path(f"/proc/{pid}")
    lines = (line.split() for line in (place / "smaps_rollup").read_text().splitlines() if line.startswith("Pss"))
    held = {words[0]: int(words[1]) / 1000 for words in lines}
    return {
        "mb": held["Pss:"],
        "own": held["Pss_Anon:"],
        "threads": len(list((place / "task").iterdir())),
        "files": len(list((place / "fd").iterdir())),
    }


def waited(pid: int) -> float:
    """Seconds for which a process's first thread could have gone on and had no core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def most_resident(pid: int) -> float:
    """MB that a process had resident at most, the pages of files among them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


async def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run broker, coordinator and devices; everything that was measured."""
    from auricle_fleet.broker.broker import start_broker

    names = [f"dev-{i:05d}" for i in range(arguments.devices)]
    users = {name: secrets.token_hex(8) for name in ("coordinator", *names)}
    async with await start_broker(folder, users, fleet=FLEET, kind="mosquitto") as broker:
        told = {
            "broker": broker.address("coordinator").url,
            "folder": str(folder / "state"),
            "rounds": arguments.rounds,
            "devices": arguments.devices,
            **{name: getattr(arguments, name) for name in SERVED},
        }
        server = await child("--serve", told)
        key = json.loads(await server.stdout.readline())["coordinator"]
        apart = 1 / arguments.rate if arguments.rate else 0.0
        answering = round(arguments.devices / arguments.invite)
        delays = [i * apart if i < answering else NEVER for i in range(arguments.devices)]
        everybody = [(name, broker.address(name).url, delay) for name, delay in zip(names, delays, strict=True)]
        shares = [everybody[i :: arguments.processes] for i in range(arguments.processes)]
        about = {
            "key": key,
            "codec": arguments.codec,
            "weights": weights_of(arguments),
            "keepalive": KEEPALIVE,
            "ask": arguments.ask,
        }
        parts = {"coordinator": [server.pid], "broker": [broker.pid]}
        start = {part: cpu(pids) for part, pids in parts.items()}
        simulators = [await child("--simulate", {**about, "devices": share}) for share in shares]
        parts["devices"] = [s.pid for s in simulators]
        connected = [json.loads(await s.stdout.readline()) for s in simulators]
        rounds = []
        while line := await server.stdout.readline():
            used = {part: cpu(pids) for part, pids in parts.items()}
            peaks = {
                "peak": most_resident(server.pid),
                "broker_peak": most_resident(broker.pid),
                "waited": waited(server.pid),
            }
            rounds.append({**json.loads(line), **resources(server.pid), **peaks, "cpu": used})
        await server.wait()
        waits: list[tuple[int, float]] = []
        totals = dict.fromkeys(("suback_errors", *TRAFFIC), 0)
        for simulator in simulators:
            out, _ = await simulator.communicate(b"")
            said = json.loads(out)
            waits += [tuple(entry) for entry in said["waits"]]
            totals = {name: total + said[name] for name, total in totals.items()}
            if said["refused"]:
                print("refused:", said["refused"], file=sys.stderr)
    state = {"database_bytes": 0, "rows": 0} if arguments.database else database_size(folder / "state")
    about = {**state, "connected": sum(c["connected"] for c in connected), "start_cpu": start, **totals}
    return {"rounds": rounds, "waits": waits, "connect_seconds": max(c["seconds"] for c in connected), **about}


async def child(part: str, told: dict[str, Any]) -> Any:
    """Start a process of this benchmark."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, part, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(told).encode() + b"\n")
    await process.stdin.drain()
    return process


async def serve(told: dict[str, Any]) -> None:
    """Be the coordinator, and print a line a round."""

    async def show_round(done: RoundDone) -> None:
        line = {
            "round": done.number,
            "state": done.state,
            "counted": done.counted + done.left_out,
            "seconds": done.seconds,
            **{name: counter() for name, counter in counters.items()},
        }
        print(json.dumps(line), flush=True)

    pack = load_pack(PACK)
    if told["weights"] is not None:
        widen(pack, told["weights"])
    settings = RunSettings(
        FLEET,
        BrokerAddress.parse(told["broker"]),
        Path(told["folder"]),
        told["rounds"],
        devices=told["devices"],
        gather=300.0,
        participation=told["participation"] / told["invite"],
        over_selection=told["invite"],
        quorum=1 / told["invite"],
        preset=replace(PAPER, method=MethodSettings(told["rule"])),
        database=told["database"],
        blobs=told["blobs"],
        keep_models=told["keep_models"],
    )
    coordinator = Coordinator(settings, pack, show_round)
    counters = counters_of(coordinator)
    print(json.dumps({"coordinator": coordinator.identity.public.hex()}), flush=True)
    look_seldom()  # as `auricle cloud serve` does
    await coordinator.run()


def _latency(waits: Iterable[float]) -> dict[str, float | None]:
    ordered = sorted(waits)
    return {
        "ack_median": statistics.median(ordered) if ordered else None,
        "ack_p99": ordered[int(0.99 * (len(ordered) - 1))] if ordered else None,
    }


def late_growth(values: Sequence[float]) -> float:
    """From the median of the middle third of some rounds to that of the last; 0 of fewer than three."""
    third = len(values) // 3
    return statistics.median(values[2 * third :]) - statistics.median(values[third : 2 * third]) if third else 0.0


def report(found: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """What is printed."""
    table: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for entry in found["rounds"]:
        each = 1000 / max(1, entry["counted"])
        cost = {part: each * (used - before[part]) for part, used in entry["cpu"].items() if before}
        before = entry["cpu"]
        table.append(
            {
                **{name: entry[name] for name in ("round", "counted", "seconds", "mb", "threads", "files")},
                "updates_per_second": entry["counted"] / entry["seconds"],
                "cpu_ms": cost,
                **_latency(wait for number, wait in found["waits"] if number == entry["round"]),
            }
        )
    costs = [row["cpu_ms"] for row in table if row["cpu_ms"]]
    return {
        "devices": arguments.devices,
        "codec": arguments.codec,
        "bytes": weights_of(arguments) * CODECS[arguments.codec].itemsize,
        "weights": weights_of(arguments),
        "rounds": table,
        "counted": sum(row["counted"] for row in table),
        **{name: found[name] for name in ("connect_seconds", "connected", "suback_errors")},
        "updates_per_second": statistics.median(row["updates_per_second"] for row in table),
        "cpu_ms": {part: statistics.median(cost[part] for cost in costs) for part in (costs[0] if costs else ())},
        **_latency(wait for _, wait in found["waits"]),
        "growth": {what: max(row[what] for row in table) - table[0][what] for what in ("mb", "threads", "files")},
        "late_growth": {what: late_growth([row[what] for row in table]) for what in ("mb", "threads", "files")},
        "threads_most": max(row["threads"] for row in table),
        "mb_most": max(row["mb"] for row in table),
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def weights_of(arguments: argparse.Namespace) -> int:
    """Of the plug-in that is measured with."""
    return arguments.weights or load_pack(PACK).plugin_table.size


def widen(pack: Pack, weights: int) -> None:
    """Give a pack's plug-in so many weights, by a tensor in front of its own: a coordinator only adds them up."""
    table = pack.plugin_table
    more = TensorSpec("wide.weight", (weights - table.size,), "wide", 0.05)
    pack.tables[pack.manifest.plugin] = TensorTable((more, *table.specs))


def show(result: dict[str, Any]) -> None:
    """Print a table."""
    print(
        f"{result['connected']} devices connected in {result['connect_seconds']:.1f} s, updates of {result['bytes']} "
        f"bytes ({result['codec']}); {result['cores']} cores, load {result['load']:.1f}"
    )
    print(
        "round  counted  seconds  updates/s  ack median  ack p99  CPU ms an update: coordinator, broker, devices"
        "     PSS  threads  files"
    )
    for row in result["rounds"]:
        costs = "".join(f"{ms:7.2f}" for ms in row["cpu_ms"].values()) or f"{'-':>21}"
        print(
            f"{row['round']:5d}  {row['counted']:7d}  {row['seconds']:7.2f}  {row['updates_per_second']:9.0f}  "
            f"{row['ack_median']:8.2f} s  {row['ack_p99']:5.2f} s  {costs:>45}  {row['mb']:3.0f} MB  "
            f"{row['threads']:7d}  {row['files']:5d}"
        )
    growth, late = result["growth"], result["late_growth"]
    print(
        f"all: {result['counted']} counted, {result['updates_per_second']:.0f} a second, acknowledged after "
        f"{result['ack_median']:.2f} s (median) and {result['ack_p99']:.2f} s (99 %), at most "
        f"{result['mb_most']:.0f} MB; after the first round {growth['mb']:+.1f} MB, {growth['threads']:+d} threads, "
        f"{growth['files']:+d} files at most; from the middle third to the last {late['mb']:+.1f} MB, "
        f"{late['threads']:+.1f} threads, {late['files']:+.1f} files; {result['suback_errors']} subscriptions refused"
    )
    if result["cpu_ms"]:
        print("CPU an update: " + ", ".join(f"{part} {ms:.2f} ms" for part, ms in result["cpu_ms"].items()))


def options() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--codec", default="float32", choices=sorted(CODECS), help="float16 halves an update")
    parser.add_argument("--rate", type=float, default=0.0, help="updates that come a second; 0: all at once")
    parser.add_argument("--rule", default="lpa")
    parser.add_argument("--database", default=None)
    parser.add_argument("--blobs", default=None, help="URL of an object store, whose requests are counted")
    parser.add_argument("--keep-models", type=int, default=100)
    parser.add_argument("--weights", type=int, default=None, help="of the plug-in, more than the pack's [the pack's]")
    parser.add_argument("--participation", type=float, default=1.0, help="share of the devices that are invited")
    parser.add_argument("--ask", type=float, default=0.0, help="seconds after which devices ask what is next; 0: never")
    parser.add_argument("--invite", type=float, default=1.0, help="times as many as answer; the others never do")
    parser.add_argument("--json", action="store_true")
    for part in ("--simulate", "--serve"):
        parser.add_argument(part, action="store_true", help=argparse.SUPPRESS)
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = options().parse_args(given)
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
