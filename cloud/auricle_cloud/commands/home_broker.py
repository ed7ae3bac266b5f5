"""The broker of a home's hub: a mosquitto that starts with it, is started again when it dies, and ends with it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from auricle.errors import BrokerError
from auricle.files import read_kept
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.process.guard import guard_child
from auricle_cloud.identity.broker_files import PID_FILE
from auricle_cloud.identity.broker_folder import mosquitto_process

log = logging.getLogger("auricle.cloud")

WAIT_SECONDS = 10.0
"""For the broker to listen, or to end."""
AGAIN_SECONDS = 2.0
LOG = "broker.log"


@contextmanager
def home_broker(folder: Path, port: int) -> Iterator[None]:
    """Run the mosquitto of a broker's folder to the end of the block.

    Raises
    ------
    BrokerError
        It is not installed, or does not start.
    """
    program = find_mosquitto()
    if program is None:
        raise BrokerError("The broker of a home is mosquitto: apt install mosquitto.")
    _end_left_over(folder)
    running = _Mosquitto([str(program), "-c", str(folder / "mosquitto.conf")], folder.parent / LOG)
    try:
        running.wait_for(port)
        yield
    finally:
        running.end()


class _Mosquitto:
    """One that is started again when it dies."""

    def __init__(self, command: list[str], log_file: Path) -> None:
        self._command, self._log, self._ends = command, log_file, threading.Event()
        self._child = self._start()
        self._watching = threading.Thread(target=self._watch, name="auricle-broker", daemon=True)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as out:
            child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self._guard = guard_child(child.pid)
        return child

    def _dismiss_guard(self) -> None:
        """End the guard of a child that has ended, whose number may be somebody else's soon."""
        self._guard.kill()
        self._guard.communicate()

    def wait_for(self, port: int) -> None:
        """Return when it listens; BrokerError with its last words where it ends, or does not in time."""
        until = time.monotonic() + WAIT_SECONDS
        while self._child.poll() is None and time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                self._watching.start()
                return
            time.sleep(0.05)
        last = read_kept(self._log).decode(errors="replace").strip().splitlines()[-1:]
        raise BrokerError(f"mosquitto does not start: {last[0] if last else 'no word of it'} ({self._log})")

    def _watch(self) -> None:
        while True:
            self._child.wait()
            self._dismiss_guard()
            if self._ends.wait(AGAIN_SECONDS):
                return
            log.error("mosquitto ended (%s): it is started again", self._child.returncode)
            self._child = self._start()

    def end(self) -> None:
        """End it, and wait for that."""
        self._ends.set()
        self._child.terminate()
        try:
            self._child.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._watching.ident is None:  # it has never listened: nobody waits for it
            self._dismiss_guard()


def _end_left_over(folder: Path) -> None:
    """A hub that was killed may leave its broker behind for a moment, or for good where its guard died too."""
    pid, until = mosquitto_process(folder / PID_FILE), time.monotonic() + WAIT_SECONDS
    if pid is None:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    while mosquitto_process(folder / PID_FILE) == pid and time.monotonic() < until:
        time.sleep(0.05)
