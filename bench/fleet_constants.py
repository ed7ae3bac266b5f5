"""Writes what `fleet_growth.py` has measured into the file of constants that forecasts read."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.errors import SettingsError
from auricle.settings import read_toml
from auricle_fleet.engine import FILE, EngineFigures, read_figures

ESTIMATES = (
    "process_memory_bytes",
    "update_memory_ratio",
    "client_seconds",
    "start_seconds",
    "sent_asking_bytes",
    "received_asking_bytes",
    "base_disk_bytes",
    "device_disk_bytes",
    "row_disk_bytes",
)
"""What the bench does not measure."""
DIGITS = 3
"""Of a figure; bytes on the wire have all of theirs."""


def write_constants(measured: Mapping[str, Mapping[str, float]], command: str, file: Path = FILE) -> None:
    """Put figures into the file: estimates stay as they are, and so do engines of which nothing was measured.

    Parameters
    ----------
    measured
        By engine and name. Names that are no constants are passed over; what came out below 0 is 0.
    command
        What measured them.
    """
    engines = {engine: read_figures(engine, file) for engine in read_toml(file)}
    if strange := sorted({*measured} - {*engines}):
        raise SettingsError(f"{file} has no table [{strange[0]}]: write one with its estimates first.")
    lines = [
        f"# Command: {command}",
        f"# Machine: {os.cpu_count()} cores of {platform.machine()}, load average {os.getloadavg()[0]:.1f}; "
        f"{time.strftime('%d %B %Y').lstrip('0')}; {', '.join(sorted(measured))}",
        "# Names end in their unit; files are open ones. Estimates are set by hand, and stay when the bench writes.",
    ]
    for engine, before in engines.items():
        new = {**msgspec.structs.asdict(before), **_rounded(measured.get(engine, {}))}
        lines += ["", f"[{engine}]", *(f"{name} = {new[name]:.10g}" for name in new if name not in ESTIMATES)]
        lines += ["# estimates", *(f"{name} = {new[name]:.10g}" for name in ESTIMATES)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for engine in engines:
        read_figures(engine, file)


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    kinds = {field.name: field.type for field in msgspec.structs.fields(EngineFigures)}
    return {name: _figure(name, figures[name]) for name in kinds if name in figures and name not in ESTIMATES}


def _figure(name: str, value: float) -> float:
    whole = name in ("base_files", "broker_files") or name.startswith(("sent", "received"))
    return max(0.0, float(round(value)) if whole else float(f"{value:.{DIGITS}g}"))
