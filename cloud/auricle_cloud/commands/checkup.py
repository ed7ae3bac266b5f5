"""Is this machine, and what a coordinator leans on, in order? Each check says so in one sentence."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from auricle import __version__
from auricle.errors import AuricleError, BrokerError
from auricle.files import write_durably
from auricle.mqtt import BrokerAddress, LinkSettings
from auricle.mqtt_dial import close, dial
from auricle_cloud.compute.accelerator import accelerators
from auricle_cloud.operations.operation_types import Answer
from auricle_cloud.storage.store import Store

LITTLE_DISK = 1 << 30
SLOW_SYNC = 0.1
"""Seconds that make an acknowledgement slow: each waits for one."""
WRITES = 5
LIBRARIES = ("msgspec", "numpy", "sqlalchemy", "aiohttp", "paho-mqtt", "zstandard", "onnxruntime", "torch", "psycopg")

Verdict = Literal["good", "doubtful", "bad"]


class Finding(Answer, frozen=True, kw_only=True):
    """What one check found."""

    check: str
    verdict: Verdict
    sentence: str


class Checkup(Answer, frozen=True, kw_only=True):
    """What all checks found."""

    findings: list[Finding]

    @property
    def failed(self) -> bool:
        """Whether something is bad."""
        return any(finding.verdict == "bad" for finding in self.findings)


def finding(check: str, examine: Callable[[], str | tuple[Verdict, str]]) -> Finding:
    """Make a check; an error of ours is what it found."""
    try:
        found = examine()
    except AuricleError as error:
        return Finding(check=check, verdict="bad", sentence=str(error))
    except OSError as error:
        return Finding(check=check, verdict="bad", sentence=f"It failed: {error}.")
    if isinstance(found, str):
        return Finding(check=check, verdict="good", sentence=found)
    return Finding(check=check, verdict=found[0], sentence=found[1])


def versions() -> str:
    """What runs here."""
    here = f"Python {platform.python_version()}, {platform.machine()}"
    return f"auricle {__version__}, {here}; {', '.join(_libraries())}."


def _libraries() -> Iterator[str]:
    for name in LIBRARIES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def devices_to_compute_on() -> list[Finding]:
    """One finding for each accelerator."""
    found = []
    for each in accelerators():
        total, free = each.memory_total, each.memory_free or 0
        memory = "" if total is None else f", {_gib(free)} of {_gib(total)} free"
        used = "used" if each.used else "not used"
        sentence = f"{each.kind} {each.name}{memory}: {used}, {each.why}."
        found.append(Finding(check="accelerator", verdict="good", sentence=sentence))
    return found


def disk(folder: Path) -> tuple[Verdict, str]:
    """Space, and how long a durable write takes."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    if not os.access(place, os.W_OK):
        return "bad", f"{place} cannot be written: check its permissions."
    free = shutil.disk_usage(place).free
    scratch, times = place / ".auricle-doctor", []
    try:
        for _ in range(WRITES):
            began = time.perf_counter()
            write_durably(scratch, b"x" * 4096)
            times.append(time.perf_counter() - began)
    finally:
        scratch.unlink(missing_ok=True)
    took = statistics.median(times)
    sentence = f"{place} has {_gib(free)} free; a durable write takes {took * 1000:.1f} ms."
    if free < LITTLE_DISK:
        return "bad", f"{sentence} That is little: free some."
    if took > SLOW_SYNC:
        return "doubtful", f"{sentence} That is slow: every acknowledgement waits for one."
    return "good", sentence


def database(place: Path | str) -> str:
    """Reachable, and of the newest schema."""
    store = Store(place, must_exist=True)
    try:
        tasks = ", ".join(row["task"] for row in store.models.tasks()) or "no task yet"
        return f"{store.database.name} is reachable and migrated; {tasks}."
    finally:
        store.close()


def clock(place: Path | str | None) -> tuple[Verdict, str]:
    """Not before what the database has seen."""
    now = time.time()
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < 1_767_225_600:
        return "bad", f"The clock says {told}, which is long past: set it, certificates fail otherwise."
    if place is not None:
        store = Store(place, must_exist=True)
        try:
            newest = store.journal.events(limit=1)
        finally:
            store.close()
        if newest and newest[0]["at"] > now + 5:
            ahead = newest[0]["at"] - now
            return "bad", f"The clock says {told}, and the database has seen {ahead:.0f} s later: set it."
    return "good", f"The clock says {told}."


def broker_reached(address: BrokerAddress, seconds: float = 5.0) -> str:
    """Whether the broker takes connections; nobody logs in, so a running coordinator is not disturbed."""
    try:
        with socket.create_connection((address.host, address.port), seconds) as plain:
            context = address.tls_context()
            if context is not None:
                context.wrap_socket(plain, server_hostname=address.host).close()
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"The broker at {address} cannot be reached: {error}.") from error
    return f"The broker at {address} takes {'TLS ' if address.tls else ''}connections."


def broker_admits(address: BrokerAddress, client_id: str, seconds: float = 5.0) -> str:
    """Whether the broker lets the coordinator in; a coordinator that runs would be thrown out.

    Raises
    ------
    BrokerError
        It cannot be reached, or refuses.
    """
    client = dial(LinkSettings(address, client_id, connect_timeout=seconds))
    answers: list[str] = []
    client.on_connect = lambda _client, _data, _flags, code, _properties: answers.append(str(code))
    until = time.monotonic() + seconds
    try:
        while not answers and time.monotonic() < until:
            client.loop(0.1)
        if answers == ["Success"]:
            client.disconnect()
    finally:
        close(client)
    if answers != ["Success"]:
        why = answers[0] if answers else f"no answer in {seconds:.0f} s"
        raise BrokerError(f"The broker at {address} does not let {client_id} in: {why}.")
    return f"The broker at {address} lets {client_id} in."


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
