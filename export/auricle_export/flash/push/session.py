"""A shell on a board, by the system's own `ssh`: host keys are checked, nothing a user wrote becomes shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from auricle.errors import AuricleError, SettingsError
from auricle.files import open_kept
from auricle_export.flash.push.hosts import Host

MOST_OUTPUT = 1 << 20
PIECE_BYTES = 1 << 18
LONGEST_CONTROL_PATH = 40
"""Characters of the folder: the socket's whole name has to fit into 108."""
OPTIONS = (
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "EscapeChar=none",
)
COMPLAINTS = (
    (
        "IDENTIFICATION HAS CHANGED",
        "shows another host key than before: if it was set up again, ssh-keygen -R forgets "
        "the old one; if not, somebody is in between.",
    ),
    ("Host key verification failed", "has a host key that is not known: log in once with ssh, or give --accept-new."),
    ("Permission denied", "does not let you in: check the user, and --identity or your SSH agent."),
    ("Too many authentication failures", "was offered too many keys: name the right one with --identity."),
    ("Could not resolve hostname", "is not a name that can be resolved."),
    ("Connection refused", "refuses connections: is SSH enabled, and the port right?"),
    ("No route to host", "cannot be reached: is it switched on, and in this network?"),
    ("timed out", "does not answer: is it switched on, and in this network?"),
)
Heard = Callable[[int], None]
"""Told how many bytes of the file were sent."""


class PushError(AuricleError):
    """A board that could not be installed on."""


@dataclass(frozen=True)
class Access:
    """How to log in to all boards."""

    identity: Path | None = None
    """A private key; None: those of the SSH configuration and agent."""
    config: Path | None = None
    """An SSH configuration in place of the user's."""
    accept_new: bool = False
    """Believe host keys that were never seen."""
    ask: bool = False
    """Let ssh ask for passwords and host keys at the terminal."""
    control: Path | None = None
    """Folder for sockets, so that ssh logs in once a board."""


@dataclass
class Session:
    """A board that commands are run on, one at a time."""

    host: Host
    access: Access
    sudo: bool = False
    """Commands as root go through sudo."""
    password: str | None = None
    """What sudo asks for; None: nothing."""
    _running: subprocess.Popen[bytes] | None = field(default=None, init=False)
    stopped: bool = field(default=False, init=False)

    def run(self, script: str, *words: str, given: bytes = b"", as_root: bool = False, seconds: float = 120) -> str:
        """Run a POSIX shell script on the board and give back what it printed.

        Parameters
        ----------
        script
            Constant text; `words` are its $1, $2 and so on.
        given
            What it reads from its standard input.
        as_root
            By sudo, where `sudo` says so.
        seconds
            When to give up.

        Raises
        ------
        PushError
            The board cannot be reached, the script failed, or took too long; with the board's own last words.
        """
        command = ["sh", "-c", script, "sh", *words]
        if as_root and self.sudo:
            asks = ["-n"] if self.password is None else ["-k", "-S", "-p", ""]
            command = ["sudo", *asks, "--", *command]
            given = given if self.password is None else self.password.encode() + b"\n" + given
        return self._finish(shlex.join(command), lambda pipe: _write(pipe, given), seconds)

    def send(self, script: str, *words: str, file: Path, heard: Heard) -> str:
        """Run a script that reads a file from its standard input; parameters and errors as those of `run`."""

        def feed(pipe: IO[bytes]) -> None:
            sent = 0
            with open_kept(file) as content:
                while piece := content.read(PIECE_BYTES):
                    _write(pipe, piece)
                    sent += len(piece)
                    heard(sent)

        return self._finish(shlex.join(["sh", "-c", script, "sh", *words]), feed, None)

    def stop(self) -> None:
        """End what runs; nothing else will be run."""
        self.stopped = True
        running = self._running
        if running is not None:
            with suppress(ProcessLookupError):
                running.terminate()

    def close(self) -> None:
        """Log out."""
        if self._socket() and not self.stopped:
            command = [*self._ssh(), "-O", "exit", "--", self.host.name]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20)

    def _finish(self, command: str, feed: Callable[[IO[bytes]], None], seconds: float | None) -> str:
        """Run a command line of the board's shell to its end."""
        if self.stopped:
            raise PushError(f"{self.host} was interrupted.")
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                [*self._ssh(), "--", self.host.name, command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
            self._running = process
            late = threading.Timer(seconds or threading.TIMEOUT_MAX, process.kill)
            late.start()
            said: list[bytes] = []
            reader = threading.Thread(target=lambda: said.append(_read(process)))
            reader.start()
            try:
                if self.stopped:
                    process.terminate()
                if process.stdin is not None:
                    with suppress(BrokenPipeError), process.stdin as pipe:
                        feed(pipe)
                code = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                overdue = not late.is_alive()
                late.cancel()
                reader.join()
            complaints.seek(0)
            words = _plain(complaints.read(MOST_OUTPUT))
        if overdue:
            raise PushError(f"{self.host} did not finish within {seconds:.0f} s: try again.")
        if code != 0:
            raise PushError(self._reason(code, words, _plain(said[0])))
        return _plain(said[0])

    def _ssh(self) -> list[str]:
        """The ssh command up to the host."""
        access, host = self.access, self.host
        options = [
            *OPTIONS,
            f"BatchMode={'no' if access.ask else 'yes'}",
            f"StrictHostKeyChecking={'accept-new' if access.accept_new else 'ask'}",
        ]
        if self._socket():
            options += ["ControlMaster=auto", f"ControlPath={self._socket()}", "ControlPersist=60"]
        words = ["ssh", "-T"]
        if access.config is not None:
            words += ["-F", str(access.config)]
        if access.identity is not None:
            words += ["-i", str(access.identity)]
            options.append("IdentitiesOnly=yes")
        words += [word for option in options for word in ("-o", option)]
        words += ["-p", str(host.port)] if host.port else []
        words += ["-l", host.user] if host.user else []
        return words

    def _socket(self) -> str:
        control = self.access.control
        usable = control is not None and len(str(control)) <= LONGEST_CONTROL_PATH and "%" not in str(control)
        return f"{control}/%C" if usable else ""

    def _reason(self, code: int, complaints: str, said: str) -> str:
        """Why a command failed, in a sentence."""
        if self.stopped:
            return f"{self.host} was interrupted."
        if code == 255:
            known = next((told for sign, told in COMPLAINTS if sign in complaints), None)
            return f"{self.host} {known}" if known else f"{self.host} cannot be reached: {_last(complaints)}"
        return f"{self.host} failed: {_last(complaints) or _last(said) or f'exit code {code}'}"


def require_ssh() -> None:
    """Refuse to begin without `ssh`. SettingsError: it is not installed."""
    if shutil.which("ssh") is None:
        raise SettingsError("There is no ssh here: install the OpenSSH client (apt install openssh-client).")


def _write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


def _read(process: subprocess.Popen[bytes]) -> bytes:
    """What a process prints; one that prints without end is ended."""
    if process.stdout is None:
        return b""
    with process.stdout as pipe:
        said = pipe.read(MOST_OUTPUT)
        if pipe.read(1):
            process.kill()
    return said


def _plain(said: bytes) -> str:
    """What a board said, without characters that a terminal obeys."""
    text = said.decode("utf-8", "replace")
    return "".join(character for character in text if character.isprintable() or character == "\n")


def _last(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
