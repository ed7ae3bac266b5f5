"""What the link uses of paho that is not public, and that it means what we take it for: the bound in pyproject.toml."""

from __future__ import annotations

import ast
import socket
import sys
import time
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTErrorCode
from paho.mqtt.enums import CallbackAPIVersion

import auricle.mqtt_link

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDER = Path(auricle.mqtt_link.__file__).parent
NAMES = {"_sock", "_last_bytes_received", "_ping_t", "_send_pingreq"}
PINGREQ = b"\xc0\x00"


def test_the_link_uses_these_names_and_no_other() -> None:
    used = {
        node.attr
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if ast.unparse(node.value).endswith("client")
    }
    assert used == NAMES


def test_the_dependency_ends_below_the_next_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "paho-mqtt>=2.2.0,<2.3" in project["dependencies"]


@pytest.fixture
def client() -> Client:
    """One that takes itself for connected, over a socket whose other end is kept."""
    ours, theirs = socket.socketpair()
    made = Client(CallbackAPIVersion.VERSION2)
    made.theirs = theirs  # type: ignore[attr-defined]
    made._sock = ours
    made._keepalive = 10
    return made


def test_the_socket_is_the_one_that_is_given(client: Client) -> None:
    assert client.socket() is client._sock


def test_a_ping_is_written_and_its_time_is_noted(client: Client) -> None:
    assert client._ping_t == 0.0
    assert client._send_pingreq() == MQTTErrorCode.MQTT_ERR_SUCCESS
    while client.want_write():
        client.loop_write()
    assert client.theirs.recv(16) == PINGREQ  # type: ignore[attr-defined]
    assert 0 <= time.monotonic() - client._ping_t < 5


def test_a_ping_without_an_answer_ends_the_connection_unless_its_time_is_cleared(client: Client) -> None:
    now = time.monotonic()
    client._last_bytes_received = client._last_msg_out = now
    client._ping_t = now - 11
    cleared = client._ping_t
    client._ping_t = 0.0
    assert client.loop_misc() == MQTTErrorCode.MQTT_ERR_SUCCESS and client.socket() is not None
    client._ping_t = cleared
    assert client.loop_misc() == MQTTErrorCode.MQTT_ERR_CONN_LOST and client.socket() is None


def test_what_was_received_lately_keeps_it_from_asking(client: Client) -> None:
    client._last_msg_out = client._last_bytes_received = time.monotonic()
    client.loop_misc()
    assert client.socket() is not None
    client._last_bytes_received = time.monotonic() - 11
    client.loop_misc()
    assert client.socket() is None  # it took itself for not connected, and so for lost
