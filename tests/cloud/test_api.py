"""The HTTP API on real sockets: roles, refusals, rates, the stream of events, health and the page."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import sqlite3
import ssl
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cloud.api_server import GENEROUS, Server, serving
from tests.cloud.filled_store import Filled, fill
from tests.core.test_mqtt_tls import self_signed
from tests.recorder import Record

from auricle.errors import AuricleError, SettingsError
from auricle_cloud.api.api_settings import ApiSettings, Rates
from auricle_cloud.api.remote import Remote, RemoteError, connect
from auricle_cloud.api.routes import ROUTES, Route, allows
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.access_rows import ROLES


@pytest.fixture
def server(filled: Filled) -> Iterator[Server]:
    with serving(filled) as running:
        yield running


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for requests that change nothing that the others ask for."""
    with serving(fill(tmp_path_factory.mktemp("state"))) as running:
        yield running
    running.filled.store.close()


def remote(server: Server, role: str = "admin") -> Operations:
    return connect(server.url, server.tokens[role])


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_role_may_do_what_the_table_says_and_no_more(same: Server, route: Route) -> None:
    path = route.path.format(number=99, device="dev-zz", version=99, name="nobody", rollout="r9-zzzz")
    for role in ROLES:
        status, body, _ = same.ask(route.method, path, {} if not route.in_query else None, role)
        assert (status == 403) != allows(role, route.role)
        if status == 403:
            assert route.role in body["detail"]


@pytest.mark.reliability("S8", load="no token, no answer")
def test_without_a_token_nothing_is_told(same: Server, record_property: Record) -> None:
    statuses: list[int] = []
    for path in ("/v1/overview", "/v1/me", "/v1/events", "/metrics", "/v1/rounds/1/why"):
        for given in (None, "wrong", "auricle_" + "x" * 43, "y" * 5000):
            status, body, answer = same.ask("GET", path, role=given)
            statuses.append(status)
            record_property("tried", len(statuses))
            record_property("accepted", sum(status < 400 for status in statuses))
            assert (status, body["status"], answer.getheader("WWW-Authenticate")) == (401, 401, "Bearer")
            assert answer.getheader("Content-Type") == "application/problem+json"


def test_a_revoked_token_is_worth_nothing_at_once(server: Server) -> None:
    assert server.ask("GET", "/v1/me", role="viewer")[1] == {"name": "the-viewer", "role": "viewer"}
    assert server.ask("DELETE", "/v1/tokens/the-viewer")[0] == 200
    assert server.ask("GET", "/v1/me", role="viewer")[0] == 401


def test_the_remote_client_does_what_the_local_operations_do(server: Server) -> None:
    here, there = server.filled.operations(), remote(server)

    for name, given, more in (
        ("overview", (), {}),
        ("list_rounds", (), {"limit": 2}),
        ("show_round", (1,), {}),
        ("show_round", (1,), {"outcome": "failed"}),
        ("why_round", (1,), {}),
        ("why_round", (1,), {"outcome": "pruned"}),
        ("list_devices", (), {"standing": "approved", "online": True}),
        ("list_devices", (), {"search": "B", "label": ""}),
        ("show_device", ("dev-b",), {}),
        ("device_logs", ("dev-b", 5), {}),
        ("list_models", (), {}),
        ("download_model", (1,), {}),
        ("list_tokens", (), {}),
    ):
        assert getattr(there, name)(*given, **more) == getattr(here, name)(*given, **more), name


def test_changes_made_through_the_api_are_in_the_database_with_their_author(server: Server) -> None:
    there = remote(server, "operator")

    assert there.start_rounds(2).rounds == [4, 5]
    assert there.abort_round(2, reason="power cut").request == "abort"
    assert there.approve_devices(["dev-e"]).devices == ["dev-e"]
    assert there.label_device("dev-e", "Küche").label == "Küche"
    assert there.set_schedule("nightly", "02:30", idle=2).at == "02:30"
    assert there.rollback_model().version == 0

    events = server.filled.store.journal.events(limit=6)
    assert {event.who for event in events} == {"the-operator"}
    kinds = [event.kind for event in reversed(events)]
    assert kinds == ["planned", "abort", "approved", "labelled", "scheduled", "rolled back"]
    assert server.woken == ["the-operator"] * 6


