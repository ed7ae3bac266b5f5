"""Asking the running service: who may, what is bounded, and what an error looks like."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from auricle.errors import AuricleError, SettingsError
from auricle_edge.control import SOCKET, ControlClient, ControlServer, ControlSettings
from auricle_edge.control.door import MOST_REQUESTS
from auricle_edge.listening.sound import Feedback

Muted = msgspec.defstruct("Muted", [("muted", bool)])
Kept = msgspec.defstruct("Kept", [("clip", int)])
Level = msgspec.defstruct("Level", [("level", int)])
Take = msgspec.defstruct("Take", [("say", str), ("of", int), ("keep", bool)])


class Device:
    """Actions that remember; nothing was ever missed, and a recording goes wrong after its first take."""

    def __init__(self) -> None:
        self.answers: list[Feedback] = []
        self.muted = False
        self.go = threading.Event()

    def status(self) -> msgspec.Struct:
        return Muted(self.muted)

    def answer(self, feedback: Feedback) -> msgspec.Struct:
        if feedback.verdict == "missed":
            raise AuricleError("Nothing was said in the last seconds.")
        self.answers.append(feedback)
        return Kept(7)

    def mute(self, muted: bool) -> msgspec.Struct:
        self.muted = muted
        return Muted(muted)

    def live(self) -> Iterator[msgspec.Struct]:
        yield Level(-40)
        yield Level(-41)
        self.go.wait(20)

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[msgspec.Struct]:
        yield Take(word, takes, keep)
        raise AuricleError("The microphone is muted.")


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def server(tmp_path: Path, device: Device) -> Iterator[ControlServer]:
    running = ControlServer(tmp_path, device, ControlSettings(port=0))
    yield running
    device.go.set()
    running.close()


def over_tcp(server: ControlServer, token: str | None, path: str = "/v1/status") -> int:
    assert server.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    return connection.getresponse().status


def test_commands_ask_over_the_socket_in_the_folder(tmp_path: Path, server: ControlServer, device: Device) -> None:
    client = ControlClient(tmp_path)
    assert client.get("/v1/status") == {"muted": False}
    assert client.post("/v1/mute", {"muted": True}) == {"muted": True}
    assert client.post("/v1/feedback", {"verdict": "deny", "id": "00112233aabb"}) == {"clip": 7}
    assert device.answers == [Feedback("deny", "00112233aabb")]
    for said, told in (("Nothing", {"verdict": "missed", "word": "yes"}), ("verdict", {"verdict": "perhaps"})):
        with pytest.raises(AuricleError, match=said):
            client.post("/v1/feedback", told)
    with pytest.raises(AuricleError, match="/v1/nothing"):
        client.get("/v1/nothing")


def test_only_the_owner_may_use_the_socket(tmp_path: Path, server: ControlServer) -> None:
    assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "control.token").stat().st_mode) == 0o600


def test_streams_end_with_the_error_that_ended_them(tmp_path: Path, server: ControlServer) -> None:
    for place, more in (("/v1/record", {"keep": True}), ("/v1/enrol", {})):
        takes = ControlClient(tmp_path).stream("POST", place, {"word": "yes", "takes": 3, **more})
        assert next(takes) == {"say": "yes", "of": 3, "keep": bool(more)}
        with pytest.raises(AuricleError, match="muted"):
            next(takes)
    live = ControlClient(tmp_path).stream("GET", "/v1/live")
    assert [next(live), next(live)] == [{"level": -40}, {"level": -41}]


def test_loopback_needs_the_token(tmp_path: Path, server: ControlServer) -> None:
    token = (tmp_path / "control.token").read_text()
    answers = [over_tcp(server, shown) for shown in (token, None, token[:-1], "\xff\xfe")]
    assert answers == [200, 401, 401, 401]


def test_a_device_without_a_task_left_says_so_and_is_asked_again_later(
    tmp_path: Path, server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = (tmp_path / "control.token").read_text()
    begin = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name == "request":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        assert [over_tcp(server, token) for _ in range(MOST_REQUESTS + 1)] == [503] * (MOST_REQUESTS + 1)
    assert over_tcp(server, token) == 200


@pytest.mark.parametrize("length", ["99999", "-1", "x", "9" * 30])
def test_a_body_that_is_too_long_is_not_read(server: ControlServer, tmp_path: Path, length: str) -> None:
    assert server.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/v1/mute")
    connection.putheader("Authorization", "Bearer " + (tmp_path / "control.token").read_text())
    connection.putheader("Content-Length", length)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 409
    assert "4096" in json.loads(answer.read())["error"]


@pytest.mark.slow
def test_silent_and_wrong_clients_get_no_thread_and_no_place(
    tmp_path: Path, server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.port is not None
    token = (tmp_path / "control.token").read_text()
    before = threading.active_count()
    with contextlib.ExitStack() as open_ones:
        heads = (b"", b"GET /v1/status HTTP/1.1\r\n", b"GET /v1/live HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n")
        for number in range(120):
            each = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            with contextlib.suppress(OSError):
                each.sendall(heads[number % 3])
        assert over_tcp(server, token) == 200
        assert ControlClient(tmp_path).get("/v1/status") == {"muted": False}
        assert threading.active_count() <= before + 1  # that of the answer may still be ending


@pytest.mark.slow
def test_a_head_that_does_not_come_whole_is_not_waited_for(
    server: ControlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle_edge.control.door.HEAD_SECONDS", 0.2)
    assert server.port is not None
    for said in (b"", b"GET /v1/status HTTP/1.1\r\nX: ", b"x" * (20 << 10)):
        with socket.create_connection(("127.0.0.1", server.port), 20) as slow, contextlib.suppress(OSError):
            slow.sendall(said)
            assert slow.recv(100) == b""
    with socket.create_connection(("127.0.0.1", server.port), 20) as slow:
        token = (tmp_path / "control.token").read_text()
        for piece in ("GET /v1/sta", "tus HTTP/1.1\r\nAuthor", f"ization: Bearer {token}\r\n", "\r\n"):
            slow.sendall(piece.encode())
        assert slow.recv(100).startswith(b"HTTP/1.0 200 OK")


def test_more_requests_than_threads_are_refused(tmp_path: Path, server: ControlServer) -> None:
    views = [ControlClient(tmp_path).stream("GET", "/v1/live") for _ in range(MOST_REQUESTS)]
    for view in views:
        next(view)
    with pytest.raises(AuricleError, match="Too many"):
        ControlClient(tmp_path).get("/v1/status")


def test_a_second_service_in_the_folder_is_refused_and_a_dead_ones_socket_replaced(tmp_path: Path) -> None:
    first = ControlServer(tmp_path, Device(), ControlSettings())
    with pytest.raises(SettingsError, match="Another service"):
        ControlServer(tmp_path, Device(), ControlSettings())
    first._door.close()
    assert (tmp_path / SOCKET).exists()
    second = ControlServer(tmp_path, Device(), ControlSettings())
    assert ControlClient(tmp_path).get("/v1/status") == {"muted": False}
    second.close()
    with pytest.raises(AuricleError, match="No service runs"):
        ControlClient(tmp_path).get("/v1/status")
