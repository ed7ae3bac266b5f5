"""`serve` knows that its settings are good before it starts a broker, and `preflight` reads what it needs once."""

from __future__ import annotations

import json
import socket
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from auricle.packs.pack import Pack, load_pack
from auricle.process.cli import main
from auricle_cloud.commands import preflight_commands, serve_commands


def taken() -> tuple[socket.socket, int]:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, listener.getsockname()[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--validation", "nowhere"),
        ("--method", "lap"),
        ("--participation", "0.5", "--quorum", "2"),
        ("--listen", "127.0.0.1:{port}"),
        ("--listen", "127.0.0.1:0", "--certificate", "nowhere.pem"),
    ],
    ids=lambda wrong: wrong[0],
)
@pytest.mark.slow
@pytest.mark.nightly
def test_no_broker_is_started_for_settings_that_are_wrong(
    wrong: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object) -> AbstractContextManager[object]:
        raise AssertionError("a broker was started")

    monkeypatch.setattr(serve_commands, "embedded_broker", started)
    listener, port = taken()
    state = tmp_path / "state"
    words = ["cloud", "serve", "--fleet", "home", "--broker", "embedded", "--state", str(state), "--pack", "digits"]
    told = [word.format(port=port) for word in wrong]

    code = main([*words, *([] if "--listen" in told else ["--listen", "none"]), *told])

    listener.close()
    assert code == 2
    assert capsys.readouterr().err.startswith("auricle: ")
    assert not (state / "broker").exists()


@pytest.mark.slow
def test_preflight_loads_the_pack_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = []

    def counted(name: str, *more: bytes | None) -> Pack:
        loaded.append(name)
        return load_pack(name, *more)

    monkeypatch.setattr(preflight_commands, "load_pack", counted)
    words = ["cloud", "preflight", "--fleet", "home", "--broker", "embedded", "--state", str(tmp_path / "state")]

    assert main([*words, "--pack", "digits", "--validation", str(tmp_path), "--listen", "none", "--json"]) == 1

    found = {each["check"]: each["verdict"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert (found["pack"], found["validation"]) == ("good", "bad")
    assert loaded == ["digits"]
