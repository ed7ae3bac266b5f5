"""What a device that listens costs, idle and while it trains: memory, CPU, dropped sound, latency of detection.

A real broker, a coordinator and one `auricle edge run` that listens to a FIFO, into which words are said at the pace of
time. First there is no coordinator (idle), then there are rounds one after the other (training), during which the words
go on: the gate is told not to wait for silence. The device has one core to itself and everybody else the others.

Memory is that of the process tree, at its most in samples of half a second. `PSS` is the kernel's, in which a page of a
library that other programs have mapped too counts in part; `alone` is what it would be if no other program had, as on a
board where nothing else is written in Python. Latency is from the arrival of a word's last sample to the decision; of
the training phase, those detections count during which training used the processor.

    python bench/edge_footprint.py [--seconds 120] [--core 1] [--pack home] [--local MODEL] [--clips 200]
                                   [--runtime auto] [--idle-only] [--parts 0] [--json]

`--parts 12` prints of the last sample of each phase which mappings hold most: pages of their own (`private`), which no
kernel can drop, and pages of files, by process.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray
from tests.system.virtual_room import VirtualRoom

from auricle.errors import AuricleError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle.wire.identity import Identity
from auricle_edge.clips import ClipSettings, ClipStore, NewClip
from auricle_edge.control import ControlClient
from auricle_fleet.broker.broker import start_broker
from bench.comparison_table import table
from bench.process_memory import Memory, Part, memory, parts, tree

SAID = {"gsc12": "yes,no,stop,go"}
"""Words that are said to a device with a pack, where they are not the first of its own."""
FLEET, DEVICE = "bench", "bench-1"
SAMPLED = 0.5
"""Seconds between two samples of memory and of what training uses."""
TRAINS = 0.1
"""Share of a core from which a sampled stretch counts as training."""
SETTLING = 10.0
"""Seconds after which what only the start needed is given back."""
PATIENCE = 120.0
"""Seconds within which a process says what is waited for."""


@dataclass(frozen=True)
class Phase:
    """What was measured in a phase."""

    name: str
    seconds: float
    memory: Memory
    """The largest of each."""
    parts: list[Part]
    """At its end."""
    cpu_percent: float
    """Of one core, the whole tree."""
    dropped: int
    """Samples that never reached the detector."""
    restarts: int
    rounds: int
    training_percent: float
    """Share of the phase in which training used the processor."""
    detections: int
    latency_p50: float | None
    """Milliseconds."""
    latency_p95: float | None


# -- a process tree


def cpu_seconds(pid: int) -> float:
    """Of a process tree, so far."""
    ticks = 0
    for member in tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def yielding_seconds(pid: int) -> float:
    """CPU seconds of those threads that step back for the others: training's."""
    ticks = 0
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        fields = path.read_text().rpartition(")")[2].split()
        if int(fields[16]) >= 10:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# -- processes


