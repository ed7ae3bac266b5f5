"""Folders of a coordinator's state that a backup holds besides the database: certificate, authority, releases.

Of the releases it holds what their metadata names: `timestamp.json` says which snapshot counts, that says which
targets, and those say which files. Nobody changes metadata while they are read, and the files they name never change.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import io
import itertools
import json
import os
import re
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from auricle.errors import REFUSED_CODE, StorageError
from auricle.files import describe, open_kept, open_lock, read_kept, sync_folder, write_durably
from auricle.mqtt_link.private_link import FOLDER as IDENTITY
from auricle_cloud.storage.database import BEAT_SECONDS, Database, Pulse
from auricle_cloud.storage.release_folder import FOLDER as RELEASES
from auricle_cloud.storage.release_folder import (
    NAMES,
    NEXT,
    ONLINE,
    PENDING,
    PENDING_FILES,
    RESTORED,
    alone,
    exists,
    is_target,
    metadata_file,
    pending_file,
    target_file,
)

AUTHORITY = "authority"
"""Folder of the certificate authority inside the coordinator's state folder."""
FOLDERS = (IDENTITY, AUTHORITY, RELEASES)
KEY = "coordinator.key"
SERVING = "serve.lock"
"""Locked by the coordinator that serves this state; a process that dies gives it back at once."""
PARTS = {
    "tables/tasks.jsonl": "the database",
    KEY: "the coordinator's key",
    f"{IDENTITY}/certificate.pem": "its certificate",
    f"{AUTHORITY}/issuing.key": "the certificate authority",
    f"{AUTHORITY}/root.key": "the authority's root key",
    f"{RELEASES}/metadata/timestamp.json": "the releases",
}
"""What a backup may hold, by a file that is in it then."""

_FLAT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HASHED = re.compile(r"[0-9a-f]{64}\..+")


class ServedError(StorageError):
    """Another coordinator serves this state."""

    exit_code = REFUSED_CODE


@contextmanager
def serving(folder: Path, *, take_over: bool) -> Iterator[None]:
    """Serve a state alone, to the end of the block.

    Parameters
    ----------
    folder
        The coordinator's state.
    take_over
        Go on beside a coordinator that serves it, which then ends by its epoch; the lock is taken when it has ended.

    Raises
    ------
    ServedError
        A coordinator serves it and is not to be replaced.
    StorageError
        The folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = open_lock(folder / SERVING)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not take_over:
                raise ServedError(
                    f"A coordinator already serves {folder}: stop it first, or replace it with --take-over."
                ) from None
            threading.Thread(target=_wait_for, args=(lock,), daemon=True).start()
        yield


def _wait_for(lock: IO[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):  # this coordinator ended before the one that it replaced
        fcntl.flock(lock, fcntl.LOCK_EX)


def place_of(folder: Path) -> str:
    """How a coordinator of this machine names its state folder to coordinators of others."""
    return f"{socket.gethostname()}:{folder.resolve()}"


def require_unserved(place: str, folder: Path) -> None:
    """Refuse beside a coordinator of another folder or machine that serves the same database.

    Who wrote the last sign of life is alive where another follows within the time between two; a dead one costs that
    time. One of this folder is dead: it would hold the folder's lock.

    Raises
    ------
    ServedError
        A coordinator serves the database.
    """
    database = Database(place)
    try:
        last = database.pulse()
        until = time.monotonic() + BEAT_SECONDS + 2
        if last is None or last.place == place_of(folder) or last.at + 3 * BEAT_SECONDS < time.time():
            return
        now: Pulse | None = last
        while now == last and last.running and time.monotonic() < until:
            time.sleep(0.2)
            now = database.pulse()
        if now is not None and now != last and now.running:
            raise ServedError(
                "A coordinator already serves this database: stop it first, or replace it with --take-over."
            )
    finally:
        database.close()


def held(paths: Collection[str]) -> tuple[list[str], list[str]]:
    """What a backup of these files holds, and what it lacks."""
    holds, lacks = ([what for path, what in PARTS.items() if (path in paths) is there] for there in (True, False))
    return holds, lacks


def belongs(path: str) -> bool:
    """Whether a backup may hold a file of this path in one of the folders."""
    folder, _, name = path.partition("/")
    if folder in (IDENTITY, AUTHORITY):
        return _FLAT.fullmatch(name) is not None
    kind, _, rest = name.partition("/")
    if folder != RELEASES or kind in (ONLINE, NEXT):
        return path in (f"{RELEASES}/{ONLINE}", f"{RELEASES}/{NEXT}")
    if kind == PENDING:
        return rest in PENDING_FILES
    if kind == "metadata":
        return NAMES.fullmatch(rest) is not None
    return kind == "targets" and is_target(rest) and _HASHED.fullmatch(rest.rpartition("/")[2]) is not None


def hash_in_name(path: str) -> str | None:
    """The SHA-256 that a file of a backup has by its name; None: its name says nothing."""
    name = path.rpartition("/")[2]
    return name[:64] if path.startswith(("blobs/", f"{RELEASES}/targets/")) else None


def state_files(state: Path, *, authority: bool = True) -> Iterator[tuple[str, IO[bytes]]]:
    """Every file of the folders that are there: its path in a backup and its content, open until the next.

    Parameters
    ----------
    state
        The coordinator's folder.
    authority
        Also those of the authority.

    Raises
    ------
    StorageError
        There is something that belongs into no backup, or a file of a release is missing.
    """
    for name in (IDENTITY, AUTHORITY) if authority else (IDENTITY,):
        for path in sorted((state / name).iterdir()) if (state / name).is_dir() else ():
            if path.name.startswith("."):
                continue  # the beginning of a file, whose writer was killed
            if path.is_symlink() or not path.is_file() or not _FLAT.fullmatch(path.name):
                raise StorageError(
                    f"{path} belongs into no backup: move it elsewhere; links and folders are not copied."
                )
            with open_kept(path) as file:
                yield f"{name}/{path.name}", file
    if exists(state / RELEASES):
        for name, content in released_files(state / RELEASES):
            yield f"{RELEASES}/{name}", content


def released_files(folder: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Every file that the releases in a folder need: its path there and its content, open until the next.

    Raises
    ------
    StorageError
        One is missing, or the metadata cannot be read.
    """
    with alone(folder):
        timestamp = _metadata(folder, "timestamp.json")
        snapshot = f"{_version(timestamp, 'snapshot.json')}.snapshot.json"
        targets = f"{_version(_metadata(folder, snapshot), 'targets.json')}.targets.json"
        roots = sorted(path.name for path in (folder / "metadata").glob("*.root.json") if NAMES.fullmatch(path.name))
        kept = {f"metadata/{name}": _metadata(folder, name) for name in (*roots, targets, snapshot)}
        waiting = [name for name in PENDING_FILES if pending_file(folder, name) is not None]
        kept |= {f"{PENDING}/{name}": read_kept(folder / PENDING / name) for name in waiting}
        kept |= {key: read_kept(folder / key) for key in (ONLINE, NEXT) if (folder / key).is_file()}
    for name, content in kept.items():
        yield name, io.BytesIO(content)
    named = [kept[name] for name in (f"metadata/{targets}", f"{PENDING}/targets.json") if name in kept]
    for path in sorted({path for metadata in named for path in _targets(metadata)}):
        found = target_file(folder, path)
        if found is None:
            raise StorageError(
                f"The file {path} of a release is missing in {folder}: remove the release, or add it again."
            )
        with open_kept(found) as file:
            yield f"targets/{path}", file
    # Last, as it was written: whatever it names is there before it.
    yield "metadata/timestamp.json", io.BytesIO(timestamp)


