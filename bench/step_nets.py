"""A training step of networks that were not written for this project: native, onnxruntime and PyTorch eager.

The shipped residual network, a depthwise one (DS-CNN), BC-ResNet and a small transformer. Each process has the same
initial weights and batches of 16, is pinned to one core with one thread, and they take turns in blocks of steps.
Batch normalisation is frozen in all; masks of dropout are each one's own.

    python bench/step_nets.py [--net ds-cnn] [--rounds 5] [--steps 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.pack import Pack, load_pack, pack_bytes
from bench.answer import answer
from bench.comparison_table import ratio, table, times
from bench.step import prepare, take_turns
from bench.step_process import Worker, say, workers
from bench.step_table import Series
from bench.step_torch import fastest, train_step
from bench.step_worker import Facts, Step, memory, serve

NETS = ("resnet-lite", "ds-cnn", "bc-resnet", "transformer")
LABELS = tuple(f"word {number}" for number in range(12))
PEERS = ("onnxruntime", "native", "PyTorch eager")
OPTIMIZER = "adamw"


def module_of(net: str) -> Any:
    """The network as a PyTorch module, always the same weights."""
    import torch

    torch.manual_seed(0)
    if net == "resnet-lite":
        from auricle_export.packs.models import make_module

        return make_module(net, len(LABELS))
    from bench.strangers import NETS as STRANGERS

    return STRANGERS[net][0](len(LABELS))


def pack_of(net: str) -> tuple[Pack, str]:
    """A pack with the network's step graph, and its name there."""
    if net == "resnet-lite":
        return load_pack("gsc12-res"), net
    from bench.strangers import compiled

    return compiled(module_of(net), LABELS)[0], "net"


def eager(spec: Facts) -> tuple[Step, Facts]:
    """The step as a PyTorch user writes it."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    module, data = module_of(spec["net"]).train(), np.load(spec["data"])
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.eval()
    batches = [
        (torch.from_numpy(x), torch.from_numpy(y.argmax(1))) for x, y in zip(data["x"], data["target"], strict=True)
    ]
    how = fastest(torch, {"model": module}, batches, spec)
    return train_step(torch, {"model": module}, batches, spec, how), {"imported": memory(), "with": how}


def measure(net: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """CPU time of a step by peer, and by onnxruntime's in the same round."""
    say(f"{net}: its graphs are made")
    pack, model = pack_of(net)
    (folder / "pack.tar.zst").write_bytes(pack_bytes(pack))
    spec = prepare(folder, pack, "supervised", OPTIMIZER, {"model": model})
    active: dict[str, Worker] = {}
    with workers() as running:
        for peer in PEERS:
            path = folder / f"{len(active)}.json"
            path.write_text(json.dumps({**spec, "net": net, "mode": {PEERS[0]: "bare"}.get(peer, peer)}))
            own = peer == "PyTorch eager"
            paths = tuple(Path(entry) for entry in sys.path if entry)
            active[peer] = Worker(
                Path(sys.executable), "bench.step_nets" if own else "bench.step_ours", path, given.core, paths
            )
            running.append(active[peer])
        found = {peer: Series() for peer in PEERS}
        take_turns(net, active, found, given)
    facts = {peer: series.facts() for peer, series in found.items()}
    return {
        "net": net,
        "weights": pack.table(model).size,
        "wall": {peer: 1e3 * each["seconds"] for peer, each in facts.items()},
        "cpu": {peer: 1e3 * each["cpu_seconds"] for peer, each in facts.items()},
        "ratio": {peer: ratio(found["native"].cpu, found[peer].cpu) for peer in PEERS if peer != "native"},
    }


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure every network."""
    load, rows = [round(value, 2) for value in os.getloadavg()], []
    for net in given.net or NETS:
        with tempfile.TemporaryDirectory(prefix="auricle-bench-") as name:
            rows.append(measure(net, given, Path(name)))
    return {"rounds": given.rounds, "steps": given.steps, "load": load, "nets": rows}


def report(result: dict[str, Any]) -> str:
    """One table."""
    rows = [
        [
            f"{row['net']}, {row['weights']:,} weights",
            *(f"{row['cpu'][peer]:.2f} ({row['wall'][peer]:.2f})" for peer in PEERS),
            *(times(row["ratio"][peer]) for peer in (PEERS[0], PEERS[2])),
        ]
        for row in result["nets"]
    ]
    header = ("ms a step, CPU (wall)", *PEERS, f"native by {PEERS[0]}", f"by {PEERS[2]}")
    first = (
        f"batch 16, {OPTIMIZER}, {result['rounds']} rounds of {result['steps']} steps in turns; load {result['load']}"
    )
    return f"{first}\n\n{table(header, rows)}"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=NETS, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a block")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to which all are pinned")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1 or given.steps < 2:
        parser.error("--rounds has to be at least 1, --steps at least 2")
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        serve(eager)
    else:
        sys.exit(main())