class Process:
    """An `auricle` command whose lines of JSON are collected with the time they came."""

    def __init__(self, cores: set[int], *arguments: str) -> None:
        self.command = ["auricle", *arguments]
        own = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE",)}
        self._popen = subprocess.Popen(
            [sys.executable, "-m", *self.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=own,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.pid, self.lines, self._news = self._popen.pid, list[dict[str, Any]](), threading.Condition()
        self._errors = ""
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._complain)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for text in self._popen.stdout:
            with self._news:
                self.lines.append({"came": time.monotonic(), **json.loads(text)})
                self._news.notify_all()

    def _complain(self) -> None:
        assert self._popen.stderr is not None
        for text in self._popen.stderr:
            self._errors += text

    def wait(self, wanted: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
        """The first line that is wanted; AuricleError when none comes."""
        until = time.monotonic() + PATIENCE
        with self._news:
            while True:
                for line in self.lines:
                    if wanted(line):
                        return line
                if self._popen.poll() is not None or time.monotonic() > until:
                    raise AuricleError(f"{' '.join(self.command[:3])} did not say what was waited for: {self._errors}")
                self._news.wait(1.0)

    def end(self) -> None:
        """End it."""
        self._popen.terminate()
        try:
            self._popen.wait(30)
        except subprocess.TimeoutExpired:
            self._popen.kill()


# -- a phase


def phase(
    name: str,
    device: Process,
    state: Path,
    seconds: float,
    say: Callable[[], None],
    rounds: Callable[[], int],
    largest: int,
) -> Phase:
    """Say words for a while, and measure."""
    control = ControlClient(state)
    before, began, cpu, counted = control.get("/v1/status"), time.monotonic(), cpu_seconds(device.pid), rounds()
    first, over = len(device.lines), threading.Event()
    speaker = threading.Thread(target=lambda: [say() for _ in iter(over.is_set, True)])
    speaker.start()
    most, trained = memory(device.pid), list[tuple[float, float]]()
    while time.monotonic() - began < seconds:
        now, used = time.monotonic(), yielding_seconds(device.pid)
        time.sleep(SAMPLED)
        if yielding_seconds(device.pid) - used > TRAINS * (time.monotonic() - now):
            trained.append((now, time.monotonic()))
        sample = memory(device.pid)
        most = Memory(*(max(pair) for pair in zip(asdict(most).values(), asdict(sample).values(), strict=True)))
    held = parts(device.pid, largest) if largest else []
    elapsed, cpu = time.monotonic() - began, cpu_seconds(device.pid) - cpu
    counted = rounds() - counted
    over.set()
    speaker.join()
    after = control.get("/v1/status")
    heard = [line for line in device.lines[first:] if line.get("type") == "detection"]
    if trained:
        heard = [line for line in heard if any(start <= line["came"] <= end for start, end in trained)]
    latencies = [1000 * line["latency"] for line in heard]
    p50, p95 = np.percentile(latencies, (50, 95)).tolist() if latencies else (None, None)
    restarts = (sum(s["capture"]["restarts"].values()) for s in (after, before))
    return Phase(
        name,
        elapsed,
        most,
        held,
        100 * cpu / elapsed,
        after["capture"]["dropped"] - before["capture"]["dropped"],
        next(restarts) - next(restarts),
        counted,
        100 * sum(end - start for start, end in trained) / elapsed,
        len(latencies),
        p50,
        p95,
    )


# -- the whole


def speech(pack: str) -> dict[str, list[NDArray[np.int16]]]:
    """Takes of some words of a pack by synthetic voices."""
    words = SAID.get(pack) or ",".join([word for word in load_pack(pack).labels if word not in SPECIAL_LABELS][:4])
    made = synthesise(SynthesisSettings(words=words, speakers=5, takes=4))
    return {
        label: [made.audio[i] for i in np.flatnonzero(made.targets == target)]
        for target, label in enumerate(made.labels)
    }


def keep_clips(pack: str, state: Path, takes: Mapping[str, list[NDArray[np.int16]]], count: int) -> None:
    """Give the device clips of its own to train on."""
    rng, words = np.random.default_rng(0), sorted(takes)
    store = ClipStore(state / "clips", ClipSettings(), LogMel(load_pack(pack).manifest.task))
    for i in range(count):
        word = words[i % len(words)]
        take = takes[word][int(rng.integers(len(takes[word])))]
        noisy = np.clip(take + rng.normal(0, 30, len(take)), -32768, 32767).astype(np.int16)
        store.add(NewClip(noisy, word, "enrolled", 1.0))
    store.close()


@contextmanager
def opened(room: VirtualRoom) -> Iterator[VirtualRoom]:
    """A room that makes sound."""
    room.open()
    try:
        yield room
    finally:
        room.close()


def wait_for_sound(state: Path, device: Process) -> None:
    """Until the device hears, and the words of its start are over."""
    device.wait(lambda line: "words" in line)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            if ControlClient(state).get("/v1/status")["capture"]["running"]:
                return
        except AuricleError:
            pass
        time.sleep(0.2)
    raise AuricleError("The device hears nothing.")


def device_command(
    given: argparse.Namespace, config: Path, state: Path, broker: str, key: str, source: str
) -> list[str]:
    """A device that listens to a source and takes part in rounds."""
    told = {
        "config": str(config),
        "device": DEVICE,
        "fleet": FLEET,
        "broker": broker,
        "coordinator": key,
        "state": str(state),
        "source": source,
        "pack": given.pack,
        "runtime": given.runtime,
        **({} if given.local is None else {"local": given.local}),
    }
    return ["edge", "run", *options(told), "--json"]


def coordinator_command(given: argparse.Namespace, state: Path, broker: str) -> list[str]:
    """A coordinator that begins one round after the other."""
    told = {
        "broker": broker,
        "fleet": FLEET,
        "state": str(state),
        "approval": "auto",
        "listen": "none",
        "rounds": "100000",
        "preset": given.preset,
        "pack": given.pack,
    }
    return ["cloud", "serve", *options(told), "--json"]


def options(told: Mapping[str, str]) -> list[str]:
    """A command line's options by name."""
    return [word for name, value in told.items() for word in (f"--{name}", value)]


async def measure(given: argparse.Namespace, folder: Path) -> tuple[list[str], list[Phase]]:
    """The command line of the device, and its phases."""
    takes, state = speech(given.pack), folder / "device"
    keep_clips(given.pack, state, takes, given.clips)
    others = os.sched_getaffinity(0) - {given.core} or {given.core}
    os.sched_setaffinity(0, others)
    config = folder / "edge.toml"
    config.write_text(
        "[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n[learn]\njudge = false\n"
        "[labels]\nconfirm_seconds = 1\n[detect]\nthreshold = 0.5\n"
    )
    key = Identity.load_or_create(folder / "coordinator" / "coordinator.key").public.hex()
    users = {name: secrets.token_hex(8) for name in ("coordinator", DEVICE)}
    phases, running = list[Phase](), list[Process]()
    async with await start_broker(folder, users, fleet=FLEET) as broker:
        with opened(VirtualRoom(folder / "microphone")) as room:
            device = Process(
                {given.core}, *device_command(given, config, state, broker.address(DEVICE).url, key, room.source)
            )
            running.append(device)
            coordinator: Process | None = None

            def rounds() -> int:
                lines = [] if coordinator is None else coordinator.lines
                return sum(line.get("counted", 0) > 0 for line in lines)

            words = [take for several in zip(*takes.values(), strict=True) for take in several]
            said = itertools.cycle(words)

            def say() -> None:
                room.say(next(said), pause=0.5)

            try:
                await asyncio.to_thread(wait_for_sound, state, device)
                start = functools.partial(phase, "start", device, state, SETTLING, say, rounds, given.parts)
                phases.append(await asyncio.to_thread(start))
                phases.append(
                    await asyncio.to_thread(phase, "idle", device, state, given.seconds, say, rounds, given.parts)
                )
                if not given.idle_only:
                    coordinator = Process(
                        others, *coordinator_command(given, folder / "coordinator", broker.address("coordinator").url)
                    )
                    running.append(coordinator)
                    await asyncio.to_thread(coordinator.wait, lambda line: line.get("counted", 0) > 0)
                    phases.append(
                        await asyncio.to_thread(
                            phase, "training", device, state, given.seconds, say, rounds, given.parts
                        )
                    )
            finally:
                for process in reversed(running):
                    await asyncio.to_thread(process.end)
    return device.command, phases


def row(measured: Phase) -> list[str]:
    """A line of the table."""
    memory, latency = measured.memory, (measured.latency_p50, measured.latency_p95)
    return [
        measured.name,
        f"{memory.pss:.1f}",
        f"{memory.alone:.1f}",
        f"{memory.private_dirty:.1f}",
        f"{measured.cpu_percent:.1f}",
        str(measured.dropped),
        str(measured.restarts),
        str(measured.rounds),
        f"{measured.training_percent:.0f}",
        str(measured.detections),
        *("-" if value is None else f"{value:.0f}" for value in latency),
    ]


HEADER = (
    "",
    "PSS MB",
    "alone MB",
    "private dirty MB",
    "CPU %",
    "samples dropped",
    "restarts",
    "rounds",
    "training %",
    "detections",
    "latency p50 ms",
    "p95 ms",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="of each phase")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the device's")
    parser.add_argument("--local", help="the device's own model; without, the one that a device chooses")
    parser.add_argument("--runtime", default="auto", help="the device's: auto, step or native")
    parser.add_argument("--preset", default="practical")
    parser.add_argument("--clips", type=int, default=200, help="that the device has to train on")
    parser.add_argument("--pack", default="home")
    parser.add_argument("--parts", type=int, default=0, help="mappings of each process to print")
    parser.add_argument("--idle-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
        command, phases = asyncio.run(measure(given, Path(folder)))
    if given.json:
        print(json.dumps({"load": os.getloadavg(), "command": command, "phases": [asdict(p) for p in phases]}))
        return
    print(f"{' '.join(command)}\n{given.seconds:.0f} s a phase, one core, load {os.getloadavg()}")
    print(table(HEADER, [row(p) for p in phases]))
    for measured in phases:
        if measured.parts:
            rows = [[part.process, part.name, f"{part.private:.1f}", f"{part.file:.1f}"] for part in measured.parts]
            print(table((measured.name, "", "private MB", "of files MB"), rows))
    if len(phases) == 3 and phases[1].latency_p95 and phases[2].latency_p95:
        print(f"p95 while training is {phases[2].latency_p95 / phases[1].latency_p95:.2f} times that of idle")


if __name__ == "__main__":
    main()
