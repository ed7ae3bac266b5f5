"""What the signed metadata says, by python-tuf's client; only processes that end soon load this module.

The client checks signatures, thresholds, expiry, versions and hashes as the TUF specification asks. Ours are: the time
(`trusted_time`), the network (`update_server`), that every file is on the disk before the next is asked for, and that a
target's own description fits this device (`fitness`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tuf.api.exceptions import DownloadError, DownloadHTTPError, DownloadLengthMismatchError, RepositoryError
from tuf.api.exceptions import ExpiredMetadataError as Expired
from tuf.api.metadata import Metadata, TargetFile, Targets
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

from auricle.files import write_durably
from auricle_edge.board.trusted_time import TrustedTime, remember
from auricle_edge.ota.fitness import Description
from auricle_edge.ota.records import UpdateLaterError, UpdateRefusedError
from auricle_edge.ota.update_server import NotThereError, UpdateServer

LARGEST_TARGETS = 2 << 20
"""Bytes of the list of targets."""


@dataclass(frozen=True)
class SignedTarget:
    """A target of the metadata, and what is said there of it."""

    path: str
    url: str
    length: int
    sha256: str
    description: Description


class _Fetcher(FetcherInterface):
    """Gives python-tuf what the server has."""

    def __init__(self, server: UpdateServer) -> None:
        self._server = server

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            yield from self._server.pieces(url)
        except NotThereError as error:
            raise DownloadHTTPError(str(error), 404) from error


class _Client(Updater):
    """python-tuf's client with our idea of the time, and durable files."""

    def __init__(self, folder: Path, server: UpdateServer, root: bytes, now: TrustedTime) -> None:
        limits = UpdaterConfig(
            max_root_rotations=64,
            max_delegations=4,
            root_max_length=128 << 10,
            snapshot_max_length=128 << 10,
            targets_max_length=LARGEST_TARGETS,
        )
        super().__init__(
            str(folder), f"{server.url}/metadata/", fetcher=_Fetcher(server), config=limits, bootstrap=root
        )
        self._trusted_set.reference_time = now.moment

    def _persist_file(self, filename: str, data: bytes) -> None:
        write_durably(Path(filename), data)


class SignedTargets:
    """The targets that are on offer now, after every check.

    Parameters
    ----------
    folder
        Metadata that was found in order before lies there; nobody else may write it.
    server
        Asked for newer.
    root
        Bytes of the first root, from the installation.
    now
        The time to judge by.

    Raises
    ------
    UpdateRefusedError
        The metadata is not in order; the sentence says in what.
    UpdateLaterError
        It cannot be had, or it has run out by a clock that nothing keeps right.
    StorageError
        The folder cannot be written.
    """

    def __init__(self, folder: Path, server: UpdateServer, root: bytes, now: TrustedTime) -> None:
        self._folder, self._server = folder, server
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(folder)
        with _explain(now):
            self._client = _Client(folder, server, root, now)
            self._client.refresh()
        remember(folder, now)

    def find(self, path: str) -> SignedTarget:
        """A target by its path; UpdateRefusedError: there is none, or what is said of it is not enough."""
        found = self._client.get_targetinfo(path)
        if found is None:
            raise UpdateRefusedError(f"{path} is not among the signed targets.")
        return self._describe(found)

    def all(self) -> list[SignedTarget]:
        """Every target that is described as ours are."""
        listed = Metadata[Targets].from_file(str(self._folder / "targets.json")).signed
        found = []
        for target in listed.targets.values():
            with contextlib.suppress(UpdateRefusedError):
                found.append(self._describe(target))
        return found

    def _describe(self, target: TargetFile) -> SignedTarget:
        try:
            description = msgspec.convert(target.custom, Description)
        except msgspec.ValidationError as error:
            raise UpdateRefusedError(f"{target.path} is signed without saying what it is ({error}).") from error
        sha256 = target.hashes.get("sha256")
        if sha256 is None:
            raise UpdateRefusedError(f"{target.path} is signed without its SHA-256.")
        folder, _, name = target.path.rpartition("/")
        url = "/".join(filter(None, (self._server.url, "targets", folder, f"{sha256}.{name}")))
        return SignedTarget(target.path, url, target.length, sha256, description)


@contextlib.contextmanager
def _explain(now: TrustedTime) -> Iterator[None]:
    """What python-tuf raises, as one of ours."""
    logging.getLogger("tuf").setLevel(logging.ERROR)
    try:
        yield
    except Expired as error:
        if now.kept is False:
            raise UpdateLaterError(f"{_text_of(error)} by a clock that nothing keeps right: set it.") from error
        raise UpdateRefusedError(
            f"{_text_of(error)}: the server holds newer metadata back, or does not renew it."
        ) from error
    except DownloadLengthMismatchError as error:
        raise UpdateRefusedError(f"The server sends more than it may: {_text_of(error)}.") from error
    except DownloadError as error:
        raise UpdateLaterError(f"{_text_of(error)}.") from error
    except RepositoryError as error:
        raise UpdateRefusedError(f"The signed metadata is not in order: {_text_of(error)}.") from error


def _text_of(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def _tidy(folder: Path) -> None:
    """Remove what a process that was killed left half written."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder of the metadata; UpdateLaterError: another process does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UpdateLaterError("Another update is under way.") from error
    finally:
        os.close(handle)
