"""Aggregation rules, side by side: ours, byzfl and flwr, in one run.

Every library has an environment of its own (made once under ~/.cache/auricle/bench) and a process of its own, which
holds the same uploads in the form the library wants: a checked cohort, an array or a tensor, lists of layers. Bringing
them into that form is not timed, for nobody. All processes may use the same cores; one works at a time, and they take
turns in every round. byzfl is measured on an array and on a tensor, and the faster one counts. Where no library has a
rule, it is set against their mean, which does less, and the table says so.

Beyond the times: what becomes resident at most while a rule runs, how ours grow to 10,000 clients, and how many times
as long ours take as reading the uploads once (`read`: BLAS multiplies them with a vector, sgemv, with as many threads).

    python bench/aggregate.py [--cores 2] [--rounds 9] [--rule lpa] [--no-scaling] [--here] [--json]

`--here` measures ours alone, in this environment: with the C library, or with NumPy where the library is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.answer import answer
from bench.comparison_table import ratio, table, times
from bench.step_environments import ENVIRONMENTS, FLWR, ROOT, TORCH, NoEnvironment, Recipe, environment
from bench.step_process import say

BYZFL = "byzfl==0.0.11"
PYTHONS = ("3.11", "3.12", "3.10")
ENVIRONMENTS["byzfl"] = Recipe((TORCH, "numpy", "scipy"), PYTHONS)
SHAPES = ((50, 126_000), (1_000, 28_000))
LARGE = (10_000, 28_000)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RULES = (
    "fedavg",
    "mean",
    "fedvsa",
    "lpa",
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "geometric-median",
    "norm-clip",
)
NEAREST = {
    "fedavg": "weighted by samples, which byzfl does not",
    "mean": "fedavg, unweighted; byzfl sums in float32, ours in float64",
    "fedvsa": "no peer; against their mean",
    "lpa": "no peer; against their mean",
    "krum": "byzfl sums n-f-1 neighbours",
    "multi-krum": "byzfl averages n-f",
    "geometric-median": "3 steps, ν = 0.1; ours measures once more to say how far",
    "norm-clip": "byzfl: Clipping, then the mean",
}
PATIENCE = 5.0
"""Seconds of a call after which it is not repeated."""
PEERS = ("ours", "byzfl", "byzfl, torch", "flwr")
OURS = ("ours", "ours, numpy")
READ = "read"


class Peer:
    """A process that aggregates when it is asked to."""

    def __init__(self, python: Path, told: Mapping[str, Any], cores: list[int]) -> None:
        keep = "PYTHON" if python != Path(sys.executable) else "PYTHONHOME"
        own = {name: value for name, value in os.environ.items() if not name.startswith(keep)}
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [python, str(ROOT / "bench" / "aggregate_worker.py")],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**own, **dict.fromkeys(THREADS, str(len(cores)))},
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        try:
            self.facts = self._ask(told)
        except BaseException:
            self.close()
            raise

    def run(self, rule: str, *, memory: bool = False) -> dict[str, Any]:
        """Aggregate once; `read` only reads the uploads."""
        return self._ask({"rule": rule, "memory": memory})

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:]
            raise NoEnvironment(f"it ended with {self._process.returncode}: {' '.join(last)[:300]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def python_of(peer: str) -> Path:
    """Python of a library's environment, with byzfl put in by itself: what it needs for training is not needed."""
    if peer == "ours":
        return environment("auricle", say)
    if peer == "flwr":
        return environment("flwr", say)
    python = environment("byzfl", say)
    name, _, pinned = BYZFL.partition("==")
    has = [python, "-c", f"from importlib.metadata import version; assert version({name!r}) == {pinned!r}"]
    if subprocess.run(has, capture_output=True, check=False).returncode != 0:
        say(f"installing {BYZFL}")
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", BYZFL]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoEnvironment(f"byzfl cannot be installed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return python


