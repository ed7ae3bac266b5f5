"""A machine that boots a card: qemu's `virt` with the cores of a Raspberry Pi 5, two of them, without hardware help."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.firstboot.card import Card
from tests.firstboot.system import GuestSystem

HOST = "10.0.2.2"
"""The host's loopback, as the machine sees it."""
NICE = 10
MEMORY = "1024"
PARAMETERS = (
    *("console=ttyAMA0", "net.ifnames=0", "panic=1", "audit=0", "apparmor=0", "systemd.debug_shell=hvc0"),
    "systemd.getty_auto=no",
    "systemd.default_device_timeout_sec=900",
    "systemd.default_timeout_start_sec=900",
)
"""After those of the card: a serial console, a root shell for the test, and the patience that emulation needs."""
BOOT = 900.0
"""Seconds that anything may take."""


class MachineError(AssertionError):
    """The machine did not do what was waited for."""


@dataclass(frozen=True)
class Told:
    """What a command in the machine did."""

    code: int
    text: str


class Machine:
    """A running machine. The power is on from the start to `cut` or `off`."""

    def __init__(self, system: GuestSystem, card: Card, log: Path, *, options: str = "", network: bool = True) -> None:
        self.log, self._card = log, card
        self._text, self._news = "", threading.Condition()
        self._shell_path = log.with_suffix(".shell")
        self._shell_path.unlink(missing_ok=True)
        self._shell: socket.socket | None = None
        cmdline = (card.read("cmdline.txt") or b"").decode().strip()
        command = [
            *("nice", "-n", str(NICE), "qemu-system-aarch64", "-M", "virt", "-accel", "tcg,thread=multi,tb-size=512"),
            *("-cpu", "cortex-a76", "-smp", "2", "-m", MEMORY, "-nodefaults", "-display", "none", "-no-reboot"),
            *("-kernel", str(system.kernel), "-initrd", str(system.initramfs), "-append"),
            f"{cmdline} {' '.join(PARAMETERS)} {options}",
            "-drive",
            f"file={card.path},if=none,id=card,format=raw,cache=writeback",
            *("-device", "virtio-blk-pci,drive=card", "-device", "virtio-rng-pci", "-serial", "stdio"),
            *("-device", "virtio-serial-pci", "-chardev"),
            f"socket,id=shell,path={self._shell_path},server=on,wait=off",
            "-device",
            "virtconsole,chardev=shell",
        ]
        if network:
            command += ["-netdev", "user,id=house", "-device", "virtio-net-pci,netdev=house,romfile="]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Machine:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Turn it off, whatever it does."""
        self.cut()

    # -- what it says

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("wb") as log:
            while data := os.read(self.process.stdout.fileno(), 65536):
                log.write(data)
                log.flush()
                with self._news:
                    self._text += data.decode("utf-8", "replace")
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait(self, pattern: str, seconds: float = BOOT) -> re.Match[str]:
        """Wait for a line on its console."""
        until = time.monotonic() + seconds
        with self._news:
            while (found := re.search(pattern, self._text)) is None:
                left = until - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise MachineError(f"no {pattern!r} within {seconds:.0f} s; its console ends: {self._text[-3000:]}")
                self._news.wait(min(left, 1.0))
        return found

    @property
    def console(self) -> str:
        """All that it has said."""
        with self._news:
            return self._text

    # -- somebody at its keyboard

    def run(self, command: str, seconds: float = BOOT) -> Told:
        """Run a command as root, as soon as systemd has come up that far."""
        end = secrets.token_hex(8)
        shell = self._connected(seconds)
        shell.sendall(f" {{ {command}\n }} </dev/null 2>&1; echo {end[:8]}''{end[8:]} $?\n".encode())
        text = self._until(shell, rf"{end} (\d+)", seconds)
        found = re.search(rf"{end} (\d+)", text)
        assert found is not None
        return Told(int(found[1]), text[: found.start()].replace("\r\n", "\n").strip())

    def wait_true(self, command: str, seconds: float = BOOT) -> str:
        """Ask again and again, with pauses, until a command succeeds; what it printed."""
        until = time.monotonic() + seconds
        while (told := self.run(command)).code:
            if time.monotonic() > until:
                raise MachineError(f"{command} still fails after {seconds:.0f} s: {told.text[-1000:]}")
            threading.Event().wait(3.0)
        return told.text

    def _connected(self, seconds: float) -> socket.socket:
        """The root shell on its second console; it comes up early in a boot."""
        if self._shell is None:
            shell = socket.socket(socket.AF_UNIX)
            until = time.monotonic() + seconds
            while True:
                try:
                    shell.connect(str(self._shell_path))
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    if time.monotonic() > until or self.process.poll() is not None:
                        raise MachineError(f"qemu did not start: {self.console[-2000:]}") from None
                    threading.Event().wait(0.1)
            self._shell = shell
            while True:  # what is typed before the shell listens is lost
                ready = secrets.token_hex(8)
                shell.sendall(f"\n stty -echo; export TERM=dumb PS1= PS2=; echo {ready[:8]}''{ready[8:]}\n".encode())
                try:
                    self._until(shell, ready, 5.0)
                    break
                except MachineError:
                    if time.monotonic() > until:
                        raise
        return self._shell

    def _until(self, shell: socket.socket, pattern: str, seconds: float) -> str:
        text, until = "", time.monotonic() + seconds
        while not re.search(pattern, text):
            shell.settimeout(max(0.01, until - time.monotonic()))
            try:
                data = shell.recv(65536)
            except TimeoutError:
                data = b""
            if not data:
                raise MachineError(f"its shell did not answer within {seconds:.0f} s; it said: {text[-1000:]}")
            text += data.decode("utf-8", "replace")
        return text

    # -- its switch

    def cut(self) -> None:
        """Take its power away, at once: what it had not yet written to the card is lost."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self._reader.join(30)
        if self._shell is not None:
            self._shell.close()
        self._shell_path.unlink(missing_ok=True)

    def off(self, seconds: float = BOOT) -> None:
        """Shut it down."""
        self.run("systemctl --no-block poweroff")
        self.process.wait(seconds)
        self.cut()
