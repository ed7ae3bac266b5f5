"""Runs a mistake as a process of its own: forked from one that has loaded every part, so that it starts at once."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import pty
import resource
import select
import shlex
import signal
import string
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mistakes.before import Before, Need
from tests.mistakes.record import Mistake

PRELOADED = (
    "tests.mistakes.run",
    "auricle.process.cli",
    "auricle_edge.commands",
    "auricle_cloud.commands",
    "auricle_fleet.commands",
    "auricle_export.commands",
    "auricle_export.flash.commands",
    "auricle_edge.commands.examination",
    "auricle_cloud.commands.maintenance_commands",
    "auricle_cloud.commands.serve_commands",
    "auricle_fleet.commands.run_commands",
    "auricle_fleet.suite.terminal",
)
PATIENCE = 150.0  # seconds after which a command hangs
END = 20.0  # seconds that a command has to end, once it is asked to
OVER_FILES = (1, 2, 3)
"""Linux's CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER: by which root reads and writes everything."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(list(PRELOADED))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
    seconds: float
    changed: tuple[str, ...]  # of the paths that had to stay as they were
    new: tuple[str, ...]  # names in the folder that were not there before
    names: Mapping[str, str]  # what stood for the names in braces


def run(mistake: Mistake, folder: Path, need: Need, patience: float = PATIENCE) -> Outcome:
    """Make what has to exist before, run the command, and say what became of it; end it after some seconds."""
    before = Before(folder, need)
    with before.made(mistake):
        names = {"dir": str(folder), **before.names}
        kept = {name: _digest(folder / name) for name in mistake.unchanged}
        had = _names(folder)
        began = time.monotonic()
        code, out, err = _process(mistake, folder, names, patience)
        seconds = time.monotonic() - began
        changed = tuple(name for name, was in kept.items() if _digest(folder / name) != was)
        return Outcome(code, out, err, seconds, changed, tuple(sorted(_names(folder) - had)), names)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith(".std")}


def _digest(path: Path) -> str:
    """Of a file, or of all files of a folder and their names."""
    total = hashlib.sha256()
    for each in [path, *sorted(path.rglob("*"))]:
        if each.is_file():
            total.update(f"{each.relative_to(path.parent)}\0".encode() + each.read_bytes())
    return total.hexdigest()


def _process(mistake: Mistake, folder: Path, names: Mapping[str, str], patience: float) -> tuple[int, str, str]:
    out, err, typed = folder / ".std.out", folder / ".std.err", folder / ".std.in"
    typed.write_text(mistake.typed)
    for path in (out, err):
        path.touch(mode=0o666)
        path.chmod(0o666)
    arguments = [_filled(word, names) for word in shlex.split(mistake.command)]
    assert arguments[0] == "auricle", mistake.command
    environment = {name: _filled(value, names) for name, value in mistake.environment.items()}
    process = _forks.Process(target=_be, args=(mistake, str(folder), arguments[1:], environment))
    process.start()
    assert process.pid is not None
    if mistake.interrupt:
        _interrupt_when(process, mistake.interrupt, (out, err))
    process.join(patience)
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.exitcode is None:
            _signal(process.pid, number)
            process.join(END)
        process.join()
    code = process.exitcode
    assert code is not None
    return code, out.read_text(errors="replace"), err.read_text(errors="replace")


def _filled(text: str, names: Mapping[str, str]) -> str:
    return string.Template(text.replace("$", "$$").replace("{", "${")).safe_substitute(names)


def _interrupt_when(process: multiprocessing.process.BaseProcess, word: str, files: tuple[Path, ...]) -> None:
    """Send what Ctrl-C sends to everything that the command started, once it has said a word."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.is_alive():
        if any(word in file.read_text(errors="replace") for file in files):
            assert process.pid is not None
            _signal(process.pid, signal.SIGINT)
            return
        process.join(0.05)


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


# -- in the process itself


def _keep_what_is_compiled() -> None:
    """What this machine compiles once stays where it is: no mistake waits for a compiler, or leaves its work behind."""
    from auricle_learning.native import library, plan_shelf

    kept = library.native_folder()
    library.native_folder = plan_shelf.native_folder = lambda: kept


def _be(mistake: Mistake, folder: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    _keep_what_is_compiled()
    for name in [name for name in os.environ if name.startswith(("AURICLE_", "XDG_"))]:
        del os.environ[name]
    os.environ.update({"HOME": f"{folder}/home", "COLUMNS": "80", "TERM": "xterm", "USER": "anna", "TZ": "UTC"})
    os.environ.update(environment)
    time.tzset()
    if mistake.cut:
        code = _cut(mistake, arguments)
    elif mistake.terminal:
        code = _on_terminal(mistake, arguments)
    else:
        _streams(os.open(".std.in", os.O_RDONLY), os.open(".std.out", os.O_WRONLY), os.open(".std.err", os.O_WRONLY))
        _call(mistake, arguments)
    os._exit(code)


def _streams(given: int, out: int, err: int) -> None:
    """Make these the standard streams, as a start of Python does."""
    for number, handle in enumerate((given, out, err)):
        os.dup2(handle, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115


def _call(mistake: Mistake, arguments: list[str]) -> None:
    """What the console script does, down to its exit; never returns."""
    from auricle.process import start

    if mistake.largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (mistake.largest, mistake.largest))
    if mistake.without_root and os.geteuid() == 0:
        _give_up_rights()
    sys.argv = ["auricle", *arguments]
    code: object = 1
    try:
        start.entry()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - what Python itself does at last
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _give_up_rights() -> None:
    """Let root have no more rights over files than their permissions say, also in programs that it starts."""
    library = ctypes.CDLL(None, use_errno=True)
    for right in OVER_FILES:
        library.prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP
    header, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert library.capget(header, rights) == 0
    lost = sum(1 << right for right in OVER_FILES)
    for index in range(3):  # effective, permitted, inheritable
        rights[index] &= ~lost
    assert library.capset(header, rights) == 0


def _cut(mistake: Mistake, arguments: list[str]) -> int:
    """Run it with a reader that goes away after the first bytes."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        _streams(os.open(".std.in", os.O_RDONLY), ours, os.open(".std.err", os.O_WRONLY))
        _call(mistake, arguments)
    os.close(ours)
    with Path(".std.out").open("wb") as file:
        file.write(os.read(theirs, 40))
    os.close(theirs)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _on_terminal(mistake: Mistake, arguments: list[str]) -> int:
    """Run it on a terminal of its own; what it shows is kept as standard output."""
    child, ours = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        _streams(0, 1, 2)
        _call(mistake, arguments)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    if mistake.typed:
        os.write(ours, mistake.typed.encode())
    with Path(".std.out").open("wb", buffering=0) as file:
        while True:
            select.select([ours], [], [])
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            file.write(data.replace(b"\r\n", b"\n"))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
