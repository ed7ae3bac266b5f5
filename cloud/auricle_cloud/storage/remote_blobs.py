"""Content-addressed objects in an object store: each request is over by a certain time, whatever its driver does."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any, TypeVar

from auricle.errors import SettingsError, StorageError, extra_command
from auricle.wire.tensors import digest

T = TypeVar("T")

AT_ONCE = 10
"""Requests to an object store; its driver keeps as many connections."""
ANSWER_SECONDS = 120.0
"""For one request, with all that its driver tries again by itself."""
NAME = re.compile(r"[0-9a-f]{64}")


def checked(data: bytes, sha256: str) -> bytes:
    """The same bytes; StorageError where they are not those of this name."""
    if digest(data) != sha256:
        raise StorageError(f"The blob {sha256} is damaged: its content has another hash.")
    return data


class RemoteBlobs:
    """Content-addressed objects behind an fsspec URL, e.g. `s3://bucket/prefix`.

    Parameters
    ----------
    url
        Where they lie; address and credentials of the server come from the driver's own environment.
    limit
        Seconds after which a request that has no answer is given up: StorageError then says so.

    Raises
    ------
    SettingsError
        fsspec or the driver of this URL is not installed, or the URL cannot be used.
    """

    def __init__(self, url: str, limit: float = ANSWER_SECONDS) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise SettingsError(f"Blobs behind a URL need fsspec: {extra_command('s3')}") from error
        try:
            # Without the driver's memory of listings and of others with this URL: what lies there is asked every time.
            fresh = {"use_listings_cache": False, "skip_instance_cache": True}
            self._files, root = fsspec.core.url_to_fs(url, **fresh)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"Blobs cannot be kept at {url}: {error}") from error
        self._root: str = root.rstrip("/")
        self._limit = limit

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def put(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; StorageError when the object store refuses.

        What is already there is left alone, unless it is damaged: then it is written again.
        """
        sha256 = digest(data)
        path = self._path(sha256)
        with self._translate_errors():
            try:
                there = self._ask("cat_file", path)
            except FileNotFoundError:
                there = None
            if there != data:
                self._ask("pipe_file", path, data)
        return sha256

    def put_all(self, blobs: Sequence[bytes], names: Sequence[str] | None = None) -> list[str]:
        """Keep several, some at the same time, by their own hashes; after the first that fails no other is begun."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.put, blobs))

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""
        with self._translate_errors():
            data: bytes = self._ask("cat_file", self._path(sha256))
        return checked(data, sha256)

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more."""
        with self._translate_errors(), contextlib.suppress(FileNotFoundError):
            self._ask("rm_file", self._path(sha256))

    def remove_all(self, names: Iterable[str]) -> None:
        """Forget several, some at the same time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.remove, names))

    def names(self) -> Iterator[str]:
        """Every blob there is."""
        with self._translate_errors():
            paths = sorted(self._ask("find", self._root))
        for path in paths:
            name = str(path).rpartition("/")[2]
            if NAME.fullmatch(name):
                yield name

    def _ask(self, request: str, *given: object) -> Any:  # noqa: ANN401 - whatever the driver answers
        """What a request to the driver brings; TimeoutError after the limit, also of a driver that waits for ever."""
        if self._files.async_impl:
            from fsspec.asyn import sync

            return sync(self._files.loop, getattr(self._files, f"_{request}"), *given, timeout=self._limit)
        return _within(self._limit, getattr(self._files, request), *given)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:  # fsspec's own is one
            raise StorageError(
                f"The object store at {self._root} did not answer within {self._limit:g} s: check that it runs, and "
                "the network on the way to it."
            ) from error
        except Exception as error:
            why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise StorageError(
                f"The object store at {self._root} failed ({why}): check that it runs, the bucket and the credentials."
            ) from error


def _within(seconds: float, work: Callable[..., T], *given: object) -> T:
    """Do work in a thread that nobody waits for longer than this; TimeoutError."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work(*given))
        except BaseException as error:  # noqa: BLE001 - the caller that waits gets it
            done.set_exception(error)

    threading.Thread(target=run, name="auricle-blobs", daemon=True).start()
    try:
        return done.result(seconds)
    except FutureTimeoutError as error:
        if done.done():
            raise
        raise TimeoutError from error
