"""Is this machine, and what a coordinator relies on, in order? Each check says so in one sentence."""

from __future__ import annotations

import platform
import time
from datetime import datetime, timezone
from pathlib import Path

from auricle import __version__
from auricle.errors import BrokerError
from auricle.files import read_kept
from auricle.mqtt_link.dial import close, dial
from auricle.mqtt_link.link import LinkSettings
from auricle.mqtt_link.settings import BrokerAddress
from auricle.process import checkup as checks
from auricle.process.checkup import Finding, Verdict, size, versions_of
from auricle.process.size_trial import broker_takes
from auricle.process.table import Column, print_grid
from auricle.wire.frames import Topics
from auricle_cloud.commands.answer_tables import plain
from auricle_cloud.commands.answers import show
from auricle_cloud.identity.broker_files import AUTHORITY as AUTHORITY_FILE
from auricle_cloud.identity.broker_folder import BrokerFolder, old_authority
from auricle_cloud.operations.types import Answer
from auricle_cloud.storage.state_folders import AUTHORITY
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.compute.accelerator import accelerators
from auricle_learning.aggregation.compute.matrix_native import how_sums_are_made

LITTLE_DISK = 1 << 30
FAILED_CODE = 1
"""Exit code of a checkup that found something bad."""
LIBRARIES = (
    "msgspec",
    "numpy",
    "sqlalchemy",
    "aiohttp",
    "paho-mqtt",
    "backports.zstd",
    "onnxruntime",
    "torch",
    "psycopg",
    "tuf",
)


class Checkup(Answer, frozen=True, kw_only=True):
    """What all checks found."""

    findings: list[Finding]

    @property
    def failed(self) -> bool:
        """Whether something is bad."""
        return any(finding.verdict == "bad" for finding in self.findings)


def tell(found: list[Finding], as_json: bool) -> int:
    """Print what was found; the exit code."""
    checkup = Checkup(findings=found)
    if as_json:
        show(checkup, as_json=True)
    else:
        columns = (Column("", 0), Column("", 0), Column("", 0, is_sentence=True))
        print_grid(columns, [(each.verdict, each.check, plain(each.sentence)) for each in found])
    return FAILED_CODE if checkup.failed else 0


def versions() -> str:
    """What runs here."""
    here = f"Python {platform.python_version()}, {platform.machine()}"
    return f"auricle {__version__}, {here}; {', '.join(versions_of(LIBRARIES))}."


def devices_to_compute_on() -> list[Finding]:
    """One finding for each accelerator."""
    found = []
    for each in accelerators():
        total, free = each.memory_total, each.memory_free
        memory = (
            "" if total is None else f", {size(total)}" if free is None else f", {size(free)} of {size(total)} free"
        )
        used = "used" if each.used else "not used"
        sums = f"; {how_sums_are_made()}" if each.kind == "cpu" else ""
        sentence = f"{each.kind} {each.name}{memory}: {used}, {each.why}{sums}."
        found.append(Finding(check="accelerator", verdict="good", sentence=sentence))
    return found


def database(place: Path | str) -> str:
    """Reachable, and of the newest schema."""
    store = Store(place, must_exist=True)
    try:
        tasks = ", ".join(row.task for row in store.models.tasks()) or "no task yet"
        return f"{store.database.name} is reachable and migrated; {tasks}."
    finally:
        store.close()


def clock(place: Path | str | None) -> tuple[Verdict, str]:
    """Not before what the database has seen."""
    now = time.time()
    verdict, sentence = checks.clock(now)
    if verdict == "good" and place is not None:
        store = Store(place, must_exist=True)
        try:
            newest = store.journal.events(limit=1)
        finally:
            store.close()
        if newest and newest[0].at > now + 5:
            ahead = newest[0].at - now
            return "bad", f"{sentence[:-1]}, and the database has seen {ahead:.0f} s later: set it."
    return verdict, sentence


def updates(folder: Path) -> tuple[Verdict, str]:
    """Until when devices trust the update metadata."""
    from auricle_cloud.ota.repository import Repository

    now = datetime.now(timezone.utc)
    repository = Repository(folder)
    found, near = repository.expiries(), repository.near_expiry()
    if near:
        verdict: Verdict = "bad" if any(expiry.expires <= now for expiry in found) else "doubtful"
        return verdict, " ".join(near)
    return "good", " ".join(expiry.sentence(now) for expiry in found)


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


def broker_authority(folder: Path, state: Path | None) -> tuple[Verdict, str]:
    """Whether a broker's folder, and the mosquitto that runs from it, have the authority of the state folder.

    StorageError where it is not the folder of a broker.
    """
    BrokerFolder.read(folder)
    old = old_authority(folder)
    if old is not None:
        return "bad", old
    if state is not None and (state / AUTHORITY / "issuing.pem").is_file():
        own = b"".join(read_kept(state / AUTHORITY / name) for name in ("issuing.pem", "root.pem"))
        if read_kept(folder / AUTHORITY_FILE) != own:
            told = f"has another authority than {state}: write it again with auricle cloud enrol broker"
            return "bad", f"The broker's folder {folder} {told}, then start the broker again."
    return "good", f"The broker of {folder} has the authority of its folder."


def messages_pass(address: BrokerAddress, client_id: str, fleet: str, size: int) -> tuple[Verdict, str]:
    """Whether the broker takes a message of so many bytes and hands it on, as the coordinator; BrokerError as above."""
    topic = f"{Topics(fleet).prefix}/c/try"
    return broker_takes(LinkSettings(address, client_id, connect_timeout=5.0), topic, size, comes_back=True)
