"""What a coordinator reads: of devices, of operators, and of its own disk."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import struct
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from auricle.errors import AuricleError, DataError, SettingsError
from auricle_cloud.api.remote import _refusal
from auricle_cloud.commands.coordinator_settings import read_coordinator, template
from auricle_cloud.commands.serve_options import method_options
from auricle_cloud.identity.requests import ClaimError, RequestError, public_key_of, read_certificate, read_request
from auricle_cloud.states.report import RoundReport, read_report
from auricle_cloud.storage.backup import write_backup
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.server_optimizer import OptimizerState
from tests.fuzz.certificates import site
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target
from tests.fuzz.targets.wire import _name, messages


@cache
def _desk() -> Any:
    from tests.cloud.desk import Desk

    logging.getLogger("auricle.cloud").setLevel(logging.CRITICAL)
    folder = scratch() / "desk"
    folder.mkdir()
    return Desk(folder)


KINDS = {"register": "reg", "get": "get", "loss": "loss", "update": "upd", "status": "st", "release": "rel"}
KINDS |= {"hearingreport": "hear", "devicestate": "state", "sumkeys": "sum", "sumshares": "sum", "sumreveal": "sum"}


def _from_device() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for message in messages():
        if _name(message) in KINDS:
            fields = msgspec.to_builtins(message)
            if "public_key" in fields:
                fields["public_key"] = bytes(32)
            told = fields | {"fleet": "f", "device": "dev-a", "type": _name(message)}
            found[_name(message)] = msgspec.msgpack.encode(told)
    return found


@target(
    "inbox",
    "auricle_cloud.link.inbox auricle_cloud.link.update_intake auricle_cloud.link.assembly",
    "auricle_cloud.link.ledger",
    examples=_from_device,
    form="msgpack",
    refusals=(),
    seconds=3.0,
)
def inbox(data: bytes) -> object:
    """What a registered device says, signed by its key: nothing leaves the handler."""
    from tests.cloud.desk import ANA, TOPICS, body_of, signed

    desk = _desk()
    try:
        told = msgspec.msgpack.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError):
        desk.give(TOPICS.up("dev-a", "upd"), data)
        return "noise"
    kind = KINDS.get(str(told.get("type")), "upd")
    topic = TOPICS.device_state("dev-a") if kind == "state" else TOPICS.up("dev-a", kind)
    body = body_of(2.5) if kind == "upd" else b""
    try:
        frame = signed(ANA, topic, told, body)
    except (ValueError, OverflowError, TypeError, RecursionError, struct.error):  # longer than any header
        frame = data
    desk.give(topic, frame)
    return kind


SOME = b"""\
fleet = "home"
broker = "embedded"
state = "/x"
[rounds]
method = "lpa"
method_options = { prune_high = 0.2 }
"""


@target(
    "coordinator.toml",
    "auricle_cloud.commands.coordinator_settings auricle.settings",
    examples=lambda: {"every": template().encode(), "some": SOME},
    form="toml",
    refusals=(SettingsError,),
    tokens=(b"[rounds]\n", b"[api]\n", b"[storage]\n", b"method = ", b"true", b"nan", b"inf", b"-1"),
)
def coordinator_toml(data: bytes) -> object:
    """A coordinator's settings."""
    found = read_coordinator(written(data, "coordinator.toml"), {})
    found.api_settings()
    found.preset_for(trained=True)
    return found.fleet


@target(
    "method-options",
    "auricle_cloud.commands.serve_options",
    examples=lambda: {"one": b"prune_high=0.2"},
    form="text",
    refusals=(SettingsError,),
)
def options(data: bytes) -> object:
    """Options of a method, from a command line."""
    return list(method_options([data.decode("utf-8", "surrogateescape")]))


@target(
    "certificate-request",
    "auricle_cloud.identity.requests",
    examples=lambda: {"request": site()["request"]},
    form="text",
    refusals=(RequestError,),
    tokens=(b"-----BEGIN CERTIFICATE REQUEST-----\n", b"MIH", b"AAAA"),
)
def certificate_request(data: bytes) -> object:
    """What a device without a certificate sends."""
    return public_key_of(read_request(data.decode("utf-8", "replace"))).curve.name


