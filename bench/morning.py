"""A morning with a device: `auricle edge run` hears mixed sound from a FIFO at the speed of a microphone.

Everything that it says on standard output is held against what was said, word by word: wake words heard and missed,
commands right, wrong and missed, and whatever it heard that nobody said. The sound is of people, readers and noises
that trained no pack that it takes: the test parts of `wakewords` and `gsc-more`, and of `stream-more`; other words
also of `gsc`, reading of `stream`, another language where the test part of `arabic` has anybody.

    python bench/morning.py --data DATA [--pack home] [--minutes 60] [--seed 0] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import AuricleError, DataError
from auricle.hearing.rule import keyword_mask
from auricle.hearing.scenes import Scene
from auricle.hearing.waking import Heard
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.device import device_events
from auricle_edge.evaluate.report import DeviceEvents
from auricle_edge.evaluate.sources import Sources
from bench.hearing_sound import load_stranger, never_heard
from bench.morning_sound import a_morning

BLOCK = 800
"""Samples that are written at a time: 50 ms."""
BEFORE, AFTER = 12.0, 3.0
"""Seconds of faint noise: until the service has started, and until it has said its last word."""
_HISS = 8.0


@dataclass(frozen=True)
class Morning:
    """What became of it."""

    pack: str
    minutes: float
    events: DeviceEvents
    cpu_seconds: float
    """Of the service and its children."""
    load: tuple[float, ...]
    late: float
    """Seconds by which the sound was written too late at worst."""
    said: tuple[tuple[float, str, str], ...]
    """Seconds, kind and word of everything that the service said."""


def sources_of(data: Path, keywords: Sequence[str], wake: Sequence[str]) -> Sources:
    """People, readers and noises that no pack of `load_stranger` was trained on.

    Raises
    ------
    DataError
        A folder is missing, or holds no wake word or command.
    """
    sources = never_heard(data, (data / "gsc-more", data / "wakewords"), keywords)
    spoken = {take.word for take in sources.keywords}
    if not spoken & set(wake) or not spoken - set(wake):
        raise DataError(f"There is nobody in {data} who says a wake word and a command of this pack.")
    return sources


def spent(scene: Scene, pack: str, folder: Path) -> tuple[list[tuple[float, str, str]], float, float]:
    """Let the service hear a scene: what it said and when, its CPU seconds, and by how much the sound came too late."""
    fifo = folder / "sound"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "auricle", "edge", "run", "--device", "kitchen", "--pack", pack, "--json"]
    command += ["--state", str(folder / "state"), "--source", f"fifo:{fifo}"]
    lines: list[str] = []
    before = os.times()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(service.stdout,), daemon=True)
        reader.start()
        try:
            began, late = _play(scene.samples, fifo, service)
        finally:
            service.terminate()
            code = service.wait(60)
        reader.join(10)
    if code:
        raise DataError(f"auricle edge run ended with {code}: start it alone to see why.")
    after = os.times()
    events = [event for event in map(json.loads, lines) if event.get("type") in ("wake", "detection")]
    said = [(event["at"] - began, str(event["type"]), str(event["word"])) for event in events]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return said, cpu, late


def _play(samples: np.ndarray, fifo: Path, service: subprocess.Popen[str]) -> tuple[float, float]:
    """Write sound as fast as time passes; when the scene began, and by how much it came too late."""
    rng = np.random.default_rng(0)
    quiet = [rng.normal(0, _HISS, round(seconds * SAMPLE_RATE)).astype(np.int16) for seconds in (BEFORE, AFTER)]
    whole = np.concatenate((quiet[0], samples, quiet[1])).astype("<i2")
    descriptor, late = os.open(fifo, os.O_RDWR | os.O_NONBLOCK), 0.0
    try:
        start, clock = time.time(), time.monotonic()
        for at in range(0, len(whole), BLOCK):
            piece = whole[at : at + BLOCK]
            wait = clock + (at + len(piece)) / SAMPLE_RATE - time.monotonic()
            late = max(late, -wait)
            time.sleep(max(0.0, wait))
            if service.poll() is not None:
                raise DataError(f"auricle edge run ended with {service.returncode}: start it alone to see why.")
            try:
                os.write(descriptor, piece.tobytes())
            except BlockingIOError:
                continue  # nobody reads yet; a microphone does not wait
            if not at // BLOCK % 200:
                done = min(1.0, at / len(whole))
                print(f"\r{done:5.0%} of {len(whole) / SAMPLE_RATE / 60:.0f} minutes", end="", file=sys.stderr)
        print(file=sys.stderr)
    finally:
        os.close(descriptor)
    return start + BEFORE, late


def text_of(morning: Morning) -> str:
    """The result as lines of at most 80 columns."""
    events, counts = morning.events, morning.events.commands
    cores = morning.cpu_seconds / morning.minutes / 60
    unsaid = sum(kind == "detection" for _, kind, _ in morning.said) - counts.right - counts.wrong
    lines = [f"{morning.pack}, {morning.minutes:.1f} minutes, {cores:.1%} of a core"]
    for kind, share in sorted(events.wakes.items()):
        lines.append(f"  wake words, {kind:<12} {share.right:4d} of {share.of} heard")
    lines.append(f"  commands said            {counts.commands:4d}, {counts.reached} after a wake word that was heard")
    lines.append(f"  right                    {counts.right:4d}")
    lines.append(f"  wrong                    {counts.wrong:4d}")
    lines.append(f"  missed                   {counts.commands - counts.right - counts.wrong:4d}")
    lines.append(f"  commands that nobody said{unsaid:4d}, {counts.false} of them after a wake word alone")
    lines.append(f"  without keywords       {counts.hours * 60:4.1f} min:")
    for kind in sorted(events.false_wakes):
        wakes, commands = events.false_wakes[kind], events.false_commands.get(kind)
        said = 0 if commands is None else commands.count
        lines.append(f"    {kind:<14} {wakes.hours * 60:5.1f} min, false wakes {wakes.count}, false commands {said}")
    lines.append(f"load {morning.load[0]:.1f}, sound written too late by {morning.late * 1000:.0f} ms at worst")
    return "\n".join(lines)


def main() -> int:
    """Compose, listen, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pack", default="home")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        pack = load_stranger(given.pack)
        if pack.listening is None or not pack.listening.wake:
            raise DataError(f"The pack {pack.manifest.name} has no wake word: a morning is for packs that have one.")
        wake, window = pack.listening.wake, pack.listening.window
        keywords = [label for label, word in zip(pack.labels, keyword_mask(pack.labels), strict=True) if word]
        scene = a_morning(sources_of(given.data, keywords, wake), wake, given.minutes, given.seed)
        with tempfile.TemporaryDirectory(prefix="auricle-morning-") as folder:
            said, cpu, late = spent(scene, given.pack, Path(folder))
    except (AuricleError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: a morning is counted whole or not at all.", file=sys.stderr)
        return 130
    heard = [Heard(word, round(at * SAMPLE_RATE), command=kind == "detection") for at, kind, word in said]
    events = device_events([scene], [heard], wake, window)
    minutes = len(scene.samples) / SAMPLE_RATE / 60
    morning = Morning(given.pack, minutes, events, cpu, os.getloadavg(), late, tuple(said))
    print(msgspec.json.encode(morning).decode() if given.json else text_of(morning))
    return 0


if __name__ == "__main__":
    sys.exit(main())
