"""Runs a command of slots.py once for each of its steps, cut off there as by the power: what was not synced is lost.

A step is every change that the process asks the kernel for (open to write, rename, remove, folder, link), seen by an
audit hook, and every sync. The process is killed in front of it; then every file that was written and not synced since
is emptied, as ext4 leaves it when a rename reached the disk before the data.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auricle_edge.ota.slots import commands, filling

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.truncate", "os.link")


class Power:
    """Counts steps, kills at one of them, and knows which files under a folder are not synced."""

    def __init__(self, root: Path, at: int, log: Path) -> None:
        self._root, self._at, self.steps = str(root), at, 0
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._fsync, self._sync_disk = os.fsync, filling.sync_disk

    def connect(self) -> None:
        """From here on every step counts; it cannot be undone in this process."""
        os.fsync = self.fsync  # type: ignore[assignment]
        filling.sync_disk = self.sync_disk
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int):
            if arguments[2] & WRITES and arguments[0].startswith(self._root):
                self._step("dirty", arguments[0])
        elif event == "os.rename":
            self._step("rename", str(arguments[0]), str(arguments[1]))
        elif event in CHANGES:
            self._step(event)

    def fsync(self, handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        self._step("about to sync")
        self._fsync(number)
        self._note("clean", str(Path(f"/proc/self/fd/{number}").readlink()))

    def sync_disk(self, folder: Path) -> None:
        self._step("about to sync")
        self._note("all clean")

    def _step(self, *what: str) -> None:
        if self.steps == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1
        self._note(*what)

    def _note(self, *what: str) -> None:
        os.write(self._log, json.dumps(what).encode() + b"\n")


def lose(log: Path) -> None:
    """Empty every file that was written and not synced before the power went."""
    dirty: set[str] = set()
    for line in log.read_text().splitlines():
        what, *paths = json.loads(line)
        if what == "dirty":
            dirty.add(paths[0])
        elif what == "rename":
            dirty.discard(paths[1])
            if paths[0] in dirty:
                dirty.remove(paths[0])
                dirty.add(paths[1])
        elif what == "clean":
            dirty.discard(paths[0])
        elif what == "all clean":
            dirty.clear()
    for path in dirty:
        if Path(path).is_file() and not Path(path).is_symlink():
            os.truncate(path, 0)


def cut(root: Path, at: int, arguments: Sequence[str]) -> int | None:
    """Run a command in a process of its own that loses its power at a step; None, or how many steps it had."""
    log = root.with_name(f"{root.name}.log")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        power = Power(root, at, log)
        power.connect()
        code = commands.main(arguments)
        os.write(write, str(power.steps).encode())
        os._exit(code)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        lose(log)
        return None
    assert os.WEXITSTATUS(status) == 0, f"{arguments} was refused"
    return int(text)


def main() -> None:
    """`DEVICE FOLDER COMMAND...`: copies of the device in FOLDER/0, 1, ..., each cut off one step later; how many."""
    device, folder, arguments = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    at = 0
    while True:
        root = folder / str(at)
        shutil.copytree(device, root, symlinks=True)
        if cut(root, at, [arguments[0], "--root", str(root), *arguments[1:]]) is not None:
            break
        at += 1
    print(at, file=sys.__stdout__)


if __name__ == "__main__":
    main()