@pytest.mark.parametrize(
    ("role", "kind", "ask"),
    [
        ("viewer", NotFoundError, lambda there: there.show_round(77)),
        ("operator", ConflictError, lambda there: there.abort_round(1)),
        ("viewer", SettingsError, lambda there: there.list_rounds(limit=0)),
        ("viewer", RemoteError, lambda there: there.start_rounds()),
    ],
)
def test_the_remote_client_raises_the_same_kinds_of_errors(same: Server, role: str, kind: Any, ask: Any) -> None:
    with pytest.raises(kind):
        ask(remote(same, role))


@pytest.mark.reliability("S8", load="an API off loopback without TLS does not start")
def test_a_token_is_never_sent_in_the_clear_over_a_network(record_property: Record) -> None:
    refused = []
    for words, made in (
        ("clear", lambda: Remote("http://example.org:8080", "t")),
        ("TLS", lambda: ApiSettings(host="0.0.0.0")),
    ):
        with pytest.raises(SettingsError, match=words) as caught:
            made()
        refused.append(caught.value)
    record_property("refused", len(refused))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "/v1/nothing", None, 404, "openapi.json"),
        ("POST", "/v1/overview", {}, 405, "GET"),
        ("GET", "/v1/rounds/one", None, 422, "number"),
        ("GET", "/v1/rounds/1?outcome=lte", None, 422, "late"),
        ("GET", "/v1/rounds/99999999999", None, 422, "number"),
        ("GET", "/v1/rounds?limit=1&limit=2", None, 422, "twice"),
        ("GET", "/v1/rounds?colour=red", None, 422, "colour"),
        ("GET", "/v1/rounds/1/why?device=nobody", None, 404, "nobody"),
        ("GET", "/v1/devices/DEV%20A", None, 422, "device"),
        ("GET", "/v1/devices/%ff", None, 422, "device"),
        ("GET", "/v1/journal?kind=%00", None, 422, "kind"),
        ("POST", "/v1/rounds", {"count": "1"}, 422, "count"),
        ("POST", "/v1/rounds", [1], 422, "object"),
        ("POST", "/v1/rounds", b"{", 400, "JSON"),
        ("POST", "/v1/rounds", b"[" * 90_000, 400, "JSON"),
        ("POST", "/v1/rounds", b'{"mode": "\xff"}', 400, "JSON"),
        ("POST", "/v1/rounds?count=3", {}, 422, "count"),
        ("POST", "/v1/rounds/1/abort", {}, 409, "published"),
        ("POST", "/v1/rounds/2/abort", {"number": 2}, 422, "path"),
        ("POST", "/v1/approvals", {"devices": []}, 422, "devices"),
        ("POST", "/v1/releases", {"devices": ["dev-e"]}, 409, "quarantine"),
        ("PUT", "/v1/devices/dev-a/label", {"label": "a\x00b"}, 422, "label"),
        ("POST", "/v1/tokens", {"name": "the-viewer", "role": "admin"}, 409, "token"),
        ("POST", "/v1/tokens", {"name": "x", "role": "viewer", "days": -1}, 422, "days"),
        ("GET", "/v1/models/1/file?form=pickle", None, 422, "form"),
        ("GET", f"/v1/blobs/{'0' * 64}", None, 404, "model"),
        ("GET", "/v1/blobs/..%2f..%2fcoordinator.db", None, 422, "SHA-256"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    same: Server, method: str, path: str, body: object, status: int, says: str
) -> None:
    got, problem, answer = same.ask(method, path, body)
    assert got == status, problem
    assert says in problem["detail"], problem
    assert problem["status"] == status and problem["type"] == "about:blank" and problem["title"]
    assert answer.getheader("Content-Type") == "application/problem+json"
    assert (status == 405) == (answer.getheader("Allow") is not None)


