"""What a training step of one plug-in costs beside another's, and what each uploads after a round.

Packs are put side by side, the first is what the others are compared with. Each step is the pack's own graph on stock
onnxruntime, one thread, in a process pinned to one core; the processes take turns in blocks of steps. `supervised` is
the plug-in alone, `mutual` the plug-in with the device's own model, as a round of the practical preset has it. The
upload is what a device sends: a signed update with the plug-in's weights, in as many frames as it takes.

    python bench/step_plugins.py [--pack gsc12 --pack gsc12-res] [--optimizer sgd] [--rounds 15] [--steps 40] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from auricle.packs.pack import Pack, load_pack
from auricle.wire.frames import Topics, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Update
from auricle.wire.tensors import digest, encode
from auricle_edge.fleet.update_delivery import Pending
from auricle_edge.training.own_model import own_model
from bench.answer import answer
from bench.comparison_table import ratio, table, times
from bench.step import RATE, prepare, take_turns
from bench.step_process import Worker, alone, workers
from bench.step_table import QUIET, Series

KINDS = ("supervised", "mutual")
CODECS = ("float32", "float16")


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds of a step, and what an upload has."""

    kind: str
    pack: str
    models: str
    weights: int
    """Of the plug-in."""
    wall: float
    """Median."""
    p10: float
    p90: float
    cpu: float
    busy: float
    """CPU time by wall time."""
    times: dict[str, float] | None
    """CPU time by that of the first pack, round by round; None of the first."""


class Result(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    optimizer: str
    rounds: int
    steps: int
    load: tuple[float, ...]
    """Of the machine, before."""
    costs: tuple[Cost, ...]
    uploads: dict[str, dict[str, int]]
    """Bytes by pack, then by codec."""


def roles_of(pack: Pack, kind: str) -> dict[str, str]:
    """The models of a step, by their role."""
    plugin = pack.manifest.plugin
    return {"model": plugin} if kind == "supervised" else {"local": own_model(pack), "plugin": plugin}


def upload_bytes(pack: Pack, codec: str) -> int:
    """Bytes of the frames in which a device sends its plug-in after a round."""
    body, identity = encode(pack.plugin_table.initial(0), codec), Identity.create()
    update = Update(
        fleet="fleet",
        device="device",
        boot="0" * 16,
        task="keywords",
        round=1,
        attempt=1,
        epoch=1,
        base=digest(body),
        body=digest(body),
        length=len(body),
        codec=codec,
        samples=50,
        loss=1.0,
    )
    topic = Topics("fleet").up("device", "upd")
    return sum(len(seal(identity, topic, part, piece)) for part, piece in Pending(update, body).parts())


def measure(packs: Sequence[Pack], kind: str, given: argparse.Namespace, folder: Path) -> list[Cost]:
    """The steps of all packs, in turns; the first round is to warm up."""
    active: dict[str, Worker] = {}
    with workers() as running:
        for number, pack in enumerate(packs):
            inside = folder / f"{kind}.{number}"
            inside.mkdir()
            spec = inside / "spec.json"
            told = prepare(inside, pack, kind, given.optimizer, roles_of(pack, kind))
            spec.write_text(json.dumps({**told, "mode": "bare"}))
            active[inside.name] = Worker(Path(sys.executable), "bench.step_ours", spec, given.core)
            running.append(active[inside.name])
        found = {name: Series() for name in active}
        take_turns(kind, active, found, given)
    series = list(found.values())
    return [_cost(kind, pack, seen, series[0]) for pack, seen in zip(packs, series, strict=True)]


def _cost(kind: str, pack: Pack, seen: Series, first: Series) -> Cost:
    facts = seen.facts()
    return Cost(
        kind,
        pack.manifest.name,
        " + ".join(roles_of(pack, kind).values()),
        pack.plugin_table.size,
        1e3 * facts["seconds"],
        1e3 * facts["p10"],
        1e3 * facts["p90"],
        1e3 * facts["cpu_seconds"],
        facts["busy"],
        None if seen is first else ratio(seen.cpu, first.cpu),
    )


def report(result: Result) -> str:
    """A table for each kind of step, and the uploads; at most 80 columns."""
    lines = [
        f"batch 16, {result.optimizer}, one thread, {result.rounds} rounds of {result.steps} steps in turns; "
        f"load {result.load[0]:.2f}"
    ]
    if min(cost.busy for cost in result.costs) < QUIET:
        lines.append("Other programs held the core for part of the time: go by the CPU time.")
    for kind in dict.fromkeys(cost.kind for cost in result.costs):
        rows = [_row(cost) for cost in result.costs if cost.kind == kind]
        lines += ["", table((f"{kind}, ms a step", "wall", "p10-p90", "CPU", "x the first (range)"), rows)]
    rows = [[name, *(f"{found[codec]:,}" for codec in CODECS)] for name, found in result.uploads.items()]
    return "\n".join([*lines, "", table(("bytes of an upload", *CODECS), rows)])


def _row(cost: Cost) -> list[str]:
    ratios = "1" if cost.times is None else times(cost.times)
    return [cost.models, f"{cost.wall:.2f}", f"{cost.p10:.2f}-{cost.p90:.2f}", f"{cost.cpu:.2f}", ratios]


def run(given: argparse.Namespace) -> Result:
    """Measure everything; nothing is left behind."""
    packs = [load_pack(name) for name in given.pack]
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as name, alone(given.lock):
        load = os.getloadavg()
        costs = [cost for kind in KINDS for cost in measure(packs, kind, given, Path(name))]
    uploads = {
        f"{pack.manifest.name}: {pack.manifest.plugin}, {pack.plugin_table.size:,} weights": {
            codec: upload_bytes(pack, codec) for codec in CODECS
        }
        for pack in packs
    }
    return Result(given.optimizer, given.rounds, given.steps, load, tuple(costs), uploads)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="append", help="name, folder or .tar.zst; several times")
    parser.add_argument("--optimizer", choices=tuple(RATE), default="sgd")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40, help="of a block")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to which all are pinned")
    parser.add_argument("--lock", type=Path, help="file that is locked while time is measured")
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(given)
    found.pack = found.pack or ["gsc12", "gsc12-res"]
    if found.rounds < 1 or found.steps < 2 or found.core not in os.sched_getaffinity(0):
        parser.error("--rounds has to be at least 1, --steps at least 2, and --core one that this process may use")
    return found


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
