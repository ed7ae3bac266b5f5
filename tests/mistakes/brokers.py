"""Brokers, as people find them: with a password, an unknown certificate, a limit of size, an authority of before."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.process.cli import main
from tests.core.test_mqtt_tls import self_signed
from tests.mistakes import places
from tests.mistakes.before import Before, UnavailableError

UNTIL = 60.0  # seconds that a broker may take to start


def mosquitto(before: Before) -> None:
    @contextlib.contextmanager
    def start(place: Path) -> Iterator[str]:
        passwords = place / "passwords"
        passwords.touch(mode=0o600)
        with _running(place, f"allow_anonymous false\npassword_file {passwords}\n") as port:
            yield port

    before.names["broker"] = before.need.running("mosquitto", start)


def tls_broker(before: Before) -> None:
    """A broker with TLS on 127.0.0.1, of an authority of its own; a state `known` that trusts it, another `claimed`."""

    @contextlib.contextmanager
    def start(place: Path) -> Iterator[tuple[str, Path]]:
        certificate, key = self_signed(place, "broker")
        self_signed(place, "other")
        with _running(place, f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n") as port:
            yield port, place

    before.names["tls"], place = before.need.running("tls_broker", start)
    for state, authority in (("claimed", "other"), ("known", "broker")):
        identity = before.folder / state / "identity"
        identity.mkdir(parents=True)
        for name, source in (("authority", f"{authority}.pem"), ("certificate", "other.pem"), ("key", "other.key")):
            shutil.copy(place / source, identity / f"{name}.pem")


def small_broker(before: Before) -> None:
    """A broker that takes no message above 20 kB, and drops a larger one."""

    @contextlib.contextmanager
    def start(place: Path) -> Iterator[str]:
        with _running(place, "allow_anonymous true\nmessage_size_limit 20000\n") as port:
            yield port

    before.names["small"] = before.need.running("small_broker", start)


def strict_broker(before: Before) -> None:
    """A broker that ends the connection at a packet above 20 kB; by MQTT 3.1.1 it cannot announce that."""

    @contextlib.contextmanager
    def start(place: Path) -> Iterator[str]:
        with _running(place, "allow_anonymous true\nmax_packet_size 20000\n") as port:
            yield port

    before.names["strict"] = before.need.running("strict_broker", start)


def board_at_small_broker(before: Before) -> None:
    """A device, `pi.toml`, of a fleet whose broker takes no message above 20 kB."""
    small_broker(before)
    (before.folder / "pi").mkdir()
    settings = {"device": "pi-1", "state": "pi", "fleet": "home", "coordinator": "ab" * 32}
    settings["broker"] = f"mqtt://127.0.0.1:{before.names['small']}"
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    (before.folder / "pi.toml").write_text("\n".join([*lines, "[capture]", 'source = "file:good.wav"', ""]))


def replaced_authority(before: Before) -> None:
    """A coordinator, `home-hub`, whose authority is a new one, and a `broker` that runs with the one of before."""
    places.authority(before)
    state, port = before.folder / "home-hub", _free_port()
    written = f"enrol broker --fleet home --host 127.0.0.1 --listen 127.0.0.1 --port {port} --out"
    _typed(state, *written.split(), str(before.folder / "broker"))
    before.open.enter_context(_started(before.folder / "broker" / "mosquitto.conf", port))
    (state / "authority").rename(before.folder / "authority.before")
    _typed(state, "enrol", "init")
    before.names["broker"] = str(port)


def _typed(state: Path, *arguments: str) -> None:
    with contextlib.redirect_stdout(None):
        assert main(["cloud", "--state", str(state), *arguments]) == 0


@contextlib.contextmanager
def _running(place: Path, told: str) -> Iterator[str]:
    """A mosquitto on a free port of 127.0.0.1, until the end of the block; its port."""
    port = _free_port()
    (place / "mosquitto.conf").write_text(f"log_dest none\nuser root\nlistener {port} 127.0.0.1\n{told}")
    with _started(place / "mosquitto.conf", port):
        yield str(port)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _started(settings: Path, port: int) -> Iterator[None]:
    program = find_mosquitto()
    if program is None:
        raise UnavailableError("mosquitto is not installed")
    process = subprocess.Popen(
        [str(program), "-c", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await_port(port)
        yield
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int) -> None:
    until = time.monotonic() + UNTIL
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise UnavailableError("a server did not start") from None
            time.sleep(0.05)
