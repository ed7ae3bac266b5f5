"""Our fleet, Flower's and NVFlare's under the same faults, in one run: who loses what, and what a person has to do.

Four clients as processes on loopback, each with the same few lines of numpy (`bench/reliability_task.py`): client k
adds a step to its own quarter of 26,442 float32, so that a model tells which updates are in it. Ours: `auricle cloud
serve`, mosquitto, and agents. Flower: SuperLink with a database, SuperNodes, an app with a timeout that saves its
model. NVFlare: a provisioned server and sites, a job of ScatterAndGather with `min_clients` and
`wait_time_after_min_received`. Both peers are in environments of their own (made once under ~/.cache/auricle/bench).

    python bench/reliability_peers.py [--rounds 400] [--minutes 60] [--patience 150] [--only SIDE ...] [--parts P ...]
        [--keep FILE] [--json]

A client is held in its training and killed (SIGKILL) there; all processes of a server are killed with two updates of a
round acknowledged and two clients in training, and started again at once, on what they left on disk; a client sends
no numbers, numbers far from any model's, or steps a hundred times too large, under the mean and under what a side has
against that; and a server's memory, files and threads are followed over rounds of two clients.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.answer import answer
from bench.flower_processes import wait_for
from bench.reliability_fleets import Watched, counted, is_harmed, is_mean
from bench.reliability_flower import FlowerWatched
from bench.reliability_memory import FEWEST, WARM, memory
from bench.reliability_nvflare import Nvflare
from bench.reliability_ours import OursWatched
from bench.reliability_table import report
from bench.reliability_task import ADDED, CLIENTS
from bench.step_environments import ENVIRONMENTS, Recipe, environment
from bench.step_process import Failed, say

ENVIRONMENTS["nvflare"] = Recipe(("nvflare==2.9.0",), ("3.11", "3.12", "3.10"))
PARTS = ("client", "server", "mean", "robust", "memory")
SIDES = ("ours", "flower", "nvflare")
LONGEST = 240.0
"""Seconds for what nothing disturbs."""
LAST = CLIENTS - 1
OVER = ("finished", "aborted", "abandoned", "failed")
"""How the words for a run begin that is over."""
Make = Callable[[Path, int], Watched]


async def rounds_made(fleet: Watched, count: int, seconds: float = LONGEST) -> None:
    """Wait until so many rounds have made their model."""
    await wait_for(lambda: fleet.done() >= count or None, f"round {count} of {fleet.name}", seconds)


async def state_of(fleet: Watched) -> str:
    """The word that a side has for the state of its run."""
    try:
        return await fleet.state()
    except Failed as reason:
        return f"no answer ({reason})"


async def ended(fleet: Watched, seconds: float) -> str:
    """Wait for the end of a run; the last word for its state."""
    until, state = time.monotonic() + seconds, ""
    while time.monotonic() < until:
        state = await state_of(fleet)
        if state.startswith(OVER):
            break
        await asyncio.sleep(0.5)
    return state


async def lose_a_client(fleet: Watched, patience: float) -> dict[str, Any]:
    """What becomes of a run of three rounds in whose second one a client dies that does not come back."""
    say(f"{fleet.name}: a client dies")
    fleet.hold(LAST, after=1)
    await fleet.begin(3)
    await rounds_made(fleet, 1)
    await wait_for(lambda: fleet.held(LAST), "a client in training", LONGEST)
    fleet.processes.signal(signal.SIGKILL, fleet.device(LAST))
    died = time.time()
    fleet.let_go()
    state = await ended(fleet, patience)
    closed = fleet.closed()
    hit = closed[1] if len(closed) > 1 else None
    result = {
        "state": state,
        "end": time.time() - died,
        "ends": state.startswith("finished"),
        "rounds": len(closed),
        "seconds": None if hit is None else hit.at - died,
        "counted": None if hit is None else hit.counted,
        "mean": bool(closed) and all(each.goes_on for each in closed),
    }
    say(f"{fleet.name}: the client starts again")
    await fleet.start_device(LAST)
    await fleet.begin(1)
    await rounds_made(fleet, 1)
    return {**result, "back": fleet.closed()[0].counted == CLIENTS}


async def kill_the_server(fleet: Watched, patience: float) -> dict[str, Any]:
    """What becomes of a run of three rounds in whose second one all of the server dies and is started again."""
    say(f"{fleet.name}: the server dies")
    fleet.hold(LAST - 1, LAST, after=1)
    await fleet.begin(3)
    await wait_for(lambda: fleet.held(LAST - 1, LAST), "two clients in training", LONGEST)
    await wait_for(lambda: fleet.taken() == CLIENTS - 2 or None, "two acknowledged updates", LONGEST)
    before = fleet.models()
    fleet.kill_server(everything=True)
    died = time.time()
    await fleet.start_server()
    fleet.let_go()
    until, state = time.monotonic() + patience, ""
    while time.monotonic() < until and fleet.done() < len(before):
        state = await state_of(fleet)
        if state.startswith(OVER):
            break
        await asyncio.sleep(0.2)
    models = fleet.models()
    result: dict[str, Any] = {"state": state, "waited": time.time() - died, "lost": CLIENTS - 2}
    if len(models) > len(before):
        old, new = models[len(before) - 1 : len(before) + 1]
        lost = len({*range(CLIENTS - 2)} - {*counted(old, new)})
        went = {"goes_on": True, "seconds": new.at - died, "kept": is_mean(old, new), "lost": lost}
        state = await ended(fleet, patience)
        return {**result, **went, "state": state, "rounds": fleet.done()}
    say(f"{fleet.name}: the run is submitted again")
    asked = time.time()
    await fleet.begin(1)
    await rounds_made(fleet, 1)
    again = fleet.models()
    same = max(abs(a - b) for a, b in zip(again[0].quarters, before[-1].quarters, strict=True)) == 0.0
    return {**result, "goes_on": False, "again": time.time() - asked, "kept": same}


async def attacked(fleet: Watched, rule: str, patience: float) -> list[dict[str, Any]]:
    """What a client that attacks makes of a model under a rule; nothing where a side has none."""
    found = []
    await fleet.choose(rule)
    for attack in ADDED if rule else ():
        say(f"{fleet.name}: {attack} under {rule}")
        fleet.forget()
        fleet.path("attack").write_text(attack)
        since = fleet.log_length()
        await fleet.begin(1)
        state = await ended(fleet, patience)
        fleet.path("attack").unlink()
        models = fleet.models()
        told = {"attack": attack, "state": state, "made": len(models) > 1}
        if len(models) > 1:
            finite = all(map(math.isfinite, models[-1].quarters))
            harmed = is_harmed(models[-2], models[-1])
            off = max(abs(b - a) for a, b in zip(models[-2].quarters, models[-1].quarters, strict=True))
            told |= {"finite": finite, "harmed": harmed, "off": off if finite else None}
        found.append({**told, "said": await fleet.said(since)})
    return found


@asynccontextmanager
async def opened(make: Make, devices: int = CLIENTS) -> AsyncIterator[Watched]:
    """A fleet that is there; all its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as folder:
        fleet = make(Path(folder) / "fleet", devices)
        say(f"{fleet.name}: starting")
        try:
            await fleet.open()
            yield fleet
        finally:
            await fleet.close()


