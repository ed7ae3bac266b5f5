"""What the gate needs to know of a board, read from files and two commands under a root that can be another one.

A sensor that is absent, or says what cannot be, is unknown; what was said then stands among the problems.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeVar

from auricle_edge.board.gate import GateSettings, Readings, Throttling

T = TypeVar("T")

COLDEST_CELSIUS, HOTTEST_CELSIUS = -40.0, 125.0
"""Degrees Celsius between which a thermal zone is believed."""
PROCESSOR = ("*cpu*", "*soc*", "x86_pkg_temp", "tj-thermal")
"""Types of the zones that say how hot the processor is."""
BLIND = ("pmic*", "int34*", "*fan-est*", "iwlwifi*")
"""Zones that always say the same (a Jetson's PMIC: 100), estimate something else, or are another device's."""
FIRMWARE = (
    "sys/devices/platform/soc/soc:firmware",
    "sys/devices/platform/soc@*/*firmware*",
    "sys/devices/platform/*firmware*",
)
COMMANDS = ("usr/bin", "usr/local/bin", "bin", "opt/vc/bin")
PATIENCE_SECONDS = 3.0
"""Seconds after which a command is given up."""
MEMORY_SECONDS = 60.0
"""Seconds that NetworkManager's answer is used, and the time constant of the kernel's load average."""
LONGEST_BYTES = 4096


def read(root: Path, settings: GateSettings) -> Readings:
    """Read every sensor once.

    Parameters
    ----------
    root
        `/`, or a folder with the same files below it.
    """
    return Sensors(root, settings)()


class Sensors:
    """Reads the sensors again and again: asks NetworkManager rarely, and leaves its own process out of the load.

    Parameters
    ----------
    root, settings
        As for `read`.
    """

    def __init__(self, root: Path, settings: GateSettings) -> None:
        self._root, self._settings = root, settings
        self._asked = (-math.inf, "", "")
        """When NetworkManager was asked last, about which interface, and what it said."""
        self._own, self._seen = 0.0, (time.monotonic(), time.process_time())
        self._problems: list[str] = []

    def __call__(self) -> Readings:
        """Read every sensor; nothing that a file or command says raises."""
        self._problems = []
        readings = self._read_supplies(Readings())
        return replace(
            readings,
            temperature=self._temperature(),
            throttling=self._throttling(),
            load=self._load(),
            memory=self._memory(),
            network=self._network(),
            problems=tuple(self._problems),
        )

    def read_board(self) -> Readings:
        """Temperature and free memory alone, which files say: no command is run."""
        self._problems = []
        return Readings(temperature=self._temperature(), memory=self._memory(), problems=tuple(self._problems))

    # -- files

    def _text(self, path: str | Path) -> str | None:
        """The first bytes of a file, stripped; None without one, with a problem where it refuses."""
        place = self._root / path
        try:
            with place.open("rb") as file:
                return file.read(LONGEST_BYTES).decode("ascii", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._problems.append(f"{place} cannot be read ({error.strerror}).")
            return None

    def _number(self, path: str | Path, lowest: float, highest: float, scale: float = 1.0) -> float | None:
        """A number from a file, in its unit; None where it is absent or cannot be."""
        text = self._text(path)
        if text is None:
            return None
        value = _parse(float, text) if len(text) < 32 else None
        if value is None or not math.isfinite(value) or not lowest <= value / scale <= highest:
            self._problems.append(f"{self._root / path} says {text[:20]!r}, which cannot be.")
            return None
        return value / scale

    def _folders(self, pattern: str) -> Iterator[Path]:
        """The folders below the root that match, in order; none where they cannot be listed."""
        try:
            yield from sorted(self._root.glob(pattern))
        except OSError as error:
            self._problems.append(f"{self._root / pattern} cannot be listed ({error.strerror}).")

    # -- power

    def _read_supplies(self, readings: Readings) -> Readings:
        """Power and battery, by what the class `power_supply` lists; the batteries of mice do not count."""
        plugged: list[bool] = []
        states: list[str] = []
        charges: list[float] = []
        for supply in self._folders("sys/class/power_supply/*"):
            kind = (self._text(supply / "type") or "").lower()
            if kind == "battery":
                if (self._text(supply / "scope") or "").lower() == "device" or self._text(supply / "present") == "0":
                    continue
                states.append((self._text(supply / "status") or "unknown").lower())
                charge = self._number(supply / "capacity", 0, 100)
                charges += [] if charge is None else [charge]
            elif kind in ("mains", "usb", "wireless"):
                online = self._number(supply / "online", 0, 2)
                plugged += [] if online is None else [online > 0]
        return replace(readings, power=_power(plugged, states), battery=min(charges, default=None))

    # -- heat

    def _temperature(self) -> float | None:
        zones = [
            ((self._text(zone / "type") or zone.name).lower(), zone)
            for zone in self._folders("sys/class/thermal/thermal_zone*")
        ]
        wanted = tuple(pattern.lower() for pattern in self._settings.zones)
        chosen = [zone for kind, zone in zones if _matches(kind, wanted or PROCESSOR)]
        if not wanted and not chosen:
            chosen = [zone for kind, zone in zones if not _matches(kind, BLIND)]
        degrees = (self._number(zone / "temp", COLDEST_CELSIUS, HOTTEST_CELSIUS, 1000.0) for zone in chosen)
        return max((t for t in degrees if t is not None), default=None)

    def _throttling(self) -> Throttling | None:
        """The firmware's bits, from its file or from vcgencmd, and the kernel's own brake on the processor."""
        bits = next((self._text(p / "get_throttled") for where in FIRMWARE for p in self._folders(where)), None)
        if bits is None:
            bits = self._run("vcgencmd", "get_throttled")
        value = None
        if bits is not None:
            found = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-fA-F]{1,8})", bits)
            if found is None:
                self._problems.append(f"The firmware says {bits[:40]!r} for get_throttled, which cannot be.")
            else:
                value = Throttling.of(int(found[1], 16))
        brakes = [
            self._number(device / "cur_state", 0, 1 << 20)
            for device in self._folders("sys/class/thermal/cooling_device*")
            if _matches((self._text(device / "type") or "").lower(), ("*cpufreq*", "processor"))
        ]
        if any(state for state in brakes):
            return replace(value or Throttling(), capped=True)
        known = [state for state in brakes if state is not None]
        return value if value is not None or not known else Throttling()

    # -- load and memory

    def _load(self) -> float | None:
        """One-minute load of others, as a share of the cores: this process's own part has the same time constant."""
        moment, used = time.monotonic(), time.process_time()
        passed = moment - self._seen[0]
        if passed > 0:
            part = math.exp(-passed / MEMORY_SECONDS)
            self._own = self._own * part + (used - self._seen[1]) / passed * (1 - part)
        self._seen = (moment, used)
        text, cores = self._text("proc/loadavg"), _count(self._text("sys/devices/system/cpu/online") or "")
        if text is None or not cores:
            return None
        load = _parse(float, text.split(" ")[0])
        if load is None or not math.isfinite(load) or not 0 <= load < 1e6:
            self._problems.append(f"{self._root / 'proc/loadavg'} says {text[:20]!r}, which cannot be.")
            return None
        return max(0.0, load - self._own) / cores

    def _memory(self) -> float | None:
        text = self._text("proc/meminfo")
        if text is None:
            return None
        sizes = dict(re.findall(r"^(Mem\w+): +(\d{1,15}) kB$", text, re.MULTILINE))
        total, free = (_parse(int, sizes.get(name, "")) for name in ("MemTotal", "MemAvailable"))
        if total is None or free is None or not 0 <= free <= total:
            self._problems.append(f"{self._root / 'proc/meminfo'} does not say how much memory is free.")
            return None
        return free / 1024

    # -- network

    def _network(self) -> Literal["metered", "free"] | None:
        """Whether the network of the default route costs by volume: a modem does, else what NetworkManager knows."""
        if self._settings.metered != "auto":
            return "metered" if self._settings.metered == "yes" else "free"
        name = _default_route(self._text("proc/net/route") or "")
        if name is None:
            return None
        if "DEVTYPE=wwan" in (self._text(f"sys/class/net/{name}/uevent") or ""):
            return "metered"
        asked, of, answer = self._asked
        if of != name or time.monotonic() - asked >= MEMORY_SECONDS:
            answer = (self._run("nmcli", "-g", "GENERAL.METERED", "device", "show", name) or "").split(" ")[0]
            self._asked = (time.monotonic(), name, answer)
        return "metered" if answer == "yes" else "free" if answer == "no" else None

    def _run(self, command: str, *arguments: str) -> str | None:
        """What a command of the board says; None where it is absent or fails."""
        program = next((p for p in (self._root / w / command for w in COMMANDS) if os.access(p, os.X_OK)), None)
        if program is None:
            return None
        try:
            done = subprocess.run(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE_SECONDS,
                check=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._problems.append(f"{program} does not answer ({type(error).__name__}).")
            return None
        return done.stdout[:LONGEST_BYTES].decode("ascii", "replace").strip()


def _power(plugged: list[bool], states: list[str]) -> Literal["mains", "battery"] | None:
    """Where the power comes from; a battery that is being emptied tells the truth about a weak charger."""
    if "discharging" in states:
        return "battery"
    if any(plugged):
        return "mains"
    if any(state in ("charging", "full", "not charging") for state in states):
        return "mains"
    return "battery" if states and plugged else None


def _default_route(table: str) -> str | None:
    """The interface of the default route with the lowest metric, of /proc/net/route."""
    rows = [line.split() for line in table.splitlines()[1:]]
    default = [
        (metric, row[0])
        for row in rows
        if len(row) > 7
        and row[1] == row[7] == "00000000"
        and (metric := _parse(int, row[6])) is not None
        and re.fullmatch(r"[A-Za-z0-9_.@-]{1,15}", row[0])
        and not row[0].startswith(("-", "."))
    ]
    return min(default)[1] if default else None


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _count(cores: str) -> int:
    """How many cores a list like `0-3,6` names; 0 for what is not such a list."""
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", cores):
        return 0
    spans = [span.split("-") for span in cores.split(",")]
    return sum(max(0, int(span[-1]) - int(span[0]) + 1) for span in spans)


def _parse(kind: Callable[[str], T], text: str) -> T | None:
    try:
        return kind(text)
    except ValueError:
        return None
