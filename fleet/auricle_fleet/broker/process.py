"""A broker's child process: started, watched until it listens, and gone when we are gone."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from auricle.errors import BrokerError
from auricle.files import open_kept
from auricle.process.guard import guard_child
from auricle.process.open_files import raise_open_files

_START_SECONDS = 15.0


class BrokerProcess:
    """One run of a broker.

    Parameters
    ----------
    command
        The program and its arguments; it keeps running in the foreground.
    log
        File that its output is appended to.
    sign
        Text in the output that says that it listens.
    """

    def __init__(self, command: Sequence[str], log: Path, sign: str) -> None:
        self._command = list(command)
        self._log = log
        self._sign = sign
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._offset = 0

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    async def start(self) -> None:
        """Start the process and wait until it listens.

        Raises
        ------
        BrokerError
            It ended or did not listen in time; the sentence holds the end of its log.
        """
        self._offset = self._log.stat().st_size if self._log.exists() else 0
        self._launch()
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while self._sign not in self._output():
            ended = self.pid is None
            if ended or asyncio.get_running_loop().time() > deadline:
                self.kill()
                what = "ended at once" if ended else f"did not listen within {_START_SECONDS:.0f} s"
                raise BrokerError(f"{Path(self._command[0]).name} {what} (log {self._log}): {self._last_words()}")
            await asyncio.sleep(0.01)

    def _launch(self) -> None:
        # The child begins with our limit of open files, which only Linux lets us lift later on.
        raise_open_files()
        # A session of its own: Ctrl-C reaches us, and we stop the broker after its clients.
        with self._log.open("ab") as out:
            try:
                child = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
            except OSError as error:
                raise BrokerError(f"cannot start {self._command[0]}: {error}") from error
        self._child = child
        atexit.register(self.kill)
        self._guard = guard_child(child.pid)
        _raise_open_files(child.pid)

    def _output(self) -> str:
        with open_kept(self._log) as file:
            file.seek(self._offset)
            return file.read().decode(errors="replace")

    def _last_words(self) -> str:
        return " | ".join(self._output().strip().splitlines()[-3:]) or "it said nothing"

    async def stop(self, timeout: float = 5.0) -> None:
        """Ask the process to end, and kill it if it does not."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(self._child.wait, timeout)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self.kill()

    def kill(self) -> None:
        """End the process now, without a chance to write anything down."""
        atexit.unregister(self.kill)
        for process in (self._guard, self._child):
            if process is not None:
                process.kill()
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
        self._guard = None


def _raise_open_files(pid: int) -> None:
    """Lift the child's limit of open files, one a client, as far as it may go."""
    # It has just ended, as `start` will say; or it has taken another user's rights and may not be asked.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        raise_open_files(pid)
