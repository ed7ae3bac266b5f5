"""`results.json` of a suite: what it was, what it came to, and with what it was made, for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import msgspec

from auricle import __version__
from auricle_fleet.settings.units import percent
from auricle_fleet.suite.parts import Devices, Targets
from auricle_fleet.suite.tables import Results

Size = Literal["small", "full"]
PACKAGES = ("numpy", "onnxruntime")
"""That decide numbers; one that is not installed is left out."""


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried for a method before the suite, and what it kept."""

    method: str
    tried: tuple[tuple[str, float], ...]
    """What was tried, each with what it reached by the figure of `[tuning]`, 0 to 1."""
    kept: str

    def tries(self) -> str:
        """What was tried, for people."""
        return ", ".join(f"{value}: {percent(accuracy)}" for value, accuracy in self.tried)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs were made on."""

    cores: int
    processor: str


class SuiteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    name: str
    about: str
    size: Size
    command: str
    """That repeats it."""
    versions: dict[str, str]
    machine: Machine
    seeds: tuple[int, ...]
    methods: tuple[str, ...]
    conditions: tuple[str, ...]
    reference: str
    target: Targets | None
    target_figure: str = "unseen"
    """What reaches it."""
    target_seconds: bool = False
    target_devices: Devices = ()
    setting: str | None
    """That was tuned; None where nothing was."""
    tuned: tuple[Tuned, ...]
    tables: Results
    failed: Mapping[str, str]
    """Why a run failed, by its name."""
    packs: tuple[str, ...] = ()
    """What the packs are that the suite built for itself, a sentence each."""

    def as_json(self) -> bytes:
        """The file's bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def versions() -> dict[str, str]:
    """Auricle, Python, and packages that decide numbers."""
    found = {"auricle": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> Machine:
    """This one."""
    return Machine(cores=os.cpu_count() or 1, processor=platform.machine())