@pytest.mark.slow
def test_a_request_is_bounded_however_it_is_packed(server: Server) -> None:
    bomb = zlib.compress(b"[" * (64 << 20), 9)
    assert server.ask("POST", "/v1/rounds", b" " * (200 << 10))[0] == 413
    assert server.ask("POST", "/v1/rounds", bomb, Content_Encoding="deflate")[0] in (400, 413)
    assert server.ask("POST", "/v1/rounds", b"no zlib", Content_Encoding="deflate")[0] == 400
    assert server.ask("POST", "/v1/rounds", b"{}", Content_Type="text/plain")[0] == 415


def test_whoever_asks_too_often_is_told_to_wait(filled: Filled) -> None:
    rates = Rates(address=(1e6, 1e6), token=(0.01, 3), failures=(0.01, 2))
    with serving(filled, ApiSettings(port=0, rates=rates)) as server:
        seen = [server.ask("GET", "/v1/me", role="viewer") for _ in range(4)]
        other = server.ask("GET", "/v1/me", role="admin")[0]
        wrong = [server.ask("GET", "/v1/me", role="guess")[0] for _ in range(3)]

    assert [status for status, *_ in seen] == [200, 200, 200, 429]
    assert seen[3][2].getheader("Retry-After") == "100"
    assert (other, wrong) == (200, [401, 401, 429])
    with serving(filled, ApiSettings(port=0, rates=Rates(address=(0.01, 2), token=GENEROUS.token))) as server:
        assert [server.ask("GET", "/healthz", role=None)[0] for _ in range(3)] == [200, 200, 429]


def test_events_are_told_live_and_end_with_the_token(filled: Filled) -> None:
    with serving(filled, ApiSettings(port=0, rates=GENEROUS, heartbeat=0.05)) as server:
        there = Remote(server.url, server.tokens["viewer"])
        events = there.events()
        assert next(events) is None
        server.tell("state", round=2, state="closing")
        event = next(event for event in events if event is not None)
        filled.store.tokens.revoke("the-viewer")
        rest = [event for event in events if event is not None]

    assert (event.kind, event.content) == ("state", {"round": 2, "state": "closing"})
    assert rest == []


def test_streams_are_few_and_the_server_stops_while_they_are_open(server: Server) -> None:
    streams = [Remote(server.url, server.tokens["viewer"]).events() for _ in range(8)]
    for stream in streams:
        assert next(stream) is None
    with pytest.raises(RemoteError, match="streams"):
        next(Remote(server.url, server.tokens["viewer"]).events())
    streams[0].close()  # type: ignore[attr-defined]
    assert server.ask("GET", "/v1/me")[0] == 200


def test_only_files_of_current_models_are_public(server: Server) -> None:
    store = server.filled.store
    current = store.models.current("keywords").blob
    update = store.updates.counted("keywords", 1)[0].body
    first = store.models.get("keywords", 0).blob

    status, content, answer = server.ask("GET", f"/v1/blobs/{current}", role=None)

    assert (status, hashlib.sha256(content).hexdigest()) == (200, current)
    assert answer.getheader("Content-Length") == str(len(content))
    assert "immutable" in (answer.getheader("Cache-Control") or "")
    assert [server.ask("GET", f"/v1/blobs/{name}", role=None)[0] for name in (update, first)] == [404, 404]


def test_health_tells_what_fails_and_nothing_else(filled: Filled) -> None:
    waiting = {"broker": lambda: "The broker at 10.0.0.7 is not reached."}
    with serving(filled, ready=waiting) as server:
        told = {"status": "ok", "checks": {"database": "ok", "disk": "ok"}}
        assert server.ask("GET", "/healthz", role=None)[:2] == (200, told)
        status, told, _ = server.ask("GET", "/readyz", role=None)
        assert (status, told["checks"]["broker"]) == (503, "failing")
        assert "10.0.0.7" not in json.dumps(told)