@contextlib.contextmanager
def peers(names: tuple[str, ...], shape: tuple[int, int], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Processes by name, or the reason why a peer has none; they end with the block."""
    clients, size = shape
    told = {
        "clients": clients,
        "size": size,
        "attackers": clients // 10,
        "bound": round(size**0.5, 3),
        "seed": 5,
        "cores": len(given.cores),
        "rules": given.rules,
    }
    started: dict[str, Any] = {}
    try:
        for name in names:
            say(f"{clients} x {size}: {name} is made ready")
            library, _, form = name.partition(", ")
            way = {"library": library, "torch": form == "torch", "numpy": form == "numpy"}
            try:
                python = Path(sys.executable) if given.here else python_of(name)
                started[name] = Peer(python, {**told, **way}, given.cores)
            except NoEnvironment as reason:
                started[name] = str(reason)
        yield started
    finally:
        for peer in started.values():
            if isinstance(peer, Peer):
                peer.close()


def measure(shape: tuple[int, int], given: argparse.Namespace, names: tuple[str, ...] = PEERS) -> dict[str, Any]:
    """One table: every rule of every library, in turns."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {rule: {} for rule in given.rules}
    reads: list[dict[str, Any]] = []
    with peers(names, shape, given) as running:
        alive = {name: peer for name, peer in running.items() if isinstance(peer, Peer)}
        slow: set[tuple[str, str]] = set()
        for number in range(given.rounds + 1):
            say(f"{shape[0]} x {shape[1]}: round {number} of {given.rounds}")
            turns = [(rule, name) for rule in given.rules for name in alive if rule in alive[name].facts["rules"]]
            random.Random(number).shuffle(turns)
            for rule, name in turns:
                if (rule, name) in slow:
                    continue
                answer = alive[name].run(rule, memory=not number)
                if answer["seconds"] > PATIENCE:
                    slow.add((rule, name))
                rows[rule].setdefault(name, []).append(answer)
            reads.append(alive["ours"].run(READ))
        versions = {name: peer.facts["versions"] for name, peer in alive.items()}
        failed = {name: peer for name, peer in running.items() if isinstance(peer, str)}
    found = {rule: compare(by) for rule, by in rows.items()}
    return {
        "clients": shape[0],
        "size": shape[1],
        "rules": found,
        "versions": versions,
        "failed": failed,
        READ: {what: statistics.median(each[what] for each in reads[1:] or reads) for what in ("seconds", "cpu")},
    }


def compare(taken: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians, and the ratio to the faster peer with its spread over the rounds; the first round is to warm up."""
    by = {name: runs[1:] or runs for name, runs in taken.items()}
    facts: dict[str, Any] = {
        name: {
            "seconds": statistics.median(each["seconds"] for each in runs),
            "cpu": statistics.median(each["cpu"] for each in runs),
            "extra": taken[name][0]["extra"],
            "runs": len(runs),
            "sum": runs[-1]["sum"],
        }
        for name, runs in by.items()
    }
    others = [name for name in by if name != "ours"]
    if others:
        faster = min(others, key=lambda name: facts[name]["seconds"])
        own, theirs = ([[run["seconds"]] for run in by[name]] for name in ("ours", faster))
        theirs += theirs[-1:] * (len(own) - len(theirs))  # a slow one is not repeated
        facts |= {"faster": faster, "ratio": ratio(theirs[: len(own)], own)}
    return facts


def report(result: Mapping[str, Any]) -> str:
    """All tables and what is needed to read them."""
    lines = [
        f"{len(result['cores'])} cores for everybody, {result['rounds']} interleaved rounds, medians in ms; load "
        f"{result['load']}; 'ratio' is the faster peer's time by ours, above 1 ours is faster; 'extra' is what became "
        "resident at most, MB"
    ]
    for shape in result["shapes"]:
        lines += ["", f"{shape['clients']:,} clients x {shape['size']:,} float32"]
        if not result["here"]:
            header = ("rule", "ours", "byzfl", "byzfl, torch", "flwr", "ratio", "extra: ours", "faster peer", "")
            lines.append(table(header, [row_of(rule, facts) for rule, facts in shape["rules"].items()]))
        lines += [f"  {name}: {reason}" for name, reason in shape["failed"].items()]
        lines.append(reads_table(shape))
    lines.append("")
    lines += [f"  {name}: {', '.join(f'{k} {v}' for k, v in of.items())}" for name, of in shape["versions"].items()]
    if result["scaling"]:
        large = result["scaling"]
        lines += [
            "",
            f"ours for {large['clients']:,} clients x {large['size']:,} float32 ({upload_bytes(large) / 1e6:.0f} MB)",
        ]
        lines.append(
            table(
                ("rule", "ms", "extra MB"),
                [[rule, *cells(of["ours"])] for rule, of in large["rules"].items() if "ours" in of],
            )
        )
        lines.append(reads_table(large))
        lines.append("  Krum and Multi-Krum keep all K x K distances and are left out")
    return "\n".join(lines)


def cells(facts: Mapping[str, Any]) -> list[str]:
    return [f"{1e3 * facts['seconds']:.1f}", f"{facts['extra'] / 1e6:.0f}"]


def row_of(rule: str, facts: Mapping[str, Any]) -> list[str]:
    """A rule's row."""
    seconds = [f"{1e3 * facts[name]['seconds']:.1f}" if name in facts else "-" for name in PEERS]
    if "ratio" not in facts:
        return [rule, *seconds, "-", cells(facts["ours"])[1], "-", NEAREST.get(rule, "")]
    extra = (cells(facts[name])[1] for name in ("ours", facts["faster"]))
    return [rule, *seconds, times(facts["ratio"]), *extra, NEAREST.get(rule, "")]


def upload_bytes(shape: Mapping[str, Any]) -> int:
    """Bytes of all uploads."""
    return int(4 * shape["clients"] * shape["size"])


def reads_table(shape: Mapping[str, Any]) -> str:
    """How long ours take beside reading the uploads once: of the clock, and of the cores."""
    read = shape[READ]
    speed = upload_bytes(shape) / read["seconds"] / 1e9
    rows = [
        [rule, name, f"{1e3 * facts['seconds']:.1f}", f"{1e3 * facts['cpu']:.1f}"]
        + [f"{facts[what] / read[what]:.2f}" for what in ("seconds", "cpu")]
        for rule, by in shape["rules"].items()
        for name, facts in by.items()
        if name in OURS
    ]
    taken = [f"{1e3 * read[what]:.1f}" for what in ("seconds", "cpu")]
    rows.insert(0, [READ, f"sgemv, {speed:.1f} GB/s", *taken, "", ""])
    return table(("rule", "", "ms", "CPU ms", "reads", "CPU, reads"), rows)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usable = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cores", type=int, default=len(usable), help="how many everybody may use")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rule", choices=RULES, action="append", help="only these")
    parser.add_argument("--no-scaling", action="store_true", help="without the 10,000 clients")
    parser.add_argument("--here", action="store_true", help="ours alone, with the Python that runs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1 or not 1 <= given.cores <= len(usable):
        parser.error("--rounds has to be at least 1, and --cores between 1 and the cores that this process may use")
    given.cores, given.rules = usable[-given.cores :], list(given.rule or RULES)
    return given


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; nothing is left but the environments."""
    load = [round(value, 2) for value in os.getloadavg()]
    shapes = [measure(shape, given, OURS if given.here else PEERS) for shape in SHAPES]
    scaling: dict[str, Any] | None = None
    if not given.no_scaling:
        few = argparse.Namespace(**{**vars(given), "rounds": min(3, given.rounds)})
        few.rules = [rule for rule in given.rules if "krum" not in rule]
        scaling = measure(LARGE, few, OURS if given.here else ("ours",)) if few.rules else None
    return {
        "cores": given.cores,
        "rounds": given.rounds,
        "load": load,
        "here": given.here,
        "shapes": shapes,
        "scaling": scaling,
        "pins": [BYZFL, FLWR, TORCH],
    }


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
