"""Connections that ask for nothing end, make room for others, and never take the last descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.client
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cloud.api_server import GENEROUS, Server, serving
from tests.cloud.filled_store import Filled

from auricle.process.open_files import raise_open_files
from auricle_cloud.api.api_settings import ApiSettings, ConnectionLimits
from auricle_cloud.api.connections import Connections
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.certificates import new_key

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
CLAIM = b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
"""The whole head of a claim, and a byte of its body."""
PATIENCE = 30.0
"""Seconds in which an ended connection has to be seen."""


def settings(**limits: float) -> ApiSettings:
    return ApiSettings(port=0, rates=GENEROUS, connections=ConnectionLimits(**limits))  # type: ignore[arg-type]


def half(server: Server, said: bytes = HALF) -> socket.socket:
    """A connection that has begun to ask, and goes no further."""
    place = urlsplit(server.url)
    opened = socket.create_connection((place.hostname, place.port or 0), timeout=PATIENCE)
    opened.sendall(said)
    return opened


def ended(connection: socket.socket) -> bool:
    """Wait for its end; False when it is still open after the patience."""
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize("said", [b"", HALF, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_connection_that_asks_for_nothing_more_is_ended(filled: Filled, said: bytes) -> None:
    with serving(filled, settings(head_seconds=0.3)) as server, half(server, said) as slow:
        assert ended(slow)


def test_a_tls_handshake_that_is_never_finished_is_ended(filled: Filled, tmp_path: Path) -> None:
    authority, key = Authority.create(tmp_path / "authority", "Test"), new_key()
    certificate = authority.certify_server(["127.0.0.1"], key.public_key(), time.time() + 3600)
    (tmp_path / "server.pem").write_text(authority.chain(certificate))
    (tmp_path / "server.key").write_bytes(key_pem(key))
    files = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key"}
    chosen = ApiSettings(port=0, connections=ConnectionLimits(head_seconds=0.3), **files)
    with serving(filled, chosen) as server:
        with half(server, b"") as silent, half(server, b"\x16\x03\x01\x02\x00\x01\x00") as begun:
            assert ended(silent)
            assert ended(begun)
        place = urlsplit(server.url)
        trusting = ssl.create_default_context(cadata=authority.root_pem)
        asked = http.client.HTTPSConnection("127.0.0.1", place.port or 0, timeout=PATIENCE, context=trusting)
        asked.request("GET", "/healthz")
        assert asked.getresponse().status == 200
        asked.close()


@pytest.mark.slow
def test_who_reads_slowly_gets_all_of_an_answer(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits to be sent long after the answer was made."""
    listen = Connections.listen

    def narrow(self: Connections, host: str, port: int) -> tuple[str, int]:
        place = listen(self, host, port)
        for bound in self._sockets:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return place

    monkeypatch.setattr(Connections, "listen", narrow)
    with serving(filled, settings(head_seconds=0.2)) as server:
        place = urlsplit(server.url)
        blob = filled.store.models.current("keywords").blob
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(PATIENCE)
            slow.connect((place.hostname, place.port))
            slow.sendall(f"GET /v1/blobs/{blob} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            came = slow.recv(1)
            for _ in range(3):  # other connections are ended meanwhile, for as long as this one reads nothing
                with half(server) as other:
                    assert ended(other)
            while more := slow.recv(65536):
                came += more
        head, _, body = came.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert hashlib.sha256(body).hexdigest() == blob


def test_a_full_house_makes_room_for_who_asks(filled: Filled) -> None:
    with serving(filled, settings(most=8, head_seconds=3600.0)) as server, contextlib.ExitStack() as open_ones:
        crowd = [open_ones.enter_context(half(server)) for _ in range(20)]
        assert [server.ask("GET", "/healthz")[0] for _ in range(5)] == [200] * 5
        assert all(ended(each) for each in crowd[:12])


@pytest.mark.slow
def test_claims_without_their_bodies_keep_nobody_out(filled: Filled) -> None:
    """450 connections, and 450 more before the server has ended the first: more than it holds."""
    if raise_open_files() < 4096:
        pytest.skip("this system allows too few open files for both sides")
    with serving(filled) as server, contextlib.ExitStack() as open_ones:
        for _ in range(2):
            for _ in range(450):
                open_ones.enter_context(half(server, CLAIM))
            until = time.monotonic() + 8.0
            while time.monotonic() < until:
                assert server.ask("GET", "/healthz", role=None)[0] == 200
                assert server.ask("POST", "/v1/enrol", {}, role=None)[0] == 422
                assert server.ask("GET", "/v1/rounds")[0] == 200
                time.sleep(0.2)


def test_a_body_that_does_not_come_is_not_waited_for(filled: Filled) -> None:
    with serving(filled, settings(body_seconds=0.3)) as server, half(server, CLAIM) as slow:
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_a_body_may_come_in_pieces(filled: Filled) -> None:
    head = b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    with serving(filled) as server, half(server, head) as slow:
        for byte in (b"{", b"}"):
            time.sleep(0.1)
            slow.sendall(byte)
        assert slow.recv(4096).startswith(b"HTTP/1.1 422 ")


@pytest.mark.parametrize("limits", [{"most_bodies": 3}, {"most_bodies_each": 3}])
def test_few_wait_for_their_bodies_at_once(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float]
) -> None:
    """In all and of one address, the one that waited longest makes room; who brings a body needs none."""
    monkeypatch.setattr("auricle_cloud.api.connections._is_here", lambda _: False)
    with serving(filled, settings(body_seconds=3600.0, **limits)) as server, contextlib.ExitStack() as open_ones:
        crowd = [open_ones.enter_context(half(server, CLAIM)) for _ in range(5)]
        assert [each.recv(4096)[:13] for each in crowd[:2]] == [b"HTTP/1.1 408 "] * 2
        assert server.ask("POST", "/v1/enrol", {}, role=None)[0] == 422
        for each in crowd[2:]:
            each.settimeout(0.1)
            with pytest.raises(TimeoutError):
                each.recv(1)


