"""The virtual engine beside pfl-research and Flower's simulation: clients a second on the same work.

Each client has 16 synthetic clips and trains the pack's plug-in on their labels, one step of plain SGD; augmentation,
judge, held-out clips and the pack's negatives are off, and the plug-in has no dropout. Log-mels, first weights,
batches, learning rate and clipping are the same for all, and so is the average by samples. No speeds are printed unless
all models agree after the first and after the third round. Each engine has an environment and processes of its own, the
same cores and one thread a process; they take turns, so that a busy machine slows all of them down. Ours also computes
the log-mels, and each client's loss of the model that it received, which it sends with its update, and checks updates
as a coordinator does. `ours, pfl's trainer` trains with PyTorch by pfl's loop.

A second table has mutual learning of `crnn-base` and the plug-in, and the engine's own time: what a round takes beyond
`Trainer.run` of the same devices in a loop, which follows each round in the same process.

    python bench/engines.py [--clients 64] [--rounds 5] [--turns 3] [--cores 1] [--only pfl] [--json]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.answer import answer
from bench.engines_process import Seen, seen_of
from bench.engines_table import own_time, report, side_of
from bench.engines_work import WATCHED, apart, prepare, require_same
from bench.step_environments import ENVIRONMENTS, FLWR, TORCH, NoEnvironment, Recipe, environment
from bench.step_process import Failed, say

ENVIRONMENTS["pfl"] = Recipe(("pfl==0.6.0", TORCH), ("3.11", "3.12", "3.10"))
ENVIRONMENTS["flwr-simulation"] = Recipe((FLWR.replace("flwr", "flwr[simulation]"), TORCH), ("3.11", "3.12", "3.13"))

PLAIN, OURS, PFL, FLOWER = "plain loop", "ours", "pfl", "Flower"
SIDES: dict[str, tuple[str | None, str, dict[str, Any]]] = {
    PLAIN: (None, "bench.engines_plain", {}),
    OURS: (None, "bench.engines_ours", {"runtime": "step"}),
    "ours, native": (None, "bench.engines_ours", {"runtime": "native"}),
    "ours, pfl's trainer": (None, "bench.engines_ours", {"runtime": "torch"}),
    PFL: ("pfl", "bench.engines_pfl", {"evaluates": False}),
    "pfl, evaluating": ("pfl", "bench.engines_pfl", {"evaluates": True}),
    FLOWER: ("flwr-simulation", "bench.engines_flwr", {}),
}
"""Environment, None for this one; program; and what it is told."""
OWN_TURNS = 2
MUTUAL = {"mode": "mutual", "local": "crnn-base", "rate": 0.01}


def measure(spec: dict[str, Any], sides: Sequence[str], given: argparse.Namespace) -> dict[str, Any]:
    """One table: all sides in turn, each turn in another order, and how far their models are from the plain loop's."""
    seen: dict[str, list[Seen]] = {}
    failed: dict[str, str] = {}
    load = []
    for turn in range(given.turns):
        order = [name for name in sides if name not in failed]
        random.Random(turn).shuffle(order)
        for name in order:
            say(f"turn {turn + 1} of {given.turns}: {name}")
            load.append(round(os.getloadavg()[0], 1))
            try:
                seen.setdefault(name, []).append(one(name, spec, given))
            except (NoEnvironment, Failed) as reason:
                failed[name] = str(reason)
                seen.pop(name, None)
    if PLAIN not in seen:
        raise Failed(f"the plain loop, to which all are compared, does not run: {failed[PLAIN]}")
    far: dict[str, dict[int, float]] = {}
    for turn in range(given.turns):
        models = {name: each[turn].models for name, each in seen.items()}
        far |= apart(models, PLAIN)
        require_same(far)
    found = {name: side_of(seen[name], spec["clients"]) for name in sides if name in seen}
    for name, by_round in far.items():
        found[name]["apart"] = max(by_round.values())
    return {"sides": found, "failed": failed, "load": [min(load), max(load)]}


def one(name: str, spec: dict[str, Any], given: argparse.Namespace) -> Seen:
    """A turn of one side."""
    kept, module, told = SIDES[name]
    python = Path(sys.executable) if kept is None else environment(kept, say)
    return seen_of(python, module, {**spec, **told}, given.used)


def measure_mutual(spec: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """The other table: each kind of learning on the virtual engine with each runtime, and its own time.

    The runtimes take turns, half of the rounds in each.
    """
    lines: dict[str, list[Seen]] = {}
    rounds = max(WATCHED) + -(-given.own // OWN_TURNS)
    for turn in range(OWN_TURNS):
        for name, told in (("supervised", {}), ("mutual", MUTUAL)):
            for runtime, title in (("step", "onnxruntime"), ("native", "native")):
                say(f"turn {turn + 1} of {OWN_TURNS}: {name}, {title}: the engine's own time")
                both = {**spec, **told, "rounds": rounds, "runtime": runtime, "alone": True}
                seen = seen_of(Path(sys.executable), "bench.engines_ours", both, given.used)
                lines.setdefault(f"{name}, {title}", []).append(seen)
    return {name: own_time(each, spec["clients"]) for name, each in lines.items()}


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; nothing is left but the environments."""
    sides = [name for name in SIDES if not given.only or name in (PLAIN, *given.only)]
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as place:
        spec = {**prepare(Path(place), given.clients), "rounds": max(WATCHED) + given.rounds, "alone": False}
        result: dict[str, Any] = {"clients": given.clients, "rounds": given.rounds, "turns": given.turns}
        result |= {"cores": len(given.used), "supervised": measure(spec, sides, given)}
        if given.own:
            result["own"] = measure_mutual(spec, given)
    return result


def arguments() -> argparse.Namespace:
    """The command line."""
    cores = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="timed, in each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--own", type=int, default=20, help="timed rounds for the engine's own time; 0: none")
    parser.add_argument("--cores", type=int, default=1, help="that each engine may use")
    parser.add_argument("--only", choices=tuple(SIDES), action="append", help=f"besides the {PLAIN}, only these")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.clients < 2 or given.rounds < 1 or given.turns < 1 or given.own < 0:
        parser.error("--clients is at least 2, --rounds and --turns are at least 1, and --own is not negative")
    if not 1 <= given.cores <= len(cores):
        parser.error(f"--cores is 1 to {len(cores)}, the cores that this process may use")
    given.used = cores[-given.cores :]
    return given


def main() -> int:
    """Measure and print."""
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