@target(
    "certificate",
    "auricle_cloud.identity.requests",
    examples=lambda: {"device": site()["certificate"], "root": site()["root"]},
    form="text",
    refusals=(ClaimError,),
    tokens=(b"-----BEGIN CERTIFICATE-----\n", b"MIH", b"AAAA"),
)
def certificate(data: bytes) -> object:
    """The certificate that a device shows to renew it."""
    return read_certificate(data.decode("utf-8", "replace")).serial_number > 0


def _state() -> bytes:
    return OptimizerState(np.zeros(15), np.ones(15), 3).to_bytes()


@target(
    "optimizer-state",
    "auricle_learning.aggregation.server_optimizer",
    examples=lambda: {"state": _state()},
    refusals=(DataError,),
)
def optimizer_state(data: bytes) -> object:
    """The server optimizer's state, from the database."""
    return OptimizerState.from_bytes(data, 15).step


def _report() -> bytes:
    from tests.cloud.filled_store import REPORT

    return json.dumps(REPORT).encode()


@target("round-report", "auricle_cloud.states.report", examples=lambda: {"round": _report()}, form="json")
def round_report(data: bytes) -> object:
    """A stored report, which a plug-in's rule may have written: what is odd is left out, and nothing is raised."""
    try:
        written_report = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError("The database gives no such document.") from error
    report = read_report(written_report)
    msgspec.json.encode(report)
    assert isinstance(report, RoundReport)
    return len(report.warnings)


class _Answered:
    """An error of the API, as urllib gives it."""

    code, reason = 409, "Conflict"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        """Its body."""
        return self._data[:size]


@target(
    "api-refusal",
    "auricle_cloud.api.remote",
    examples=lambda: {"problem": b'{"type": "about:blank", "title": "x", "status": 409, "detail": "It runs."}'},
    form="json",
    refusals=(),
)
def api_refusal(data: bytes) -> object:
    """What a coordinator says no with, to an operator's command."""
    return type(_refusal("https://hub.lan", _Answered(data))).__name__  # type: ignore[arg-type]


@cache
def _api() -> Any:
    import atexit

    from tests.cloud.api_server import serving
    from tests.cloud.filled_store import fill

    folder = scratch() / "api"
    folder.mkdir()
    context = serving(fill(folder))
    server = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return server


def _request(method: str, path: str, body: object = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if data else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer TOKEN\r\n{kind}Connection: close\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@target(
    "api",
    "auricle_cloud.api.app auricle_cloud.api.routes auricle_cloud.api.gatekeeper auricle_cloud.api.problems",
    examples=lambda: {
        "me": _request("GET", "/v1/me"),
        "devices": _request("GET", "/v1/devices?limit=5"),
        "rounds": _request("GET", "/v1/rounds?limit=2"),
        "start": _request("POST", "/v1/rounds", {"count": 1}),
        "claim": _request("POST", "/v1/claim", {"token": "A" * 43, "request": "x"}),
    },
    refusals=(),
    tokens=(b"\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"/v1/models", b"%2e%2e/", b"?"),
    largest=8 << 10,
    seconds=5.0,
)
def api(data: bytes) -> object:
    """A request to a running API with an admin's token: anything but an error of the server, which goes on."""
    server = _api()
    place = urlsplit(server.url)
    request = data.replace(b"TOKEN", server.tokens["admin"].encode())
    answer = b""
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while len(answer) < 64 and (more := connection.recv(64)):
                answer += more
        except (ConnectionError, TimeoutError) as error:
            assert not isinstance(error, TimeoutError), "no answer"
    status = answer[9:12]
    assert not status.startswith(b"5") or status in (b"501", b"503", b"505"), answer
    return status


def _backup() -> bytes:
    store, blobs = Store(scratch() / "empty.db"), Blobs(scratch() / "blobs")
    blobs.put(b"weights")
    write_backup(store.database, blobs, None, scratch() / "backup.zst")
    store.close()
    return (scratch() / "backup.zst").read_bytes()


@target(
    "backup",
    "auricle_cloud.storage.restore auricle_cloud.storage.state_folders",
    examples=lambda: {"backup": _backup()},
    refusals=(AuricleError,),
    seconds=10.0,
    megabytes=256,
    largest=1 << 20,
)
def backup(data: bytes) -> object:
    """A backup that somebody brings: verified before anything is replaced."""
    folder = scratch() / "restored"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return restore_backup(written(data, "backup.zst"), folder, Blobs(folder / "blobs")).format
