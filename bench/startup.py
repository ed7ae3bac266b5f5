"""What commands cost before they do anything: CPU seconds of user and system, and memory at its most.

Each runs several times, the medians count. `--help` of every command is that of the table of commands; `status` is
asked of a folder without a service, `rounds list` of one without a coordinator: both end with 2. `--run` takes a run of
one round and one of three: what both have beside their rounds is the start and the end of a run, with speech that is
synthesised. `--listen` starts a device on a FIFO and takes the CPU time until it says that it listens.

    python bench/startup.py [--turns 3] [--over 0.25] [--run] [--listen]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

PROGRAM = (sys.executable, "-m", "auricle")
LISTED = """
import typer
from auricle.process.cli import PARTS, build_app

def below(path, command):
    print(*path)
    for name, each in getattr(command, "commands", {}).items():
        below((*path, name), each)

for part in PARTS:
    below((part,), typer.main.get_command(build_app(part)).commands[part])
"""
"""Prints the words of every group and command; in a process of its own, as what starts a process lends it its size."""


class Cost(NamedTuple):
    """Of a command and what it started."""

    seconds: float
    """Of CPU."""
    megabytes: float
    """Of the command itself, at its most."""


def cost(line: Sequence[str]) -> Cost:
    """Run a command to its end, whatever that is."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    _, _, used = os.wait4(subprocess.Popen([*PROGRAM, *line], **quiet).pid, 0)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def every_command() -> Iterator[tuple[str, ...]]:
    """The words of every group and command."""
    lines = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True).stdout
    return (tuple(line.split()) for line in lines.splitlines())


def show(line: Sequence[str], costs: Sequence[Cost], over: float = 0.0) -> None:
    """Print the medians of a command, where they are at least `over` seconds."""
    seconds, megabytes = (median(column) for column in zip(*costs, strict=True))
    if seconds >= over:
        print(f"{seconds:7.2f} s {megabytes:5.0f} MB  {' '.join(line)}", flush=True)


def run_costs(turns: int) -> None:
    """What a run has beside its rounds."""
    found: dict[int, list[float]] = {1: [], 3: []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            for rounds, costs in found.items():
                line = ("fleet", "run", "--rounds", str(rounds), "--out", f"{folder}/{turn}-{rounds}")
                costs.append(cost(line).seconds)
    one, three = (median(costs) for costs in found.values())
    print(f"{one - (three - one) / 2:7.2f} s  of a run beside its rounds, {(three - one) / 2:.2f} s a round")


def listening_cost() -> float:
    """CPU seconds of a new device until it listens."""
    with tempfile.TemporaryDirectory() as name:
        fifo = Path(name, "sound")
        os.mkfifo(fifo)
        writer = os.open(fifo, os.O_RDWR)
        line = ("edge", "run", "--device", "start-up", "--state", f"{name}/state", "--source", f"fifo:{fifo}", "--json")
        process = subprocess.Popen([*PROGRAM, *line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        process.stdout.readline()
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        process.terminate()
        process.wait()
        os.close(writer)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--over", type=float, default=0.0, help="leave out commands that take less")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--listen", action="store_true")
    told = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {told.turns} turns")
    if told.run:
        run_costs(told.turns)
    if told.listen:
        print(f"{median(listening_cost() for _ in range(told.turns)):7.2f} s  until a device listens")
    if told.run or told.listen:
        return
    with tempfile.TemporaryDirectory() as folder:
        for line in (("edge", "status", "--state", folder), ("cloud", "rounds", "list", "--state", folder)):
            show(line[:-1], [cost(line) for _ in range(told.turns)], told.over)
    for words in every_command():
        show(words, [cost([*words, "--help"]) for _ in range(told.turns)], told.over)


if __name__ == "__main__":
    main()