def _metadata(folder: Path, name: str) -> bytes:
    path = metadata_file(folder, name)
    if path is None:
        raise StorageError(f"The metadata {folder / 'metadata' / name} is missing.")
    return read_kept(path)


def _version(metadata: bytes, of: str) -> int:
    try:
        return int(json.loads(metadata)["signed"]["meta"][of]["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"The metadata of the releases cannot be read: it does not name {of}.") from error


def _targets(metadata: bytes) -> list[str]:
    """Paths of the files, with their hashes in their names."""
    try:
        named = {
            path: str(about["hashes"]["sha256"]) for path, about in json.loads(metadata)["signed"]["targets"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError("The metadata of the releases cannot be read: it names no targets.") from error
    return sorted(
        f"{place}{slash}{named[path]}.{name}" for path in named for place, slash, name in [path.rpartition("/")]
    )


# -- back in place


def put_in_place(beside: Path, state: Path) -> None:
    """Move restored folders to where they belong; what is another one there is kept as `NAME.before-restore`.

    Parameters
    ----------
    beside
        Holds them, on the disk of the state folder.
    state
        The coordinator's folder.
    """
    for new, old in ((beside / name, state / name) for name in FOLDERS if (beside / name).is_dir()):
        if old.is_dir() and _holds(old, new):
            continue
        if new.name == RELEASES:
            write_durably(new / RESTORED, b"")
        _settle(new)
        if os.path.lexists(old):
            _set_aside(old)
        new.rename(old)
        sync_folder(state)


def _holds(old: Path, new: Path) -> bool:
    """Whether all files of one folder are in the other as they are."""
    pairs = [(old / path.relative_to(new), path) for path in new.rglob("*") if path.is_file() and path.name != "lock"]
    return all(there.is_file() and filecmp.cmp(there, path, shallow=False) for there, path in pairs)


def _set_aside(old: Path) -> None:
    names = (f"{old.name}.before-restore{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    free = next(name for name in names if not os.path.lexists(old.with_name(name)))
    old.rename(old.with_name(free))


def _settle(folder: Path) -> None:
    """Give a folder its modes and make it durable: who is not the owner sees nothing of it."""
    folder.chmod(0o700)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
            continue
        public = path.name != "key.pem" and path.suffix in (".pem", ".json", ".tar", ".zst")
        path.chmod(0o644 if public else 0o600)
        with open_kept(path) as file:
            os.fsync(file.fileno())
