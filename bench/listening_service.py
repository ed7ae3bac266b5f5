"""The whole service, `auricle edge run`, listening to a FIFO at the speed of a microphone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from bench.listening_scene import RATE, Scene
from bench.listening_worker import Found, Heard
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_edge.control import ControlClient

BLOCK = 800
STARTED = 120.0
"""Seconds within which the service must hear its first sound."""
Write = Callable[[NDArray[np.int16]], None]
TICKS = os.sysconf("SC_CLK_TCK")


def heard_by_service(scene: Scene, state: Path | None, pack: str, threshold: float) -> Heard:
    """Let the service listen to a scene.

    Parameters
    ----------
    scene
        Is written into a FIFO as fast as time passes, whether or not it is read.
    state
        State folder of a device; a copy is used. None: a new device.
    pack, threshold
        As of the service; it keeps no clip by itself and is in no fleet.

    Returns
    -------
    Heard
        `real_time_factor` is the CPU time of all its processes, `pss_kb` their memory when the scene is over.
    """
    with tempfile.TemporaryDirectory(prefix="auricle-") as made:
        folder = Path(made)
        if state is not None:
            shutil.copytree(state, folder / "state")
        os.mkfifo(folder / "sound")
        (folder / "edge.toml").write_text(
            f"[detect]\nthreshold = {threshold}\n[labels]\npseudo = false\nautomatic_per_hour = 0\n", "utf-8"
        )
        command = [
            sys.executable, "-m", "auricle", "edge", "run", "--config", str(folder / "edge.toml"), "--device",
            "bench-device", "--state", str(folder / "state"), "--source", f"fifo:{folder / 'sound'}", "--pack", pack,
            "--json",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                return _listened(scene, folder, service)
            finally:
                service.terminate()


def _listened(scene: Scene, folder: Path, service: subprocess.Popen[str]) -> Heard:
    lines: list[str] = []
    assert service.stdout is not None
    reader = threading.Thread(target=lines.extend, args=(service.stdout,), daemon=True)
    reader.start()
    client = ControlClient(folder / "state")
    with _writer(folder / "sound") as write:
        _play_until_heard(write, client)
        cpu, late, began = _cpu(service.pid), 0.0, time.monotonic()
        first = time.time()
        for at in range(0, len(scene.samples), BLOCK):
            piece = scene.samples[at : at + BLOCK]
            wait = began + (at + len(piece)) / RATE - time.monotonic()
            time.sleep(max(0.0, wait))
            late = max(late, -wait)
            write(piece)
        time.sleep(1.0)
        seconds = len(scene.samples) / RATE
        cpu, pss = _cpu(service.pid) - cpu, sum(_pss(pid) for pid in _family(service.pid))
        figures = client.get("/v1/status")["listening"]
    service.terminate()
    service.wait(60)
    reader.join(10)
    events = [event for event in map(json.loads, lines) if event.get("type") == "detection"]
    found = tuple(
        Found(e["word"], e["score"], e["at"] - first, round((e["at"] - e["latency"] - first) * RATE)) for e in events
        if e["at"] >= first
    )  # fmt: skip
    return Heard(found, cpu / seconds, figures["open_share"], figures["windows"], pss, late)


@contextlib.contextmanager
def _writer(fifo: Path) -> Iterator[Write]:
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)

    def write(samples: NDArray[np.int16]) -> None:
        with contextlib.suppress(BlockingIOError):  # a microphone does not wait for its listener
            os.write(descriptor, samples.astype("<i2").tobytes())

    try:
        yield write
    finally:
        os.close(descriptor)


def _play_until_heard(write: Write, client: ControlClient) -> None:
    """Faint noise until the service says that it hears, and two seconds more."""
    rng, end = np.random.default_rng(0), time.monotonic() + STARTED
    left = 2 * RATE // BLOCK
    while left:
        if time.monotonic() > end:
            raise TimeoutError(f"The service heard nothing within {STARTED:.0f} seconds.")
        write(rng.normal(0, 8, BLOCK).astype(np.int16))
        time.sleep(BLOCK / RATE)
        with contextlib.suppress(AuricleError):
            left -= bool(client.get("/v1/status")["capture"]["running"])


def _family(pid: int) -> list[int]:
    """A process and all that come of it."""
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            children += (task / "children").read_text("ascii").split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def _cpu(pid: int) -> float:
    """CPU seconds of a process and all that come of it."""
    total = 0
    for each in _family(pid):
        fields = Path(f"/proc/{each}/stat").read_text("utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _pss(pid: int) -> int:
    """Proportional set size in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