def test_a_full_house_makes_room_before_bodies_come(filled: Filled) -> None:
    chosen = settings(most=8, body_seconds=3600.0, head_seconds=3600.0)
    with serving(filled, chosen) as server, contextlib.ExitStack() as open_ones:
        for _ in range(20):
            open_ones.enter_context(half(server, CLAIM))
        assert [server.ask("GET", "/healthz")[0] for _ in range(5)] == [200] * 5


def test_who_is_being_answered_is_not_sent_away(filled: Filled) -> None:
    with serving(filled, settings(most=2, head_seconds=3600.0)) as server:
        token = f"Authorization: Bearer {server.tokens['viewer']}"
        with half(server, f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{token}\r\n\r\n".encode()) as listening:
            said = b""
            while b": listening" not in said:
                said += listening.recv(4096)
            with contextlib.ExitStack() as open_ones:
                for _ in range(6):
                    open_ones.enter_context(half(server))
                assert server.ask("GET", "/healthz")[0] == 200
            server.tell("round", round=1)
            assert b"round" in listening.recv(4096)


def test_one_address_takes_its_share_and_no_more(filled: Filled) -> None:
    """Two addresses of this machine are one to a proxy's rule; here each counts as a stranger's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auricle_cloud.api.connections._is_here", lambda _: False)
        chosen = settings(most=100, most_each=3, head_seconds=3600.0)
        with serving(filled, chosen) as server, contextlib.ExitStack() as open_ones:
            place = urlsplit(server.url)
            other = socket.create_connection(("127.0.0.1", place.port or 0), PATIENCE, ("127.0.0.2", 0))
            open_ones.enter_context(other)
            crowd = [open_ones.enter_context(half(server)) for _ in range(9)]

            assert all(ended(each) for each in crowd[:6])
            other.sendall(HALF + b"now\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_the_last_descriptors_are_never_taken(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.dup(0)
    os.close(free)
    monkeypatch.setattr("auricle_cloud.api.connections.open_files_limit", lambda: free + 100)
    chosen = settings(most=10_000, most_each=10_000, head_seconds=3600.0)
    with serving(filled, chosen) as server, contextlib.ExitStack() as open_ones:
        crowd = [open_ones.enter_context(half(server)) for _ in range(100)]
        assert server.ask("GET", "/healthz")[0] == 200
        assert ended(crowd[0])


def test_connections_are_looked_after_when_no_descriptor_is_left(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        counted = threading.Semaphore(0)

        def is_dir(self) -> bool:
            return True

        def iterdir(self) -> Iterator[Path]:
            self.counted.release()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with serving(filled, settings(head_seconds=0.3)) as server:
        monkeypatch.setattr("auricle_cloud.api.connections.DESCRIPTORS", Exhausted())
        assert all(Exhausted.counted.acquire(timeout=PATIENCE) for _ in range(3))
        assert server.ask("GET", "/healthz")[0] == 200


def test_an_address_that_is_not_here_does_not_keep_others_from_being_served(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("192.0.2.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: found)
    connections = Connections(ConnectionLimits())
    try:
        assert connections.listen("localhost", 0)[0] == "127.0.0.1"
    finally:
        asyncio.run(connections.close())
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: found[:1])
    with pytest.raises(OSError, match="assign"):
        Connections(ConnectionLimits()).listen("192.0.2.1", 0)


def test_a_process_lifts_its_own_limit_of_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        lifted = raise_open_files()
        assert lifted == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
