"""Text that is not UTF-8, nesting without end, and what else decoders have exceptions of their own for: refused."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auricle.errors import AuricleError, PackError, SettingsError, StorageError, WireError
from auricle.mqtt_link.private_link import FOLDER
from auricle.settings import read_toml
from auricle_edge.board.trusted_time import REMEMBERED, time_here
from auricle_edge.control.server import _Handler
from auricle_edge.fleet.agent_context import FLEET_FILE, read_fleet_record
from auricle_edge.fleet.identity_claim import claim
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer, _detail
from auricle_edge.fleet.update_delivery import Outbox
from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.frames import FrameReader
from auricle_edge.listening.events.wyoming_client import read_event
from auricle_edge.listening.tuning import FILE as SENSITIVITY
from auricle_edge.listening.tuning import Tuning
from auricle_edge.ota.pack_shelf import SWITCH, PackShelf
from auricle_edge.ota.slots.bundle import Refused
from auricle_edge.ota.slots.journal import Place, read_journal
from auricle_edge.settings import read_settings

NO_ACTIONS: Any = type("Actions", (), {"answer": None, "mute": None, "enrol": None})()
NOT_TEXT = b'{"%s": "\xed\xa0\x80"}'
NESTED = b'{"%s": ' + b"[" * 20_000
BROKEN = [pytest.param(NOT_TEXT, id="not UTF-8"), pytest.param(NESTED, id="nested")]


def kept(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


Case = tuple[str, bytes, Callable[[Path], object], type[Exception]]
FILES: list[Case] = [
    ("claim.json", b"device", lambda folder: claim._read_record(folder / "claim.json"), ClaimError),
    (SENSITIVITY, b"a", lambda folder: Tuning(folder, accepted=True), StorageError),
    (f"packs/{SWITCH}", b"current", lambda folder: PackShelf(folder, "home").switch, PackError),
    ("opt/auricle/slots.json", b"format", lambda folder: read_journal(Place(folder)), Refused),
]


@pytest.mark.parametrize("data", BROKEN)
@pytest.mark.parametrize(("name", "field", "read", "refusal"), FILES, ids=[case[0] for case in FILES])
def test_a_damaged_file_of_a_device_is_refused(
    name: str, field: bytes, read: Callable[[Path], object], refusal: type[Exception], data: bytes, tmp_path: Path
) -> None:
    kept(tmp_path / name, data % field)
    with pytest.raises(refusal):
        read(tmp_path)


@pytest.mark.parametrize("text", [b'"a"', b"3", b"[]"])
def test_a_journal_of_the_slots_that_is_no_table_is_refused(text: bytes, tmp_path: Path) -> None:
    kept(tmp_path / "opt/auricle/slots.json", text)
    with pytest.raises(Refused, match="damaged"):
        read_journal(Place(tmp_path))


@pytest.mark.parametrize("data", BROKEN)
def test_a_damaged_record_of_the_fleet_or_update_is_as_good_as_none(data: bytes, tmp_path: Path) -> None:
    kept(tmp_path / FOLDER / FLEET_FILE, data % b"fleet")
    kept(tmp_path / "pending.update", b"\xff\xff\0\0" + data % b"task")
    assert read_fleet_record(tmp_path) is None
    assert Outbox(tmp_path).read() is None


@pytest.mark.parametrize("data", BROKEN)
def test_an_answer_to_a_claim_that_cannot_be_read_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ClaimServer("https://hub.lan", "ab" * 32)
    monkeypatch.setattr(server, "_ask", lambda *_: data % b"certificate")
    monkeypatch.setattr("ssl.create_default_context", lambda **_: None)
    root: Any = type("Root", (), {"public_bytes": lambda *_: b""})()
    with pytest.raises(ClaimError, match="authority"):
        server.root()
    with pytest.raises(ClaimError, match="read"):
        server.certify("/v1/claim", None, root)  # type: ignore[arg-type]
    assert _detail(data % b"detail") == ""


@pytest.mark.parametrize("url", ["https://[hub", "https://[hub.lan]:1", "//[/"])
def test_a_coordinators_url_with_wrong_brackets_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        ClaimServer(url, "ab" * 32)


@pytest.mark.parametrize("data", BROKEN)
def test_a_message_of_the_capture_process_or_of_wyoming_that_cannot_be_read_is_refused(data: bytes) -> None:
    async def read() -> object:
        reader = asyncio.StreamReader(limit=1 << 17)
        reader.feed_data(data % b"type" + b"\n")
        reader.feed_eof()
        return await read_event(reader, 5.0, begins=None)

    with pytest.raises(WireError, match="read"):
        FrameReader().feed(child_parts.text(child_parts.OPENED, data % b"device", time.monotonic()))
    with pytest.raises(WireError, match="Wyoming"):
        asyncio.run(read())


@pytest.mark.parametrize("body", [NOT_TEXT % b"word", b'{"word": ' + b"[" * 4000], ids=["not UTF-8", "nested"])
@pytest.mark.parametrize("place", [b"feedback", b"mute", b"enrol"])
def test_a_request_to_the_device_that_cannot_be_read_is_answered(place: bytes, body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        head = b"POST /v1/%s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (place, len(body))
        _Handler.answer(theirs, head + body, NO_ACTIONS)  # nothing gets as far as one
        answer = ours.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"The request is not valid" in answer


@pytest.mark.parametrize(
    ("text", "said"),
    [("a = " + "[" * 20_000, "deep"), ("a = " + "9" * 5000, "TOML"), ('state = "' + "a" * 5000 + '"', "read")],
    ids=["nested", "digits", "path"],
)
def test_settings_that_python_cannot_take_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings(kept(tmp_path / "edge.toml", text.encode()), {})
    if "state" not in text:
        with pytest.raises(AuricleError, match=said):
            read_toml(tmp_path / "edge.toml")


@pytest.mark.parametrize("text", [b"99999999999999999999", b"253402300800", b"-1", b"1e9", b""])
def test_a_remembered_time_that_is_no_time_counts_for_nothing(text: bytes, tmp_path: Path) -> None:
    kept(tmp_path / REMEMBERED, text)
    assert time_here(tmp_path, None).moment.year < 2200
