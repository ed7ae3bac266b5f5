"""A fleet of four devices beside Flower's: seconds a round, what a death costs, and memory, in one run.

Ours: `auricle cloud serve`, mosquitto and four `auricle edge run --data` on a few synthetic clips. Flower:
`flower-superlink --database`, four `flower-supernode` and an app that `flwr run` submits, in an environment of its own
(made once under ~/.cache/auricle/bench). Both have the settings they come with, a model of 28,000 float32, and all
processes on loopback. Ours train for real, and tell how long; Flower's add one to every weight.

A device or a server dies in the middle of a round: as a round begins one device is stopped (SIGSTOP), so that the round
cannot close; one second later comes the SIGKILL, and a device that was only stopped goes on. A dead server is started
again at once, on its database. Where a run does not survive that, it is submitted again.

    python bench/flower.py [--rounds 12] [--deaths 3] [--patience 150] [--only ours|flower] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.answer import answer
from bench.comparison_table import table
from bench.flower_fleets import DEVICES, Closed, Fleet
from bench.flower_ours import Ours
from bench.flower_peer import Flower
from bench.flower_processes import resident, wait_for
from bench.step_environments import FLWR, environment
from bench.step_process import Failed, say

LONGEST = 300.0
"""Seconds a round may take where nothing dies."""
INTO = 1.0
"""Seconds into a round at which something dies."""
SETTLE = 5.0
"""Seconds of rest before memory is read."""
LAST = DEVICES - 1


def write_speech(folder: Path) -> None:
    """Four speakers say four words once each."""
    import soundfile

    from auricle.speech.synthesis import SynthesisSettings, synthesise

    speech = synthesise(SynthesisSettings(words="yes,no,up,down", speakers=DEVICES, takes=1))
    for i, (target, speaker) in enumerate(zip(speech.targets, speech.speakers, strict=True)):
        (folder / speech.labels[target]).mkdir(parents=True, exist_ok=True)
        name = f"{speech.speaker_names[speaker]}_nohash_{i}.wav"
        soundfile.write(folder / speech.labels[target] / name, speech.audio[i], 16000)


async def round_after(fleet: Fleet, number: int, seconds: float = LONGEST) -> Closed:
    """Wait for the close of the round of this number, counted from 0."""

    def look() -> Closed | None:
        closed = fleet.closed()
        return closed[number] if len(closed) > number else None

    return await wait_for(look, f"round {number + 1} of {fleet.name}", seconds)


async def measure_rounds(fleet: Fleet, rounds: int) -> dict[str, Any]:
    """Seconds from a close to the next one; then memory at rest."""
    say(f"{fleet.name}: {rounds} rounds")
    await fleet.begin(rounds + 1)
    await round_after(fleet, rounds, LONGEST * rounds)
    closed = fleet.closed()
    await asyncio.sleep(SETTLE)
    return {
        "round": [after.at - before.at for before, after in pairwise(closed)],
        "training": [each.training for each in closed[1:]],
        "counted": [each.counted for each in closed],
        "device_mb": [resident(fleet.device(i)) for i in range(DEVICES)],
        "server_mb": resident(fleet.server()),
        "processes": {"device": len(fleet.device(0)), "server": len(fleet.server())},
    }


async def kill_a_device(fleet: Fleet) -> dict[str, float]:
    """Seconds of the round in which a device died, and of the next one; the device is started again afterwards."""
    say(f"{fleet.name}: a device dies")
    await fleet.begin(3)
    before = await round_after(fleet, 0)
    fleet.processes.signal(signal.SIGSTOP, fleet.device(LAST))
    await asyncio.sleep(INTO)
    fleet.processes.signal(signal.SIGKILL, fleet.device(LAST))
    hit, after = await round_after(fleet, 1), await round_after(fleet, 2)
    await fleet.start_device(LAST)
    if hit.counted == DEVICES:
        say(f"{fleet.name}: it had answered before it was stopped; once more")
        return await kill_a_device(fleet)
    return {"round": hit.at - before.at, "counted": hit.counted, "next": after.at - hit.at}


async def kill_the_server(fleet: Fleet, patience: float, *, everything: bool) -> dict[str, Any]:
    """What becomes of a run whose server died and was started again."""
    say(f"{fleet.name}: {'all of the server' if everything else 'the main server process'} dies")
    await fleet.begin(4)
    await round_after(fleet, 0)
    fleet.processes.signal(signal.SIGSTOP, fleet.device(LAST))
    await asyncio.sleep(INTO)
    fleet.kill_server(everything=everything)
    began, done = time.time(), len(fleet.closed())
    fleet.processes.signal(signal.SIGCONT, fleet.device(LAST))
    await fleet.start_server()
    result: dict[str, Any] = {"restart": time.time() - began}
    try:
        after = await _next_round(fleet, done, patience)
        return {**result, "goes_on": True, "seconds": after.at - began, "model_kept": after.goes_on}
    except Failed as reason:
        result |= {"goes_on": False, "model_kept": False, "why": str(reason), "noticed": time.time() - began}
    asked = time.time()
    await fleet.begin(1)
    again = await round_after(fleet, 0)
    return {**result, "submitted_again": again.at - asked}


async def _next_round(fleet: Fleet, done: int, patience: float) -> Closed:
    """Wait for one more round, in vain if the run is declared over."""
    until, state = time.time() + patience, "never asked"
    while time.time() < until:
        try:
            return await round_after(fleet, done, 5.0)
        except Failed:
            pass
        try:
            state = await fleet.state()
        except Failed as reason:
            state = str(reason)
        if state.startswith(("finished", "aborted")):
            raise Failed(f'the run is "{state}"')
    raise Failed(f'no round closed in {patience:.0f} s, and the run is "{state}"')


@asynccontextmanager
async def opened(make: Any) -> AsyncIterator[Fleet]:
    """A fleet that is there; all its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as folder:
        fleet: Fleet = make(Path(folder) / "fleet")
        say(f"{fleet.name}: starting")
        try:
            await fleet.open()
            yield fleet
        finally:
            await fleet.close()


