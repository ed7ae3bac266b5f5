"""A process that uses a clip store and says what the store has acknowledged, to be killed while it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from auricle_edge.clips.disk import Disk
from tests.edge.clip_sounds import new, store

CALLS = "write,pwrite64,fsync,fdatasync,rename,unlink,ftruncate,mkdir,chmod,fchmod"
NOT_TRACED = 77  # exit code where processes may not be traced


class Killer(Disk):
    """Ends the process without a word when a step is reached."""

    def __init__(self, at: int) -> None:
        self._at, self.steps = at, 0

    def step(self, name: str, path: Path, old: Path | None = None) -> None:
        if self.steps == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


def work(folder: Path, disk: Disk) -> None:
    """Add, relabel, delete and wipe; tell each in `acks` before it begins and when it is done."""
    with (folder / "acks").open("ab", buffering=0) as acks:

        def tell(**said: object) -> None:
            acks.write(json.dumps(said).encode() + b"\n")

        kept = store(folder, disk=disk)
        clips = []
        for seed in (1, 2, 3):
            tell(begin="add", seed=seed)
            clips.append(kept.add(new(seed)))
            tell(done="add", clip=clips[-1], seed=seed)
        tell(begin="relabel", clip=clips[0])
        kept.relabel(clips[0], "no", "confirmed")
        tell(done="relabel", clip=clips[0])
        tell(begin="delete", clip=clips[1])
        kept.delete([clips[1]])
        tell(done="delete", clip=clips[1])
        tell(begin="wipe")
        kept.wipe()
        tell(done="wipe")


def fill(folder: Path, first: int, count: int) -> None:
    """Add clips and print their ids, for a run beside others."""
    kept = store(folder, patience=60.0)
    for seed in range(first, first + count):
        print(kept.add(new(seed)), flush=True)


def steps(folder: Path) -> None:
    """Work once for each step, in processes that are killed there; print how many there are."""
    counter = Killer(-1)
    (folder / "whole").mkdir()
    work(folder / "whole", counter)
    for at in range(counter.steps):
        place = folder / str(at)
        place.mkdir()
        child = os.fork()
        if child == 0:
            work(place, Killer(at))
            os._exit(3)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"step {at} was not reached"
    print(counter.steps)


def traced(place: Path, *options: str) -> int:
    """Work in a process whose system calls strace follows; its wait status."""
    place.mkdir()
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        work(place, Disk())
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    command = ["strace", "-e", f"trace={CALLS}", *options, "-p", str(child)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        if "attached" not in tracer.stderr.readline():
            os.kill(child, signal.SIGKILL)
            sys.exit(NOT_TRACED)
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
    return status


def calls(folder: Path) -> None:
    """Work once for each system call that writes, in processes that are killed there; print how many there are."""
    log = folder / "log"
    assert traced(folder / "whole", "-o", str(log)) == 0
    names = [line.split("(")[0] for line in log.read_text().splitlines() if "(" in line]
    for number, name in enumerate(names):
        nth = names[: number + 1].count(name)
        status = traced(folder / str(number), "-o", os.devnull, "-e", f"inject={name}:signal=SIGKILL:when={nth}")
        assert os.WIFSIGNALED(status), f"{name} {nth} was not reached"
    print(len(names))


def main() -> None:
    """`steps FOLDER`, `calls FOLDER` or `fill FOLDER FIRST COUNT`."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "fill":
        fill(folder, int(sys.argv[3]), int(sys.argv[4]))
    else:
        {"steps": steps, "calls": calls}[what](folder)


if __name__ == "__main__":
    main()
