"""Where an installation is on the disk, its two locks, and the journal that says what is installed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from auricle_edge.ota.slots.bundle import FORMAT_VERSION, Manifest, Refused, read_manifest
from auricle_edge.ota.slots.files import write_file

HOME = "opt/auricle"
UNIT_FOLDER = "etc/systemd/system"
NOTHING = "Nothing is installed: install a bundle first."


@dataclass(frozen=True)
class Trial:
    """A version that has not yet shown that it works."""

    slot: str
    identity: str
    boot: str
    """Boot id of the kernel: a trial does not outlive it."""
    deadline_seconds: int
    started_monotonic: float
    """Seconds since that boot."""
    starts: int
    rollout: str


@dataclass(frozen=True)
class Last:
    """How the last attempt at a new version ended."""

    identity: str
    version: str
    rollout: str
    outcome: str
    """`confirmed` or `reverted`."""
    reason: str


@dataclass(frozen=True)
class Journal:
    """The whole state of an installation; what the disk says otherwise is brought in line with it."""

    active: str
    confirmed: bool = True
    previous: str | None = None
    trial: Trial | None = None
    last: Last | None = None


class Place:
    """Where everything is, below a root; `systemd` is spoken to only on a running system's own root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.etc, self.units = root / HOME, root / "etc/auricle", root / UNIT_FOLDER
        self.state = (root / "var/lib/auricle", root / "var/lib/private/auricle")
        self.runtime = (root / "run/auricle", root / "run/private/auricle")
        self.settings = tuple(self.etc / name for name in ("edge.toml", "edge.toml.new", "claim.token"))
        self.live = root == Path("/") and Path("/run/systemd/system").is_dir()

    def slot(self, name: str) -> Path:
        """Folder of a slot."""
        return self.home / name

    def manifest(self, name: str | None) -> Manifest | None:
        """Of what is installed in a slot; None when that is nothing whole."""
        try:
            return None if name is None else read_manifest((self.slot(name) / "bundle.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError, Refused):
            return None

    def boot(self) -> str:
        """Id of the kernel's present run."""
        name = "proc/sys/kernel/random/boot_id"
        own = self.root / name
        return (own if own.exists() else Path("/") / name).read_text("ascii").strip()

    def systemctl(self, *arguments: str) -> None:
        """Tell systemd; what it refuses is in its journal, and `check` looks at the outcome."""
        if self.live:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["systemctl", *arguments], check=False, timeout=90, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def lock(place: Place, name: str) -> Iterator[None]:
    """Hold one of two locks: `journal` for an instant, `build` while a slot is filled, tried or removed.

    Raises
    ------
    Refused
        Another process fills a slot, or there is no installation.
    """
    if not place.home.is_dir():
        raise Refused(NOTHING)
    handle = os.open(place.home / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)  # nobody else may hold it
    with os.fdopen(handle) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if name == "build" else 0))
        except BlockingIOError as error:
            raise Refused("Another installation is under way: try again when it has ended.") from error
        yield


def read_journal(place: Place) -> Journal | None:
    """What is installed; None for nothing. A journal that cannot be read is made again from what is active.

    Raises
    ------
    Refused
        The journal is damaged, and no slot is active and complete.
    """
    path = place.home / "slots.json"
    try:
        return decode_journal(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        current = place.home / "current"
        name = current.readlink().name if current.is_symlink() else None
        if place.manifest(name) is None:
            raise Refused(f"{path} is damaged ({error}) and no slot is whole: install a bundle again.") from error
        return Journal(active=str(name))


def readable_journal(place: Place) -> Journal | None:
    """The journal; None also where it is damaged beyond repair: an installation then begins again."""
    with contextlib.suppress(Refused):
        return read_journal(place)
    return None


def decode_journal(text: bytes) -> Journal:
    """A journal from JSON; ValueError, TypeError, KeyError, AttributeError or RecursionError when it is not one."""
    data = json.loads(text)
    if data.pop("format") != FORMAT_VERSION:
        raise ValueError("another format")
    trial, last = data.pop("trial"), data.pop("last")
    journal = Journal(
        **data, trial=None if trial is None else Trial(**trial), last=None if last is None else Last(**last)
    )
    slots = (journal.active, journal.previous, journal.trial and journal.trial.slot)
    if any(name not in ("a", "b", None) for name in slots) or journal.active is None:
        raise ValueError("no such slot")
    return journal


def write_journal(place: Place, journal: Journal) -> Journal:
    """Replace the journal: from here on this is what is installed."""
    write_file(
        place.home / "slots.json", json.dumps({"format": FORMAT_VERSION, **asdict(journal)}, indent=1).encode() + b"\n"
    )
    return journal


def read_installed(place: Place) -> tuple[Journal, Manifest]:
    """The journal, and what is active; Refused when nothing is."""
    journal = read_journal(place)
    active = None if journal is None else place.manifest(journal.active)
    if journal is None or active is None:
        raise Refused(NOTHING)
    return journal, active


def other(slot: str) -> str:
    """The slot that is not this one."""
    return "b" if slot == "a" else "a"