async def measure(make: Any, given: argparse.Namespace) -> dict[str, Any]:
    """All that is measured of one side; a fleet of its own for every death of a server."""
    async with opened(make) as fleet:
        facts = await measure_rounds(fleet, given.rounds)
        facts["device_killed"] = [await kill_a_device(fleet) for _ in range(given.deaths)]
    for name, everything in (("server_killed", True), ("main_killed", False)):
        async with opened(make) as fleet:
            facts[name] = await kill_the_server(fleet, given.patience, everything=everything)
    return facts


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure both sides, one after the other."""
    result: dict[str, Any] = {"load": [os.getloadavg()[0]], "cores": len(os.sched_getaffinity(0)), "peer": FLWR}
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as folder:
        if given.only != "flower":
            speech = Path(folder) / "speech"
            write_speech(speech)
            result["ours"] = await measure(lambda place: Ours(place, speech), given)
            result["load"].append(os.getloadavg()[0])
        if given.only != "ours":
            python = environment("flwr", say)
            result["flower"] = await measure(lambda place: Flower(place, python), given)
            result["load"].append(os.getloadavg()[0])
    return result


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, least and most."""
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def times_as_much(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Flower's median by ours, and the widest that least and most allow."""
    if not ours or not theirs or min(ours) <= 0:
        return "-"
    middle = statistics.median(theirs) / statistics.median(ours)
    return f"{middle:.1f} ({min(theirs) / max(ours):.1f}-{max(theirs) / min(ours):.1f})"


def numbers(facts: Mapping[str, Any]) -> dict[str, list[float]]:
    """What is a number, by the words of its row."""
    found: dict[str, list[float]] = {
        "seconds a round": facts["round"],
        "  of it, slowest device's training": facts["training"],
        "seconds of a round, device killed in it": [each["round"] for each in facts["device_killed"]],
        "  of the round after that": [each["next"] for each in facts["device_killed"]],
        "MB (PSS) of an idle device": facts["device_mb"],
        "MB (PSS) of the idle server": [facts["server_mb"]],
    }
    for name, words in (("server_killed", "whole server"), ("main_killed", "main server process")):
        fate = facts[name]
        seconds = fate.get("seconds")
        found[f"{words} killed: seconds to the next close"] = [] if seconds is None else [seconds]
    return found


def report(result: Mapping[str, Any]) -> str:
    """One table and what it does not say."""
    sides = {name: numbers(result[name]) for name in ("ours", "flower") if name in result}
    rows = []
    for words in next(iter(sides.values())):
        ours, theirs = (sides.get(name, {}).get(words, []) for name in ("ours", "flower"))
        if words.endswith("training"):
            theirs = []
        rows.append([words, spread(ours), spread(theirs), times_as_much(ours, theirs)])
    load = ", ".join(f"{value:.1f}" for value in result["load"])
    lines = [
        f"{DEVICES} devices, {result['cores']} cores, {result['peer']}; load before, between and after: {load}; median "
        "(least-most); 'ratio' is Flower's by ours, above 1 ours is less",
        table(("", "ours", "flower", "ratio"), rows),
    ]
    for name in sides:
        for key, words in (("server_killed", "whole server killed"), ("main_killed", "main server process killed")):
            fate = result[name][key]
            kept = "the model is kept" if fate["model_kept"] else "the model is lost"
            tail = (
                "the run goes on"
                if fate["goes_on"]
                else (
                    f"the run does not go on ({fate['why']}, known after {fate['noticed']:.0f} s); submitted again, "
                    f"its first round closes {fate['submitted_again']:.1f} s later"
                )
            )
            lines.append(f"  {name}, {words}: {tail}; {kept}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--deaths", type=int, default=3, help="of a device, one after the other")
    parser.add_argument("--patience", type=float, default=150.0, help="seconds to wait for a run whose server died")
    parser.add_argument("--only", choices=("ours", "flower"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1 or given.deaths < 1 or given.patience <= 0:
        parser.error("--rounds and --deaths are at least 1, and --patience is above 0")
    return given


def main() -> int:
    """Measure and print."""
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return answer(lambda: asyncio.run(run(given)), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
