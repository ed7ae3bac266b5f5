"""Speech Commands 0.02 from its public address, into the user's cache: resumable, checked, unpacked safely."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from auricle.errors import DataError, StorageError, because
from auricle.files import cache_folder as cache_folder
from auricle.files import open_kept, open_lock
from auricle.speech.speech_set import Progress

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30.0
_ATTEMPTS = 3
_INSTEAD = "Use --data DIR for a folder that you have, or --data synthetic"


@dataclass(frozen=True, slots=True)
class Archive:
    """A .tar.gz of a speech folder at a public address."""

    name: str
    """The folder it is unpacked to."""

    url: str
    """Where it is."""

    size: int
    """Bytes."""

    sha256: str
    """Of the whole file, in hexadecimal."""

    instead: str = _INSTEAD
    """What to do where it cannot be downloaded."""


SPEECH_COMMANDS = Archive(
    name="speech_commands_v0.02",
    url="http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    size=2_428_923_189,
    sha256="af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
)
"""Size and checksum as TensorFlow Datasets and torchaudio list them."""


def fetch(
    archive: Archive = SPEECH_COMMANDS,
    cache: Path | None = None,
    *,
    progress: Progress | None = None,
    unpacking: Progress | None = None,
) -> Path:
    """Give the archive's folder, downloaded and unpacked unless it is there already.

    A download that was cut goes on where it stopped, in this call or in the next one.

    Parameters
    ----------
    archive
        What to get.
    cache
        Where to keep it; None for `cache_folder()`.
    progress
        Called with the bytes downloaded and the bytes in all.
    unpacking
        Called with the bytes of the archive unpacked and the bytes in all.

    Returns
    -------
    Path
        A root in Speech Commands layout.

    Raises
    ------
    DataError
        The server cannot be reached, or what it sends is not the archive.
    StorageError
        The cache cannot be written, is full, or is in use by another download.
    """
    cache = cache or cache_folder()
    folder = cache / archive.name
    if folder.is_dir():
        return folder
    with _storage(cache), _only_one(cache, archive):
        if folder.is_dir():
            return folder
        part = cache / f"{archive.name}.tar.gz.part"
        download_whole(archive, part, progress)
        _unpack(archive, part, folder, unpacking)
        part.unlink()
    return folder


@contextmanager
def _storage(cache: Path) -> Iterator[None]:
    """Make the cache folder and turn what the disk refuses into one sentence."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        advice = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check its permissions"
        raise StorageError(
            f"The cache {cache} cannot take the download ({error.strerror or error}): {advice}, "
            "or set XDG_CACHE_HOME to another place."
        ) from error


@contextmanager
def _only_one(cache: Path, archive: Archive) -> Iterator[None]:
    with open_lock(cache / f"{archive.name}.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"Another process is downloading {archive.name} into {cache}: wait until it has ended."
            ) from error
        yield


def download_whole(archive: Archive, part: Path, progress: Progress | None = None) -> None:
    """Bring the partial file to full size and check it; an attempt that got further than any before does not count.

    Raises
    ------
    DataError
        The server cannot be reached, or what it sends is not the archive, which is then removed.
    """
    failures, furthest = 0, _size(part)
    while _size(part) < archive.size:
        try:
            _transfer(archive, part, progress)
            problem = "the connection was cut"
        except urllib.error.HTTPError as error:
            problem = f"the server answers {error.code} {error.reason}"
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink()
            elif error.code < http.client.INTERNAL_SERVER_ERROR:
                failures = _ATTEMPTS
        except (urllib.error.URLError, http.client.HTTPException) as error:
            problem = because(why if isinstance(why := getattr(error, "reason", None), BaseException) else error)
        failures = 0 if _size(part) > furthest else failures + 1
        furthest = max(furthest, _size(part))
        if failures >= _ATTEMPTS:
            kept = f" The first {_size(part)} bytes are kept for the next time." if _size(part) else ""
            raise DataError(
                f"{archive.url} cannot be downloaded ({problem}): check the network. {archive.instead}.{kept}"
            )
    _check(archive, part)


def _transfer(archive: Archive, part: Path, progress: Progress | None) -> None:
    """Ask for what is missing and append it; a server that sends the whole file again starts it again."""
    have = _size(part)
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})
    with _open(request) as answer:
        resumed = answer.status == http.client.PARTIAL_CONTENT
        if resumed and not str(answer.headers["Content-Range"]).startswith(f"bytes {have}-"):
            raise http.client.HTTPException("the server sent another part than was asked for")
        done = have if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            for chunk in _chunks(answer):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(min(done, archive.size), archive.size)
                if done > archive.size:
                    return


def _open(request: urllib.request.Request) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.URLError:
        raise
    except OSError as error:
        raise http.client.HTTPException(error.strerror or str(error)) from error
    return answer


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Give the body; what the network does to it is not to be taken for an error of the disk."""
    while True:
        try:
            chunk = answer.read(_CHUNK)
        except OSError as error:
            raise http.client.HTTPException(error.strerror or str(error)) from error
        if not chunk:
            return
        yield chunk


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _check(archive: Archive, part: Path) -> None:
    with open_kept(part) as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != archive.sha256:
        part.unlink()
        raise DataError(
            f"What {archive.url} sent is not {archive.name} (SHA-256 {digest.hexdigest()[:16]}..., "
            f"not {archive.sha256[:16]}...): it was removed, so run this again."
        )


def _unpack(archive: Archive, part: Path, folder: Path, unpacking: Progress | None) -> None:
    """Unpack beside the folder and rename, so that the folder is there only when it is whole."""
    unfinished = folder.with_name(f".{archive.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        with open_kept(part) as file, tarfile.open(fileobj=file, mode="r:gz") as tar:
            for member in tar:
                _extract(tar, member, unfinished, archive)
                if unpacking:
                    unpacking(file.tell(), archive.size)
        unfinished.rename(folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{part} cannot be unpacked ({error}): remove it and run this again.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, archive: Archive) -> None:
    """Write one member inside the folder; only files and folders with a path that stays inside are taken."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
        raise DataError(f'{archive.url} holds "{member.name}", which would leave its folder: do not use it.')
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
    else:
        member.mode, member.uid, member.gid = 0o755 if member.isdir() else 0o644, os.getuid(), os.getgid()
        tar.extract(member, folder)
