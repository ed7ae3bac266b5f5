"""Checks of a machine and of what it relies on, each with a verdict and one sentence; what `doctor` commands share."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import AuricleError, BrokerError, because
from auricle.files import write_durably
from auricle.mqtt_link.settings import BrokerAddress

EARLIEST_SECONDS = 1_767_225_600.0
"""Seconds since 1970: a clock before 2026 was never set."""
SLOW_SYNC = 0.1
"""Seconds that make a durable write slow."""
WRITES = 5

Verdict = Literal["good", "doubtful", "bad"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found."""

    check: str
    verdict: Verdict
    sentence: str


def finding(check: str, examine: Callable[[], str | tuple[Verdict, str]]) -> Finding:
    """Make a check; an error of ours, or of the system, is what it found."""
    try:
        found = examine()
    except AuricleError as error:
        return Finding(check=check, verdict="bad", sentence=str(error))
    except OSError as error:
        return Finding(check=check, verdict="bad", sentence=f"It failed: {because(error)}.")
    if isinstance(found, str):
        return Finding(check=check, verdict="good", sentence=found)
    return Finding(check=check, verdict=found[0], sentence=found[1])


def versions_of(libraries: Iterable[str]) -> Iterator[str]:
    """Name and version of those that are installed."""
    for name in libraries:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def disk(folder: Path, least: int) -> tuple[Verdict, str]:
    """Space for `folder`, of which `least` bytes should be free, and how long a durable write takes there."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    if not os.access(place, os.W_OK):
        return "bad", f"{place} cannot be written: check its permissions."
    free = shutil.disk_usage(place).free
    took = _durable_write(place / ".auricle-doctor")
    sentence = f"{place} has {size(free)} free; a durable write takes {took * 1000:.1f} ms."
    if free < least:
        return "bad", f"{sentence} That is little: free some."
    if took > SLOW_SYNC:
        return "doubtful", f"{sentence} That is slow: every acknowledgement waits for one."
    return "good", sentence


def _durable_write(scratch: Path) -> float:
    """Median seconds of a few durable writes."""
    times = []
    try:
        for _ in range(WRITES):
            began = time.perf_counter()
            write_durably(scratch, b"x" * 4096)
            times.append(time.perf_counter() - began)
    finally:
        scratch.unlink(missing_ok=True)
    return statistics.median(times)


def clock(now: float) -> tuple[Verdict, str]:
    """Whether the clock has been set."""
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < EARLIEST_SECONDS:
        return "bad", f"The clock says {told}, which is long past: set it, certificates fail otherwise."
    return "good", f"The clock says {told}."


def broker_reached(address: BrokerAddress, seconds: float = 5.0) -> str:
    """Whether the broker takes connections; nobody logs in, so whoever runs is not disturbed.

    Raises
    ------
    BrokerError
        It cannot be reached, or its certificate does not hold.
    """
    try:
        with socket.create_connection((address.host, address.port), seconds) as plain:
            context = address.tls_context()
            if context is not None:
                context.wrap_socket(plain, server_hostname=address.host).close()
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"The broker at {address} cannot be reached: {because(error)}.") from error
    return f"The broker at {address} takes {'TLS ' if address.tls else ''}connections."


def size(count: int) -> str:
    """Bytes in MiB or GiB."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
