"""States of coordinators and devices, and servers, as people find them: half written, of another, not there."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from auricle.process.cli import main
from auricle_cloud.storage.store import FILE, Store
from tests.cloud.filled_store import fill
from tests.mistakes.before import Before, UnavailableError

UNTIL = 60.0  # seconds that a server may take to start


def _filled(place: Path) -> Path:
    fill(place).store.close()
    return place


def hub(before: Before) -> None:
    """A coordinator's state after two rounds, of a coordinator that does not run."""
    shutil.copytree(before.need.once("hub", _filled), before.folder / "hub")


def begun_hub(before: Before) -> None:
    """A coordinator's state that has no device and no round."""
    (before.folder / "new").mkdir()
    Store(before.folder / "new" / FILE).close()


def later_hub(before: Before) -> None:
    """A state whose database a later version has written."""
    hub(before)
    with contextlib.closing(sqlite3.connect(before.folder / "hub" / FILE)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_of_tomorrow'")


def _database(before: Before, content: bytes) -> None:
    (before.folder / "hub").mkdir()
    (before.folder / "hub" / FILE).write_bytes(content)


def spoilt_hub(before: Before) -> None:
    """A state whose database is no database any more."""
    _database(before, b"SQLite format 3\0" + b"spoilt" * 900)


def letter_hub(before: Before) -> None:
    """A state whose database is a text."""
    _database(before, b"I put my notes here.\n" * 400)


def other_hub(before: Before) -> None:
    """A state whose database is of another program."""
    (before.folder / "hub").mkdir()
    with contextlib.closing(sqlite3.connect(before.folder / "hub" / FILE)) as connection, connection:
        connection.execute("CREATE TABLE recipes (title TEXT)")


def half_hub(before: Before) -> None:
    """A state whose database has no byte: the power went when it was made."""
    _database(before, b"")


def locked_hub(before: Before) -> None:
    """A state of which somebody holds the lock."""
    hub(before)
    connection = before.open.enter_context(contextlib.closing(sqlite3.connect(before.folder / "hub" / FILE)))
    connection.execute("BEGIN EXCLUSIVE")


def hub_with_anna(before: Before) -> None:
    """A state in which Anna has a token."""
    hub(before)
    store = Store(before.folder / "hub" / FILE)
    store.tokens.create("anna", "viewer")
    store.close()


def hub_with_one_admin(before: Before) -> None:
    """A state in which Anna has the only token of an admin."""
    hub(before)
    store = Store(before.folder / "hub" / FILE)
    store.tokens.create("anna", "admin")
    store.close()


def half_fleet(before: Before) -> None:
    """A folder in which a fleet was made."""
    (before.folder / "home").mkdir(exist_ok=True)
    (before.folder / "home" / "fleet.toml").write_text('fleet = "home"\n')


def fleet_with_hub(before: Before) -> None:
    """A fleet's folder, whose state after two rounds is in it."""
    hub(before)
    (before.folder / "ours").mkdir()
    (before.folder / "hub").rename(before.folder / "ours" / "state")


def lost_files(before: Before) -> None:
    """A state without the files of its models."""
    hub(before)
    shutil.rmtree(before.folder / "hub" / "blobs")


def authority(before: Before) -> None:
    """A coordinator's state with a certificate authority."""

    def make(place: Path) -> Path:
        with contextlib.redirect_stdout(None):
            assert main(["cloud", "--state", str(place), "enrol", "init"]) == 0
        return place

    shutil.copytree(before.need.once("authority", make), before.folder / "home-hub")


def backup(before: Before) -> None:
    """A backup, and one that is cut in the middle."""

    def make(place: Path) -> Path:
        _filled(place / "hub")
        with contextlib.redirect_stdout(None):
            assert main(["cloud", "--state", str(place / "hub"), "backup", str(place / "saved.tar.zst")]) == 0
        return place / "saved.tar.zst"

    whole = before.need.once("backup", make)
    shutil.copy(whole, before.folder)
    data = whole.read_bytes()
    (before.folder / "half.tar.zst").write_bytes(data[: len(data) // 2])


def finished_run(before: Before) -> None:
    """A run of one round that has ended."""
    from tests.mistakes.sounds import voices

    def make(place: Path) -> Path:
        voices(Before(place, before.need))
        told = [
            "fleet",
            "run",
            "--data",
            str(place / "voices"),
            "--rounds",
            "1",
            "--out",
            str(place / "done"),
            "--json",
        ]
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            assert main(told) == 0
        return place / "done"

    shutil.copytree(before.need.once("finished_run", make), before.folder / "done")


def board(before: Before) -> None:
    """A device's state with no clips, of a service that does not run."""
    (before.folder / "pi").mkdir()


def left_socket(before: Before) -> None:
    """A device's state in which a service that was killed left its socket."""
    board(before)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(before.folder / "pi" / "control.sock"))


def not_mine(before: Before) -> None:
    """A folder that only somebody else may read."""
    _closed(before, "theirs", 0)


def read_only(before: Before) -> None:
    """A folder in which you may read and not write."""
    _closed(before, "fixed", 0o555)


def _closed(before: Before, name: str, mode: int) -> None:
    folder = before.folder / name
    folder.mkdir()
    folder.chmod(mode)
    before.open.callback(folder.chmod, 0o755)


def key(before: Before) -> None:
    """A public key, or a hash: 64 hexadecimal digits."""
    before.names["key"] = "ab" * 32


def long(before: Before) -> None:
    before.names["long"] = "kitchen" * 143


def image(before: Before) -> None:
    """Images of disks: a boot sector and a mebibyte, and one that is there already."""
    sector = bytearray(512)
    sector[446:462] = bytes.fromhex("00000000830000000100000000080000")
    sector[510:] = b"\x55\xaa"
    (before.folder / "card.img").write_bytes(bytes(sector) + bytes(1 << 20))
    (before.folder / "other.img").write_bytes(b"what was there" * 100)


def bundle(before: Before) -> None:
    from tests.cloud.release_files import make_bundle

    make_bundle(before.folder / "b.tar")


def taken_port(before: Before) -> None:
    """A port of this machine that something listens on, which says nothing."""
    taken = before.open.enter_context(socket.create_server(("127.0.0.1", 0)))
    before.names["port"] = str(taken.getsockname()[1])


def free_port(before: Before) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        before.names["free"] = str(probe.getsockname()[1])


def small_disk(before: Before) -> None:
    """A disk of some kilobytes, all of them taken."""
    if os.geteuid() != 0:
        raise UnavailableError("only root can mount a small disk")
    folder = before.folder / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        raise UnavailableError("no small disk can be mounted here")
    before.open.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
    with (folder / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def api(before: Before) -> None:
    """A coordinator that runs, with tokens of each role, one that has expired and one that was revoked."""
    from tests.cloud.api_server import Server, serving

    @contextlib.contextmanager
    def start(place: Path) -> Iterator[tuple[Server, dict[str, str]]]:
        filled = fill(place)
        tokens = filled.store.tokens
        extra = {name: tokens.create(name, "admin") for name in ("expired", "revoked")}
        tokens.revoke("revoked")
        with filled.store.database.writing() as tx:
            tx.exec_driver_sql("UPDATE tokens SET expires = 1.0 WHERE name = 'expired'")
        with serving(filled) as server:
            yield server, extra
        filled.store.close()

    server, extra = before.need.running("api", start)
    before.names |= {"url": server.url, "port": server.url.rpartition(":")[2], **server.tokens, **extra}


def tls_api(before: Before) -> None:
    """A coordinator's API with TLS, whose certificate is of 127.0.0.1 and of an authority of its own."""
    from auricle_cloud.api.api_settings import ApiSettings
    from tests.cloud.api_server import GENEROUS, serving
    from tests.core.test_mqtt_tls import self_signed

    @contextlib.contextmanager
    def start(place: Path) -> Iterator[tuple[str, Path]]:
        certificate, key = self_signed(place, "hub")
        filled = fill(place / "state")
        with serving(filled, ApiSettings(port=0, certificate=certificate, key=key, rates=GENEROUS)) as server:
            yield server.url.rpartition(":")[2], certificate
        filled.store.close()

    port, certificate = before.need.running("tls_api", start)
    before.names["tls"] = port
    shutil.copy(certificate, before.folder / "ca.pem")


def service(before: Before) -> None:
    """A device that runs, hears silence and has detected nothing."""
    folder = before.folder / "pi"
    folder.mkdir()
    os.mkfifo(before.folder / "room.fifo")
    sound = f"fifo:{before.folder / 'room.fifo'}"
    command = [sys.executable, "-m", "auricle", "edge", "run", "--device", "kitchen-1", "--state", folder]
    process = subprocess.Popen([*command, "--source", sound], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        process.wait()

    before.open.callback(end)
    until = time.monotonic() + UNTIL
    while not (folder / "control.sock").exists():
        if time.monotonic() > until or process.poll() is not None:
            raise UnavailableError("the service did not start")
        time.sleep(0.1)