def test_a_broken_database_is_503_and_a_missing_blob_too(server: Server) -> None:
    blob = server.filled.store.models.current("keywords").blob
    server.filled.blobs.remove(blob)
    assert server.ask("GET", f"/v1/blobs/{blob}", role=None)[0] == 503
    with sqlite3.connect(server.filled.folder / "coordinator.db") as connection:
        connection.execute("DROP TABLE schedules")
    assert server.ask("GET", "/v1/schedules")[0] == 503


def test_metrics_are_for_those_with_a_token_or_for_all_if_so_set(filled: Filled) -> None:
    with serving(filled) as server:
        assert server.ask("GET", "/metrics", role=None)[0] == 401
        status, text, answer = server.ask("GET", "/metrics", role="viewer")
        assert (status, b"auricle_test_total 1.0" in text) == (200, True)
        assert (answer.getheader("Content-Type") or "").startswith("text/plain; version=0.0.4")
    with serving(filled, ApiSettings(port=0, metrics_open=True)) as server:
        assert server.ask("GET", "/metrics", role=None)[0] == 200


def test_every_answer_keeps_a_browser_from_anything_but_the_page(same: Server) -> None:
    for path in ("/", "/v1/overview", "/nothing", "/healthz"):
        _, _, answer = same.ask("GET", path)
        policy = answer.getheader("Content-Security-Policy") or ""
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("X-Frame-Options") == "DENY"
        assert answer.getheader("Access-Control-Allow-Origin") is None
        assert answer.getheader("Server") == "auricle"


@pytest.mark.parametrize("path", ["/../api.py", "/%2e%2e/api.py", "/..%2fapi.py", "//etc/passwd", "/./../store.py"])
def test_the_page_is_a_folder_that_nothing_leads_out_of(same: Server, path: str) -> None:
    assert same.ask("GET", path)[0] == 404


def test_tls_is_spoken_with_a_certificate(filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = self_signed(tmp_path, "coordinator")
    with serving(filled, ApiSettings("0.0.0.0", 0, certificate, key, rates=GENEROUS)) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(RemoteError, match="SSL_CERT_FILE"):
            connect(url, server.tokens["viewer"]).overview()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert url.startswith("https://")
        assert connect(url, server.tokens["viewer"]).overview().devices == 5


@pytest.mark.parametrize(("strict", "said"), [(True, "max-age=31536000"), (False, None)])
def test_browsers_are_told_to_speak_nothing_but_tls(
    filled: Filled, tmp_path: Path, strict: bool, said: str | None
) -> None:
    certificate, key = self_signed(tmp_path, "coordinator")
    chosen = ApiSettings("127.0.0.1", 0, certificate, key, rates=GENEROUS, strict_transport=strict)
    with serving(filled, chosen) as server:
        trusting = ssl.create_default_context(cafile=str(certificate))
        for path in ("/", "/v1/rounds", "/nothing"):
            port = urlsplit(server.url).port
            asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=trusting)
            asked.request("GET", path)
            assert asked.getresponse().getheader("Strict-Transport-Security") == said
            asked.close()
    with serving(filled) as server:
        assert server.ask("GET", "/")[2].getheader("Strict-Transport-Security") is None


def test_an_address_that_is_taken_is_said_so(same: Server) -> None:
    settings = ApiSettings(port=urlsplit(same.url).port or 0)
    with pytest.raises(AuricleError, match="listen"), serving(same.filled, settings):
        pass


def test_malformed_http_does_not_hurt(same: Server) -> None:
    place = urlsplit(same.url)
    for line in (b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port or 0), timeout=30) as connection:
            connection.sendall(line)
            assert not connection.recv(64).startswith(b"HTTP/1.1 5")
    assert same.ask("GET", "/healthz", role=None)[0] == 200
