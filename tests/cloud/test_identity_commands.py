"""`auricle cloud enrol` from an empty folder to a broker's files, and brokers that are refused without TLS."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.recorder import Record

from auricle.errors import SettingsError
from auricle.mqtt_link.broker_rights import Roles
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.mqtt_link.private_link import OVERRIDDEN, OVERRIDE, broker_of
from auricle.process.cli import main
from auricle.process.times import read_duration
from auricle.wire.frames import UP
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_files import Listener, emqx_acl
from auricle_cloud.identity.broker_folder import mosquitto_process, reload_mosquitto

Enrol = Callable[..., Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with an authority."""
    state = tmp_path_factory.mktemp("state")
    assert main(["cloud", "enrol", "init", "--state", str(state)]) == 0
    return state


def test_from_an_empty_folder_to_fifty_tokens_and_a_broker(tmp_path: Path, enrol: Enrol) -> None:
    made = enrol("init")
    fifty = enrol("token", "--count", 50, "--prefix", "pi", "--ttl", "24h")
    one = enrol("token", "--device", "kitchen-1", "--out", tmp_path / "tokens")
    broker = ("broker", "--fleet", "f", "--host", "broker.lan", "--host", "::1", "--out", tmp_path / "broker")
    enrol(*broker)
    key = (tmp_path / "broker" / "server.key").read_bytes()
    again = enrol(*broker)
    listed = enrol("list")

    assert len({row["token"] for row in fifty["tokens"]}) == 50
    assert [row["device"] for row in fifty["tokens"]][::49] == ["pi-001", "pi-050"]
    assert made["pin"] == fifty["pin"] == listed["pin"]
    written = tmp_path / "tokens" / "kitchen-1.token"
    assert (written.read_text().strip(), stat.S_IMODE(written.stat().st_mode)) == (one["tokens"][0]["token"], 0o600)
    assert (tmp_path / "identity" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert again["reloaded"] is False
    assert (tmp_path / "broker" / "server.key").read_bytes() == key
    kinds = {row["name"]: row["kind"] for row in listed["certificates"]}
    assert kinds == {"broker.lan": "server", "coordinator": "user"}
    assert (len(listed["certificates"]), len(listed["claims"])) == (2, 51)


def test_a_broker_is_certified_again_under_another_authority(tmp_path: Path, authority: Path, enrol: Enrol) -> None:
    enrol("init")
    for state in (tmp_path, authority):
        enrol("broker", "--state", state, "--fleet", "f", "--host", "h", "--out", tmp_path / "broker")
    assert Authority(authority / "authority").issued_file(tmp_path / "broker" / "server.pem")


def test_a_revoked_name_is_in_every_list_of_a_broker(tmp_path: Path, enrol: Enrol) -> None:
    enrol("init")
    for kind in ("mosquitto", "emqx"):
        enrol("broker", "--fleet", "f", "--host", "h", "--kind", kind, "--out", tmp_path / kind)
    enrol("user", "observer", "--out", tmp_path / "observer")
    before = (tmp_path / "mosquitto" / "revoked.pem").read_bytes()
    folders = ("--broker", tmp_path / "mosquitto", "--broker", tmp_path / "emqx")

    enrol("revoke", "observer", "--yes", *folders)

    assert (tmp_path / "mosquitto" / "revoked.pem").read_bytes() != before
    assert "user observer\ntopic deny auricle/1/f/#\n" in (tmp_path / "mosquitto" / "acl").read_text()
    assert (tmp_path / "emqx" / "acl.conf").read_text().startswith('{deny, {username, "observer"}, all, ["#"]}.\n')


@pytest.mark.reliability("S8", load="the broker's files: nobody without a certificate, one listener, with TLS")
def test_mosquitto_lets_nobody_in_without_a_certificate(tmp_path: Path, enrol: Enrol, record_property: Record) -> None:
    enrol("init")
    enrol("broker", "--fleet", "f", "--host", "h", "--out", tmp_path / "broker")
    lines = (tmp_path / "broker" / "mosquitto.conf").read_text().splitlines()
    assert {"allow_anonymous false", "require_certificate true", "use_identity_as_username true"} <= set(lines)
    listeners = [line for line in lines if line.startswith(("listener", "port", "bind"))]
    record_property("listeners without TLS", len(listeners) - lines.count("require_certificate true"))
    assert listeners == ["listener 8883 0.0.0.0"]
    assert f"crlfile {tmp_path / 'broker' / 'revoked.pem'}" in lines


def test_emqx_grants_what_mosquitto_grants_and_denies_the_rest() -> None:
    lines = emqx_acl(Roles("f"), []).splitlines()

    assert lines[-1] == "{deny, all}."
    said = ", ".join(f'"auricle/1/f/d/${{username}}/up/{kind}"' for kind in UP)
    assert lines[-4:-1] == [
        '{allow, all, subscribe, ["auricle/1/f/d/${username}/dn/#", "auricle/1/f/c/#", "auricle/1/f/b/#"]}.',
        f"{{allow, all, {{publish, [{{retain, false}}]}}, [{said}]}}.",
        '{allow, all, publish, ["auricle/1/f/d/${username}/state"]}.',
    ]
    assert lines.index('{deny, {username, "coordinator"}, all, ["#"]}.') < len(lines) - 3


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("token --device coordinator", "rights"),
        ("token --device abcd --count 2", "--device"),
        ("token --device abcd --ttl 1y", "time"),
        ("token --device abcd --ttl 31d", "days"),
        ("broker --out b --fleet F --host h", "fleet"),
        ("broker --out b --fleet f --host a\xa0b", "host"),
        ("broker --out b --fleet f --host h --listen x", "listen"),
        ("broker --out a\xa0b --fleet f --host h", "spaces"),
        ("revoke coordinator --yes --broker nowhere", "folder"),
    ],
)
def test_what_is_not_allowed_is_refused(
    authority: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    noun: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [word.replace("\xa0", " ") for word in words.split(" ")]
    assert main(["cloud", "enrol", *given, "--state", str(authority)]) == 2
    assert noun in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "x", "1", "-5", "999999999", "self"])
