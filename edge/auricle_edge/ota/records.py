"""What the two sides of an update tell each other in files, and what a device remembers of it.

The agent, without rights, writes what is wanted; root reads that as it would a stranger's letter, and answers in the
folder of the installation, which the agent can only read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError, StorageError
from auricle.files import sync_folder, write_durably
from auricle.wire.kinds import UNDECODABLE, Count, DeviceId, Sha256, Short, TargetPath, Token
from auricle_edge.fleet.agent_context import State

FOLDER = "updates"
"""In a device's state folder."""
WANTED, PROGRESS, TRIAL, KEPT, FAILED = "wanted.json", "progress.json", "trial.json", "kept.json", "failed.json"
LARGEST_BYTES = 64 << 10
"""Bytes of a record."""
LONGEST_REASON = 200

T = TypeVar("T")


class UpdateRefusedError(AuricleError):
    """An update that is not what it has to be: another attempt would end the same way."""


class UpdateLaterError(AuricleError):
    """An update that cannot be had now."""

    exit_code = 75


Step = Literal["fetching", "later", "idle", "refused", "staged"]
"""`later`: ask again; `idle`: nothing newer; `staged`: the switch is under way."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to fetch, as the coordinator named it. Nothing here is believed but the name."""

    format: Literal[1] = 1
    rollout: Token = ""
    path: TargetPath | None = None
    """None: the newest bundle that fits this device."""
    identity: Sha256 | None = None
    attempt: Count = 0

    def answer(self, state: Step, reason: str = "") -> Answer:
        """How far it has come with this."""
        return Answer(
            rollout=self.rollout, identity=self.identity, attempt=self.attempt, state=state, reason=short(reason)
        )

    def tried(self, work: Callable[[], Answer]) -> Answer:
        """What came of work; where it fails, whether that is for good."""
        try:
            return work()
        except UpdateRefusedError as error:
            return self.answer("refused", str(error))
        except AuricleError as error:
            return self.answer("later", str(error))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How far root has come with what was wanted."""

    format: Literal[1] = 1
    rollout: Token
    identity: Sha256 | None
    attempt: Count
    state: Step
    reason: Short = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The newest rollout that this device was asked to follow, and how far it has come here."""

    kind: Literal["bundle", "pack"]
    wanted: Wanted
    state: State = "fetching"
    reason: Short = ""


class PackTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that runs and has not proved itself: how often the device has started with it."""

    identity: Sha256
    version: Token = ""
    starts: Count = 0


class PackKept(msgspec.Struct, frozen=True, kw_only=True):
    """The newest released pack that has proved itself here: no older one is taken any more."""

    identity: Sha256
    version: Token


class Named(msgspec.Struct, frozen=True):
    """What updates need of `identity/claim.json`."""

    device: DeviceId
    server: Annotated[str, Meta(max_length=300)]
    pin: Sha256


def read_record(path: Path, kind: type[T]) -> T | None:
    """A record; None without one.

    Raises
    ------
    StorageError
        It cannot be read, or is no such record.
    """
    try:
        data = read_plain(path)
        return None if data is None else msgspec.json.decode(data, type=kind)
    except UNDECODABLE as error:
        raise StorageError(f"{path} is not what it has to be ({error}): remove it.") from error


def read_plain(path: Path) -> bytes | None:
    """The content of a small file; None without one.

    A link, a pipe or a huge file is refused: the reader may have more rights than the writer.

    Raises
    ------
    StorageError
        It cannot be read, or is no such file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}).") from error
    try:
        data = os.read(handle, LARGEST_BYTES + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    if not 0 < len(data) <= LARGEST_BYTES:
        raise StorageError(f"{path} is not a regular file of the right size: remove it.")
    return data


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Why a bundle did not start, written by its own agent for the one that the device goes back to."""

    identity: Sha256
    reason: Short


def own_record(path: Path, kind: type[T]) -> T | None:
    """A record that we wrote ourselves: a damaged one is as good as none."""
    try:
        return read_record(path, kind)
    except StorageError:
        return None


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Keep a record durably. StorageError: the disk cannot take it."""
    write_durably(path, msgspec.json.encode(record))


def forget(path: Path) -> None:
    """Remove a record durably."""
    if path.exists():
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def short(reason: str) -> str:
    """A reason that fits into a message, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in " ".join(reason.split()))[:LONGEST_REASON]
