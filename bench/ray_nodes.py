"""A virtual fleet on Ray beside processes of this machine: devices a second, and what the death of a node costs.

The same run three times: in N processes, on N Ray nodes of one core each, and on these nodes, of which one is killed
in the middle of a round. All have to end with the same weights. Ray's nodes are processes of this machine, so that
both have the same cores. What is lost is how much longer the round of the death takes than one of the nodes left.

    python bench/ray_nodes.py [--nodes 2] [--devices 120] [--rounds 8] [--learning mutual] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle_fleet import FleetRun, FleetSettings, RoundRow
from bench.comparison_table import table

SETTLE = 0.3
"""Share of a usual round after which the node is killed."""


@dataclass(frozen=True)
class Took:
    """A run."""

    name: str
    seconds: tuple[float, ...]
    """Of each round after the first."""
    begin: float
    """Seconds until the first round had ended."""
    weights: str

    @property
    def usual(self) -> float:
        """Seconds of a round: the median."""
        return statistics.median(self.seconds)


def ran(name: str, settings: FleetSettings, folder: Path, after: Callable[[RoundRow], None] = lambda _: None) -> Took:
    """Run a fleet."""
    print(f"{name}: {settings.rounds} rounds of {settings.devices} devices", file=sys.stderr)
    rounds: list[float] = []
    first: list[float] = []

    def look(row: RoundRow) -> None:
        rounds.append(row.seconds)
        first.append(time.monotonic())
        after(row)

    began = time.monotonic()
    result = FleetRun(settings, folder / name.replace(" ", "-").replace(",", ""), on_round=look).run()
    weights = hashlib.sha256(result.paths.model.read_bytes()).hexdigest()
    return Took(name, tuple(rounds[1:]), first[0] - began, weights)


def main() -> int:
    """Run all three and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--learning", default="mutual")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    def told(**where: object) -> FleetSettings:
        usual = {"words": "yes,no,up,down", "unseen": 4, "takes": 5, "min_clips": 4, "local": "crnn-lite"}
        shape = {"devices": given.devices, "rounds": given.rounds, "learning": given.learning, "engine": "virtual"}
        return FleetSettings(**{**usual, **shape, **where})  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = ran(f"{given.nodes} processes", told(processes=given.nodes), folder)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        for _ in range(given.nodes - 1):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        try:
            whole = ran(f"{given.nodes} nodes", told(ray=cluster.address), folder)
            victim, middle = next(iter(cluster.worker_nodes)), given.rounds // 2

            def kill(row: RoundRow) -> None:
                if row.round == middle:
                    end = threading.Timer(SETTLE * whole.usual, cluster.remove_node, (victim, False))
                    end.daemon = True
                    end.start()

            killed = ran(f"{given.nodes} nodes, one killed", told(ray=cluster.address), folder, kill)
        finally:
            cluster.shutdown()
    left = statistics.median(killed.seconds[middle:])
    rows = [
        {
            "run": took.name,
            "until a round": f"{took.begin:.1f} s",
            "a round": f"{took.usual:.2f} s ({min(took.seconds):.2f}-{max(took.seconds):.2f})",
            "devices/s": f"{given.devices / took.usual:.1f}",
            "same weights": "yes" if took.weights == processes.weights else "NO",
        }
        for took in (processes, whole, killed)
    ]
    said = {
        "efficiency": round(processes.usual / whole.usual, 3),
        "lost_seconds": round(killed.seconds[middle - 1] - left, 2),
        "load": os.getloadavg()[0],
    }
    if given.json:
        print(json.dumps({"runs": rows, **said}))
    else:
        print(table(list(rows[0]), [list(row.values()) for row in rows]))
        print(
            f"\nRay does {said['efficiency']:.0%} of what processes do; the round of the death took "
            f"{said['lost_seconds']:.1f} s more than one of the nodes left; load average {said['load']:.1f}"
        )
    return 0 if all(took.weights == processes.weights for took in (whole, killed)) else 1


if __name__ == "__main__":
    sys.exit(main())
