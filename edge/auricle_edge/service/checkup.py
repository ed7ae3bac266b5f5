"""Is this board, and what the agent needs, in order? Each check says so in one sentence."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle import __version__
from auricle.errors import AuricleError, extra_command
from auricle.mqtt_link.link import LinkSettings
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import Pack
from auricle.process.checkup import Finding, Verdict, broker_reached, clock, disk, finding, size, versions_of
from auricle.process.size_trial import broker_takes
from auricle.wire.frames import Topics, largest_message
from auricle_edge.board.gate import Readings, Sensor
from auricle_edge.board.lasting import why_not_lasting
from auricle_edge.board.trusted_time import is_synchronised
from auricle_edge.listening.assist.settings import AssistSettings, require_ready
from auricle_edge.listening.capture.levels import Levels
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.listening.events.chosen import require_asked
from auricle_edge.listening.events.outputs import EventSettings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.answers import quote_words
from auricle_edge.service.microphone_check import clipping, examine_channels, examine_levels, level
from auricle_edge.service.status import awaited_words
from auricle_learning.native.first_use import death_of, library_is_there
from auricle_learning.native.library import brought_library
from auricle_learning.native.self_test import fault_of
from auricle_learning.runtimes import Partial

LEAST_DISK = 64 << 20
LEAST_MEMORY = 128 << 20
LIBRARIES = ("onnxruntime", "numpy", "msgspec", "paho-mqtt", "soundfile", "sounddevice", "soxr", "wyoming")
VECTORS = {"x86_64": ("avx2", "fma"), "aarch64": ("asimd",), "arm64": ("asimd",)}
"""Processor features without which the kernels fall back to slow ones; arm64 is what macOS calls aarch64."""


@dataclass(frozen=True)
class Heard:
    """What a microphone gave in a few seconds."""

    device: str
    rate: int
    """Hz, of the device itself."""
    channels: int
    samples: NDArray[np.int16]
    """(n,) at 16 kHz, as they are listened to."""
    levels: Levels = field(default_factory=Levels)
    """Of the sound as the device gave it."""
    problem: str | None = None
    """That it comes at another pace than its rate."""
    note: str | None = None
    """What to know of its channels."""


def examine_board(
    root: Path,
    state: Path,
    pack: Callable[[], Pack],
    readings: Callable[[], Readings],
    broker: BrokerAddress | None,
    *,
    required: Sequence[Sensor] = (),
    now: Callable[[], float] = time.time,
    runtime: str = "auto",
) -> list[Finding]:
    """Every check that needs no microphone.

    Parameters
    ----------
    root
        Where `/proc` is looked for.
    state
        The device's folder.
    pack, readings
        Read the pack and the sensors.
    broker
        Of the fleet; None: not checked.
    required
        Sensors without which the device declines to train.
    now
        The clock.
    runtime
        What the settings name.
    """
    checks: list[tuple[str, Callable[[], str | tuple[Verdict, str]]]] = [
        ("versions", versions),
        ("processor", lambda: processor(root)),
        ("memory", lambda: memory(root)),
        ("pack", lambda: pack_runs(pack(), runtime, training=broker is not None)),
        ("clock", lambda: clock_synchronised(now())),
        ("disk", lambda: disk(state, LEAST_DISK)),
        ("lasting", lambda: lasting(root, state)),
        ("sensors", lambda: sensors(readings(), required)),
    ]
    if broker is not None:
        checks.append(("broker", lambda: broker_reached(broker)))
    return [finding(name, examine) for name, examine in checks]


def examine_home(events: EventSettings, assist: AssistSettings) -> list[Finding]:
    """Whether the service would start with what the settings say of the home; nothing where they say nothing."""
    if not (events.mqtt or events.wyoming or events.mqtt_discovery or events.mqtt_one_answer or assist.listen):
        return []

    def examine() -> tuple[Verdict, str]:
        require_asked(events)
        require_ready(assist)
        if events.mqtt_plain or events.wyoming_network or (assist.plain and assist.key_file is None):
            return "doubtful", "What is heard is sent unencrypted to other machines, as the settings say."
        return "good", "What is heard leaves this machine encrypted, or not at all."

    return [finding("home", examine)]


def examine_messages(broker: BrokerAddress, fleet: str, device: str, pack: Callable[[], Pack]) -> list[Finding]:
    """Whether the fleet's broker takes the largest message of the pack; only while no service is connected as `device`.

    On a topic that the device may not write to: nobody gets to hear of it.
    """

    def examine() -> tuple[Verdict, str]:
        settings = LinkSettings(broker, device, connect_timeout=5.0)
        size = largest_message(4 * pack().plugin_table.size)
        return broker_takes(settings, Topics(fleet).up(device, "try"), size, comes_back=False)

    return [finding("messages", examine)]


def versions() -> tuple[Verdict, str]:
    """What is installed, and whether the wheel of onnxruntime is one for this board."""
    here = f"auricle {__version__}, Python {platform.python_version()}, {platform.machine()}"
    sentence = f"{here}; {', '.join(versions_of(LIBRARIES))}."
    if importlib.util.find_spec("onnxruntime") is None:
        found = brought_library() if library_is_there() and death_of("native") is None else None
        if found is not None and fault_of(found) is None:
            return "good", f"{sentence} Without onnxruntime: the wheel brings what runs models here."
        return "bad", f"{sentence} onnxruntime is missing: {extra_command('edge')}."
    if platform.machine() not in VECTORS:
        return "bad", f"{sentence} There is no onnxruntime wheel for {platform.machine()}: use a 64-bit system."
    return "good", sentence


def processor(root: Path) -> tuple[Verdict, str]:
    """Cores and, where the system tells them, vector instructions."""
    if not sys.platform.startswith("linux"):
        return "good", f"{os.cpu_count()} cores of {platform.machine()}."
    text = (root / "proc/cpuinfo").read_text("utf-8", "replace")
    lines = [line.partition(":") for line in text.splitlines()]
    flags = {flag for key, _, value in lines if key.strip() in ("flags", "Features") for flag in value.split()}
    cores = sum(key.strip() == "processor" for key, _, _ in lines)
    wanted = VECTORS.get(platform.machine(), ())
    missing = [flag for flag in wanted if flag not in flags]
    sentence = f"{cores} cores, {', '.join(flag for flag in wanted if flag in flags) or 'no vector instructions'}."
    if missing:
        return "doubtful", f"{sentence} Without {' and '.join(missing)} training is several times slower."
    return "good", sentence


def memory(root: Path) -> tuple[Verdict, str]:
    """Free memory; all of it where the system does not tell what is free."""
    if not sys.platform.startswith("linux"):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return "good", f"{size(total)} of memory in all; this system does not say how much is free."
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
            sentence = f"{size(free)} of memory are free."
            return ("good", sentence) if free >= LEAST_MEMORY else ("doubtful", f"{sentence} A round may not fit.")
    return "doubtful", "The system does not say how much memory is free."


def pack_runs(pack: Pack, runtime: str = "auto", *, training: bool = True) -> str:
    """Whether the pack is whole, and its plug-in runs; with the runtime native, what that leaves to onnxruntime."""
    choice = choose_runtime(runtime, pack, training=training)
    task, name = pack.manifest.task, pack.manifest.plugin
    clips = np.zeros((1, *task.input_shape), np.float32)
    weights = pack.plugin_table.initial(0)
    began = time.perf_counter()
    answer = choice.runtime.logits(name, weights, clips)
    first = time.perf_counter() - began
    began = time.perf_counter()
    choice.runtime.logits(name, weights, clips)
    took = time.perf_counter() - began
    if not np.isfinite(answer).all():
        raise AuricleError(f"The pack {pack.manifest.name} gives numbers that are not finite on this processor.")
    return (
        f"{pack.manifest.name} ({pack.identity[:12]}), made for {_words(pack)}, is whole; {name} judges a window in "
        f"{took * 1000:.1f} ms "
        f"({first * 1000:.0f} ms the first time). {choice.reason}{_run_by_onnxruntime(choice.runtime, name)}"
    )


def _run_by_onnxruntime(runtime: object, model: str) -> str:
    """Which graphs of a model onnxruntime runs because its own runtime cannot, and why."""
    if not isinstance(runtime, Partial):
        return ""
    return "".join(f" onnxruntime runs {file}: {reason}." for file, reason in sorted(runtime.left_out(model).items()))


def _words(pack: Pack) -> str:
    """What a device hears with this pack, unless its settings say otherwise."""
    heard = awaited_words(pack.labels, detect_settings(DetectTable(), pack))
    commands = f"{len(heard.commands)} words"
    return f"{quote_words(heard.wake)} and then one of {commands}" if heard.wake else commands


def lasting(root: Path, state: Path) -> tuple[Verdict, str]:
    """Whether what the device keeps outlives the next start."""
    why = why_not_lasting(state, root)
    if why is None:
        return "good", f"{state} is kept when the board starts again."
    lost = "its certificate and key, its clips and what it has learnt"
    return "bad", f"At the next start {state} is empty, and {lost} are gone: {why}. Mount a disk for it."


def clock_synchronised(now: float) -> tuple[Verdict, str]:
    """Whether the clock was set, and something keeps it right."""
    verdict, sentence = clock(now)
    if verdict == "good" and is_synchronised() is False:
        return "doubtful", f"{sentence} Nothing keeps it right: certificates fail when it strays."
    return verdict, sentence


def sensors(readings: Readings, required: Sequence[Sensor] = ()) -> tuple[Verdict, str]:
    """Heat, power and throttling, as the gate sees them, and whether those that are required can be read."""
    parts = []
    if readings.temperature is not None:
        parts.append(f"{readings.temperature:.1f} °C")
    if readings.power is not None:
        parts.append(f"on {readings.power}" + ("" if readings.battery is None else f" at {readings.battery:.0f} %"))
    sentence = f"{', '.join(parts) or 'No sensor of heat or power'}."
    absent = [name for name in required if getattr(readings, name) is None]
    if absent:
        told = f"The settings require {' and '.join(absent)}, which cannot be read: it declines to train."
        return "bad", f"{sentence} {told}"
    slowed = readings.throttling
    if slowed is not None and slowed.now:
        return "bad", f"{sentence} The board is slowed down: {', '.join(slowed.now)}: see to its supply and cooling."
    if slowed is not None and slowed.occurred:
        return "doubtful", f"{sentence} Since it started the board had: {', '.join(slowed.occurred)}."
    if readings.problems:
        return "doubtful", f"{sentence} {' '.join(readings.problems)}"
    return "good", sentence


def examine_microphone(listen: Callable[[], Heard], speech: Callable[[NDArray[np.int16]], bool]) -> list[Finding]:
    """Checks of a few seconds of sound: whether it comes, how loud, how distorted, and what the voice gate makes of it.

    Parameters
    ----------
    listen
        Records; AuricleError when there is no microphone.
    speech
        Whether the voice gate opened.
    """
    kept: list[Heard] = []

    def hears() -> str:
        kept.append(listen())
        heard = kept[0]
        return f"{heard.device} gives sound at {heard.rate} Hz, {heard.channels} channels."

    found = [finding("microphone", hears)]
    if kept:
        found.append(finding("level", lambda: level(kept[0].samples)))
        found.append(finding("clipping", lambda: clipping(kept[0].samples)))
        found += examine_levels(kept[0].levels) + examine_channels(kept[0].problem, kept[0].note)
        found.append(finding("voice", lambda: voice(speech(kept[0].samples))))
    return found


def voice(opened: bool) -> str:
    """What the voice gate says."""
    return "The voice gate opened." if opened else "The voice gate stayed closed: say something while it listens."


def verdict_of(findings: Sequence[Finding]) -> int:
    """Exit code of a check-up: 1 when something is bad."""
    return int(any(found.verdict == "bad" for found in findings))