def test_only_a_process_named_mosquitto_is_told_to_reload(tmp_path: Path, content: str) -> None:
    file = tmp_path / "pid"
    file.write_text(str(os.getpid()) if content == "self" else content)
    assert reload_mosquitto(file) is False


def test_where_there_is_no_proc_a_mosquitto_is_known_by_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ps") is None:
        pytest.skip("ps is not installed (procps)")
    shutil.copy(str(shutil.which("sleep")), tmp_path / "mosquitto")
    pid_file = tmp_path / "mosquitto.pid"
    monkeypatch.setattr(sys, "platform", "darwin")
    with subprocess.Popen([tmp_path / "mosquitto", "600"]) as broker:
        pid_file.write_text(f"{broker.pid}\n")
        found = mosquitto_process(pid_file)
        broker.kill()

    assert found == broker.pid
    assert mosquitto_process(pid_file) is None
    pid_file.write_text(f"{os.getpid()}\n")
    assert mosquitto_process(pid_file) is None


def test_times_are_read() -> None:
    assert [read_duration(text) for text in ("45s", "30m", "24h", "7d")] == [45.0, 1800.0, 86400.0, 604800.0]
    with pytest.raises(SettingsError):
        Listener(port=70000)


# -- nothing in the clear


@pytest.mark.slow
@pytest.mark.reliability("S8", load="a plain broker on another machine: serve and edge run do not start")
@pytest.mark.parametrize(
    "words",
    [
        "cloud serve --broker mqtt://192.0.2.1",
        f"edge run --broker mqtt://broker.lan --device dev-a --coordinator {'a' * 64} --source fifo:nowhere",
    ],
    ids=["serve", "edge run"],
)
def test_a_plain_broker_on_another_machine_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    record_property: Record,
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main([*words.split(), "--fleet", "f", "--state", "s"])
    record_property("accepted", int(code == 0))
    assert code == 2
    assert "TLS" in capsys.readouterr().err


@pytest.mark.slow
def test_preflight_says_that_a_plain_broker_would_be_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cloud", "preflight", "--broker", "mqtt://192.0.2.1", "--state", str(tmp_path), "--listen", "0.0.0.0:0"]
    assert main([*words, "--json"]) == 1
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert found["broker"]["verdict"] == found["api"]["verdict"] == "bad"
    assert "TLS" in found["broker"]["sentence"] and "TLS" in found["api"]["sentence"]


def test_tests_in_a_network_of_their_own_may_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("1", "true", ""):
        monkeypatch.setenv(OVERRIDE, value)
        with pytest.raises(SettingsError):
            broker_of("mqtt://10.0.0.1", "dev-a")
    monkeypatch.setenv(OVERRIDE, OVERRIDDEN)
    assert broker_of("mqtt://10.0.0.1", "dev-a").host == "10.0.0.1"
    monkeypatch.delenv(OVERRIDE)
    for good in ("mqtt://127.0.0.1", "mqtt://localhost", "mqtt://[::1]", "mqtts://10.0.0.1"):
        assert broker_of(good, "dev-a").username is None


@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")
def test_a_broker_warns_of_no_line_of_its_access_list(tmp_path: Path, enrol: Enrol) -> None:
    enrol("init")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    folder = tmp_path / "broker"
    told = ("--fleet", "f", "--host", "localhost", "--listen", "127.0.0.1", "--port", port, "--out", folder)
    enrol("broker", *told)
    lines = []

    command = [str(find_mosquitto()), "-c", str(folder / "mosquitto.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stderr is not None
        for line in broker.stderr:
            lines.append(line)
            if line.rstrip().endswith("running"):
                break
        broker.kill()  # a signal to end right after this line is lost

    assert lines[-1].rstrip().endswith("running")
    assert not [line for line in lines if "ACL" in line]
