"""An object store that takes a request and never answers holds nobody up for longer than a certain time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from auricle.errors import StorageError
from auricle_cloud.storage.remote_blobs import RemoteBlobs

fsspec = pytest.importorskip("fsspec")
NAME = "0" * 64
ATTEMPTS: dict[str, Callable[[RemoteBlobs], object]] = {
    "put": lambda blobs: blobs.put(b"abc"),
    "put_all": lambda blobs: blobs.put_all([b"a", b"b", b"c"]),
    "get": lambda blobs: blobs.get(NAME),
    "remove": lambda blobs: blobs.remove(NAME),
    "names": lambda blobs: list(blobs.names()),
}
SENTENCE = r"^The object store at (mute://|/)?fleet/x did not answer within 0\.2 s: check that it runs, and the network"


@pytest.fixture(scope="module")
def mute_driver() -> Iterator[str]:
    """The scheme of a driver without an event loop, each of whose requests waits until the tests have ended."""
    over = threading.Event()

    class Mute(pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem):  # type: ignore[misc]
        protocol = "mute"

        def cat_file(self, *_: object, **__: object) -> bytes:
            over.wait()
            return b""

        pipe_file = rm_file = find = cat_file

    fsspec.register_implementation("mute", Mute, clobber=True)
    yield "mute"
    over.set()


@pytest.fixture(scope="module")
def mute_server() -> Iterator[str]:
    """The scheme of S3, whose server accepts connections and says nothing."""
    pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "x")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield "s3"


@pytest.mark.parametrize("attempt", sorted(ATTEMPTS))
@pytest.mark.parametrize("kind", ["mute_driver", "mute_server"])
def test_every_request_ends_with_a_sentence(kind: str, attempt: str, request: pytest.FixtureRequest) -> None:
    blobs = RemoteBlobs(f"{request.getfixturevalue(kind)}://fleet/x", limit=0.2)
    with pytest.raises(StorageError, match=SENTENCE):
        ATTEMPTS[attempt](blobs)


def test_a_driver_without_a_loop_answers_as_before() -> None:
    blobs = RemoteBlobs("memory://fleet/x", limit=30.0)
    name = blobs.put(b"abc")
    assert (blobs.get(name), list(blobs.names())) == (b"abc", [name])
    blobs.remove(name)
    with pytest.raises(StorageError, match="failed"):
        blobs.get(name)