async def measure(part: str, make: Make, given: argparse.Namespace) -> dict[str, Any]:
    """One part of one side; what does not come about is told in its place."""
    parts: dict[str, tuple[int, Callable[[Watched], Any]]] = {
        "client": (CLIENTS, lambda fleet: lose_a_client(fleet, given.patience)),
        "server": (CLIENTS, lambda fleet: kill_the_server(fleet, given.patience)),
        "mean": (CLIENTS, lambda fleet: attacked(fleet, fleet.rules[0], given.patience)),
        "robust": (CLIENTS, lambda fleet: attacked(fleet, fleet.rules[1], given.patience)),
        "memory": (2, lambda fleet: memory(fleet, given.rounds, given.minutes)),
    }
    devices, measured = parts[part]
    try:
        async with opened(make, devices) as fleet:
            facts = {"title": fleet.title, "again": fleet.again, "rules": fleet.rules}
            return {**facts, part: await measured(fleet)}
    except Failed as reason:
        say(f"{part}: {reason}")
        return {part: {"failed": str(reason)}}


def sides(only: Sequence[str]) -> Mapping[str, Make]:
    """How to make each side's fleet."""
    made: dict[str, Make] = {}
    if "ours" in only:
        made["ours"] = OursWatched
    if "flower" in only:
        flower = environment("flwr", say)
        made["flower"] = lambda folder, devices: FlowerWatched(folder, flower, devices)
    if "nvflare" in only:
        nvflare = environment("nvflare", say)
        made["nvflare"] = lambda folder, devices: Nvflare(folder, nvflare, devices)
    return made


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """Part by part, each of all sides one after the other, but for what the file to keep has."""
    result: dict[str, Any] = {"load": [], "cores": len(os.sched_getaffinity(0)), "sides": {}}
    if given.keep and given.keep.exists():
        result = json.loads(given.keep.read_text())
    made = sides(given.only)
    for part in given.parts:
        for name, make in made.items():
            facts = result["sides"].setdefault(name, {})
            if part in facts:
                continue
            result["load"].append(os.getloadavg()[0])
            facts |= await measure(part, make, given)
            if given.keep:
                given.keep.write_text(json.dumps(result))
    return result


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400, help="for memory")
    parser.add_argument("--minutes", type=float, default=60.0, help="a side may take for these")
    parser.add_argument(
        "--patience", type=float, default=150.0, help="seconds to wait for a run that something happened to"
    )
    parser.add_argument("--only", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of what was measured; a run that was ended goes on")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < WARM + FEWEST or given.minutes <= 0 or given.patience <= 0:
        parser.error(f"--rounds is at least {WARM + FEWEST}, and --minutes and --patience are above 0")
    return given


def main() -> int:
    """Measure and print."""
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return answer(lambda: asyncio.run(run(given)), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
