"""Brokers, as people find them: one wants a password, one has an unknown certificate, one takes small messages only."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from auricle_fleet.broker.mosquitto import find_mosquitto
from tests.core.test_mqtt_tls import self_signed
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


@contextlib.contextmanager
def _running(place: Path, told: str) -> Iterator[str]:
    """A mosquitto on a free port of 127.0.0.1, until the end of the block; its port."""
    program = find_mosquitto()
    if program is None:
        raise UnavailableError("mosquitto is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (place / "mosquitto.conf").write_text(f"log_dest none\nuser root\nlistener {port} 127.0.0.1\n{told}")
    process = subprocess.Popen(
        [str(program), "-c", str(place / "mosquitto.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await_port(port)
        yield str(port)
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
