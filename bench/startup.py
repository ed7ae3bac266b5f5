"""What commands cost before they do anything: CPU seconds of user and system, and memory at its most.

Each runs several times, the medians count. `--help` of every command is that of the table of commands; `status` is
asked of a device that listens to a FIFO, `rounds list` of a coordinator over its API and of its folder. `--run` takes a
run of one round and one of three: what both have beside their rounds is the start and the end of a run, with speech
that is synthesised. `--listen` takes the CPU time of a device on a FIFO until it says that it listens.

    python bench/startup.py [--turns 3] [--over 0.25] [--run] [--listen]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def cost(line: Sequence[str], **around: str) -> Cost:
    """Run a command to its end, whatever that is, with these variables in its environment."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    _, _, used = os.wait4(subprocess.Popen([*PROGRAM, *line], env={**os.environ, **around}, **quiet).pid, 0)
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


@contextmanager
def listening_device() -> Iterator[tuple[Path, int]]:
    """Folder and process of a new device once it listens, to a FIFO in which nothing comes."""
    with tempfile.TemporaryDirectory() as name:
        fifo, state = Path(name, "sound"), Path(name, "state")
        os.mkfifo(fifo)
        writer = os.open(fifo, os.O_RDWR)
        line = ("edge", "run", "--device", "start-up", "--state", str(state), "--source", f"fifo:{fifo}", "--json")
        with running(line) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield state, process.pid
        os.close(writer)


@contextmanager
def serving_coordinator() -> Iterator[tuple[Path, str]]:
    """Folder and address of a new coordinator with a broker of its own once it serves."""
    with tempfile.TemporaryDirectory() as name:
        line = (
            "cloud",
            "serve",
            "--fleet",
            "start-up",
            "--state",
            name,
            "--broker",
            "embedded",
            "--embedded-port",
            "0",
        )
        with running((*line, "--listen", "127.0.0.1:0", "--json")) as process:
            assert process.stdout is not None
            yield Path(name), next(page for line in process.stdout if (page := json.loads(line).get("page")))


@contextmanager
def running(line: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is ended afterwards."""
    process = subprocess.Popen([*PROGRAM, *line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def listening_cost() -> float:
    """CPU seconds of a new device until it listens."""
    with listening_device() as (_, process):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def questions(turns: int, over: float) -> None:
    """What it costs to ask a service that runs."""
    with listening_device() as (state, _):
        show(("edge", "status"), [cost(("edge", "status", "--state", str(state))) for _ in range(turns)], over)
    with serving_coordinator() as (state, page):
        line = ("cloud", "rounds", "list")
        create = [*PROGRAM, "cloud", "tokens", "create", "start-up", "--role", "viewer", "--state", str(state)]
        token = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
        asked = [cost((*line, "--server", page), AURICLE_TOKEN=token) for _ in range(turns)]
        show((*line, "--server"), asked, over)
        show((*line, "--state"), [cost((*line, "--state", str(state))) for _ in range(turns)], over)


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
    questions(told.turns, told.over)
    for words in every_command():
        show(words, [cost([*words, "--help"]) for _ in range(told.turns)], told.over)


if __name__ == "__main__":
    main()
