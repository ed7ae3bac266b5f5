"""Boards that are real SSH servers on this machine, each with a home and a disk of its own, and bundles for them."""

from __future__ import annotations

import getpass
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tests.edge.slots_bundle import PYTHON, make_bundle

from auricle.wire.bundle import MANIFEST_FILE, SIGNATURE_FILE, sign
from auricle.wire.identity import Identity
from auricle_export.flash.board import Board, System
from auricle_export.flash.boards import load_board
from auricle_export.flash.bundle.archive import Part, write_tar
from auricle_export.flash.push.hosts import Host
from auricle_export.flash.push.session import Access, Session

BOARD = "generic-arm64" if platform.machine() == "aarch64" else "generic-x86_64"
ROOT = "device"
"""Where bundles are installed, in the home of the one that logs in."""


def profile() -> Board:
    return load_board(BOARD)


def system() -> System:
    """The one of its systems that has the Python of this process; skips where none has."""
    found = next((each for each in profile().os if each.python == PYTHON), None)
    if found is None:
        pytest.skip(f"no system of {BOARD} brings Python {PYTHON}")
    return found


def bundle(folder: Path, version: str, more: Mapping[str, bytes | None] | None = None, **facts: str) -> Path:
    """A signed bundle for this machine, with a wheel of one script as its payload."""
    mine = {"board": BOARD, "os": system().id, "base": system().base}
    made = make_bundle(folder / version, version, more=more, **(mine | facts))
    (made / SIGNATURE_FILE).write_bytes(sign(Identity.create(), (made / MANIFEST_FILE).read_bytes()))
    files = [path for path in made.rglob("*") if path.is_file()]
    parts = {str(path.relative_to(made)): Part(path, 0o755 if path.name == "install" else 0o644) for path in files}
    archive = folder / f"auricle-{version}.tar"
    with archive.open("wb") as file:
        write_tar(file, parts)
    return archive


class SshBoard:
    """A running SSH server, the home of who logs in, and its disk."""

    def __init__(self, name: str, folder: Path, port: int, process: subprocess.Popen[str]) -> None:
        self.name, self.folder, self.port, self.process = name, folder, port, process
        self.home = folder / "home"
        self.root = self.home / ROOT

    def hang_up(self) -> None:
        """Cut all connections, as a cable that is pulled out does."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):  # cut before, and collected since
                os.kill(int(child), 9)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


class Boards:
    """Some boards, and the configuration by which ssh finds them: as `board-0`, `board-1`, ..."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[SshBoard] = []
        self.config, self.known = folder / "ssh_config", folder / "known_hosts"
        key(folder / "mine")
        self._configure()

    def start(self, *, known: bool = True) -> SshBoard:
        """Start another one; `known`: its host key was seen before."""
        name = f"board-{len(self.running)}"
        folder = self.folder / name
        (folder / "home" / ROOT / "etc").mkdir(parents=True)
        (folder / "home/.bashrc").write_text("echo welcome\n")
        (folder / "home" / ROOT / "etc/os-release").write_text(f"ID=any\nVERSION_CODENAME={system().base}\n")
        key(folder / "host")
        board = _serve(name, folder, self.folder / "mine.pub")
        self.running.append(board)
        if known:
            with self.known.open("a") as file:
                file.write(f"{board.name} {(board.folder / 'host.pub').read_text()}")
        self._configure()
        return board

    def session(self, board: SshBoard) -> Session:
        return Session(Host(board.name), Access(config=self.config))

    def stop(self) -> None:
        for board in self.running:
            board.stop()

    def _configure(self) -> None:
        lines = ["Host board-*", "  HostName 127.0.0.1", f"  User {getpass.getuser()}", "  IdentitiesOnly yes"]
        lines += [f"  IdentityFile {self.folder / 'mine'}", f"  UserKnownHostsFile {self.known}"]
        lines += ["  GlobalKnownHostsFile /dev/null"]
        for board in self.running:
            lines += [f"Host {board.name}", f"  Port {board.port}", f"  HostKeyAlias {board.name}"]
        self.config.write_text("\n".join(lines) + "\n")


def key(path: Path) -> None:
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(made, check=True, capture_output=True)


def require_sshd() -> str:
    """The path of sshd; skips without one, or it cannot run."""
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if found is None or shutil.which("ssh") is None:
        pytest.skip("openssh-server and openssh-client are not installed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return found


def _serve(name: str, folder: Path, authorized: Path) -> SshBoard:
    sshd = require_sshd()
    for _ in range(5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        configuration = folder / "sshd_config"
        configuration.write_text(
            f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {authorized}\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"SetEnv HOME={folder / 'home'} PATH={Path(sys.executable).parent}:{os.defpath}\n"
        )
        command = [sshd, "-D", "-e", "-f", str(configuration)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
        if process.stderr is not None and any("Server listening" in line for line in iter(process.stderr.readline, "")):
            return SshBoard(name, folder, port, process)
        process.wait()
    raise AssertionError("sshd does not listen")
