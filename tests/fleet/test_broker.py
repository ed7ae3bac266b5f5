"""Brokers as child processes: started, found, refused, and gone when we are gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.recorder import Record

from auricle.errors import BrokerError, SettingsError
from auricle.mqtt_link.link import LinkSettings, MqttLink
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker import broker as broker_module
from auricle_fleet.broker.broker import Kind, connect_broker, start_broker

USERS = {"coordinator": "c-secret", "dev-a": "a-secret"}


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second: it went between opening and reading
        return False
    return state != "Z"


async def gone(pid: int, seconds: float = 10.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while alive(pid):
        assert asyncio.get_running_loop().time() < deadline, f"process {pid} lives on"
        await asyncio.sleep(0.01)


async def test_a_broker_listens_on_loopback_and_ends(tmp_path: Path, kind: Kind) -> None:
    async with await start_broker(tmp_path, USERS, fleet="f", kind=kind) as broker:
        pid = broker.pid
        assert pid is not None and pid != os.getpid()
        assert broker.kind == kind
        listening = Path("/proc/net/tcp").read_text()
        assert f"0100007F:{broker.port:04X} 00000000:0000 0A" in listening
        assert f"00000000:{broker.port:04X} 00000000:0000 0A" not in listening
        async with MqttLink(LinkSettings(broker.address("dev-a"), "dev-a")) as link:
            await link.wait_connected(10)
        with pytest.raises(BrokerError, match="dev-a"):
            broker.address("dev-x")
    assert broker.pid is None
    await gone(pid)


@pytest.mark.reliability("S8", load="no name, no access")
async def test_no_access_without_a_name(tmp_path: Path, kind: Kind, record_property: Record) -> None:
    async with await start_broker(tmp_path, USERS, fleet="f", kind=kind) as broker:
        named = broker.address("dev-a")
        protocol = "" if named.protocol == "5" else f"?protocol={named.protocol}"
        nobody = await connect_broker(f"mqtt://127.0.0.1:{broker.port}{protocol}")
        async with MqttLink(LinkSettings(nobody, "dev-a", backoff_first=0.05)) as link:
            while link.last_error is None:
                await asyncio.sleep(0.01)
            with pytest.raises(BrokerError, match=r"refuses|hung up"):
                await link.wait_connected(0.5)
            record_property("accepted", link.counters.connections)


@pytest.mark.reliability("S8", load="no password in a file")
async def test_passwords_are_in_no_file_and_hashes_in_a_private_one(
    tmp_path: Path, kind: Kind, record_property: Record
) -> None:
    async with await start_broker(tmp_path, USERS, fleet="f", kind=kind):
        folder = tmp_path / "broker"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        texts = {path: path.read_text(errors="replace") for path in folder.iterdir()}
        open_ones = [path for path, text in texts.items() if any(password in text for password in USERS.values())]
        record_property("files", len(texts))
        record_property("secrets", len(open_ones))
        assert open_ones == []
        assert stat.S_IMODE((folder / "passwords").stat().st_mode) == 0o600


def test_a_taken_port_is_named(tmp_path: Path, kind: Kind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port}"):
            asyncio.run(start_broker(tmp_path, USERS, fleet="f", kind=kind, port=port))


@pytest.mark.slow
def test_a_broker_that_cannot_start_says_why(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The race for the port, lost every time."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(broker_module, "_free_port", lambda: taken.getsockname()[1])
        with pytest.raises(BrokerError, match="in use"):
            asyncio.run(start_broker(tmp_path, USERS, fleet="f", kind=kind))


async def test_bad_names_are_refused(tmp_path: Path, kind: Kind) -> None:
    for users, fleet in (({"dev/#": "x"}, "f"), (USERS, "a/b")):
        with pytest.raises(SettingsError, match="letters"):
            await start_broker(tmp_path, users, fleet=fleet, kind=kind)


async def test_amqtt_only_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if find_spec("amqtt") is None:
        pytest.skip("amqtt is not installed")
    monkeypatch.setattr(broker_module, "find_mosquitto", lambda: None)
    with caplog.at_level(logging.WARNING, "auricle.broker"):
        async with await start_broker(tmp_path, USERS, fleet="f") as broker:
            assert broker.kind == "amqtt"
            assert broker.address("dev-a").protocol == "3.1.1"
    assert "mosquitto" in caplog.text
    assert "amqtt" not in sys.modules, "amqtt must never run in our process"
    with pytest.raises(BrokerError, match="mosquitto"):
        await start_broker(tmp_path, USERS, fleet="f", kind="mosquitto")


def test_an_external_broker_out_of_reach_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(BrokerError, match=f"mqtt://u@127.0.0.1:{port}"):
        asyncio.run(connect_broker(f"mqtt://u:secret@127.0.0.1:{port}"))


CHILD = """
import asyncio, pathlib, signal, sys
from auricle_fleet.broker.broker import start_broker
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
async def main():
    broker = await start_broker(pathlib.Path(sys.argv[1]), {"coordinator": "c"}, fleet="f", kind=sys.argv[2])
    print(broker.pid, flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_the_broker_dies_with_its_parent(tmp_path: Path, kind: Kind, how: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", CHILD, tmp_path, kind], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.send_signal(how)
    parent.wait(10)
    parent.stdout.close()
    asyncio.run(gone(pid))


async def test_as_root_mosquitto_gives_up_its_rights() -> None:
    if find_mosquitto() is None or os.geteuid() != 0:
        pytest.skip("needs mosquitto and root")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        async with await start_broker(Path(folder), USERS, fleet="f", kind="mosquitto") as broker:
            if "as root" in broker.log_file.read_text():
                pytest.skip("no user mosquitto here")
            assert Path(f"/proc/{broker.pid}").stat().st_uid != 0
            async with MqttLink(LinkSettings(broker.address("dev-a"), "dev-a")) as link:
                await link.wait_connected(10)
            await broker.restart()


async def test_mosquitto_serves_more_clients_than_our_limit_of_open_files(tmp_path: Path) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    async with await start_broker(tmp_path, USERS, fleet="f", kind="mosquitto") as broker:
        limits = Path(f"/proc/{broker.pid}/limits").read_text()
        soft, hard = next(line for line in limits.splitlines() if "open files" in line).split()[3:5]
        assert int(soft) == min(int(hard), 65536)
