"""Every method against every attack: accuracy on unheard speakers after rounds with 10, 20, 30 % attackers.

Twenty speakers of recorded digits, plug-in and own models from the pack's trained weights, an epoch a round on labels
unless the method, or `serve`, trains otherwise; attackers see every honest upload (`attack_moves`). Rules run as a
coordinator has them, with a bound on a device's share, or alone with `--alone`. Prints tables of each fraction: percent
right, and who was left out, percent of the attackers / of the others: who counted for under a tenth of the average.

    python bench/attacks.py --data DIR [--methods LIST] [--attacks LIST] [--keep FILE] [--page docs/results/attacks.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.attack_fleet import Fleet, make_fleet
from bench.attack_moves import MOVES
from bench.attack_page import Cell, page, tables
from bench.attack_rounds import SERVE, Played, play, setup_of

SERVED = "lpa prune_low=0 prune_high=0.3"
MAIN = (SERVE, SERVED, "fedavg", "lpa", "lpa+fedvsa", "fedvsa", "trimmed-mean", "median", "multi-krum")
METHODS = (
    *MAIN,
    *("geometric-median", "krum", "norm-clip", "dnc", "zeno", "fedmlac", "fedprox", "fedopt", "fednova", "scaffold"),
    *("feddyn", "feddc", "feddisco", "fedrep", "ditto", "acmu", "fedkad", "fedlaw", "fedrpo", "creff"),
    "mupfl bavd=false",
)
"""All but `raf`, which is the geometric median, and `local`, which takes nothing of what is sent."""
FIRST = 0.2
"""The fraction that is run before the others."""


def read_kept(path: Path | None) -> dict[Cell, Played]:
    """What an earlier run has kept."""
    lines = path.read_text().splitlines() if path is not None and path.is_file() else []
    cells = ("seed", "method", "attack", "fraction")
    return {
        Cell(**{name: row[name] for name in cells}): Played(**{k: v for k, v in row.items() if k not in cells})
        for row in map(json.loads, lines)
    }


def planned(told: argparse.Namespace) -> list[Cell]:
    """Every cell that was asked for; rounds without attackers belong to no fraction.

    A fifth of attackers comes before other fractions, and `MAIN` before other methods, so that a run that is stopped
    has what is asked for most.
    """
    fractions, cells = list(map(float, told.fractions.split(","))), list[Cell]()
    for seed in map(int, told.seeds.split(",")):
        for method in told.methods.split(","):
            cells.append(Cell(seed, method, None, 0.0))
            for attack in told.attacks.split(","):
                cells += [Cell(seed, method, attack, fraction) for fraction in fractions]
    return sorted(cells, key=lambda cell: (cell.fraction not in (0.0, FIRST), cell.method not in MAIN, cell.seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="A Speech Commands folder.")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--fractions", default="0.1,0.2,0.3")
    parser.add_argument("--methods", default=",".join(METHODS), help='With options: "serve,lpa,lpa prune_high=0.3".')
    parser.add_argument("--attacks", default=",".join(MOVES))
    parser.add_argument("--alone", action="store_true", help="The rules without the bound on a device's share.")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="A line for each run; what is there is not run again."
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="Write the tables of what --keep has, and run nothing."
    )
    told = parser.parse_args()
    found, wanted = read_kept(told.keep), planned(told)
    if told.page is None:
        _run(told, found, wanted)
    asked = {cell: found[cell] for cell in wanted if cell in found}
    if told.page is not None:
        told.page.write_text(page(asked, wanted, told.rounds, told.devices), encoding="utf-8")
    else:
        print("\n".join(tables(asked, wanted)))
    return 0


def _run(told: argparse.Namespace, found: dict[Cell, Played], wanted: list[Cell]) -> None:
    """Play every cell that is not there yet, and keep it."""
    fleets: dict[int, Fleet] = {}
    for cell in wanted:
        if cell in found:
            continue
        if cell.seed not in fleets:
            fleets = {cell.seed: make_fleet(told.data, told.devices, cell.seed)}
        setup, attackers = setup_of(cell.method, alone=told.alone), round(cell.fraction * told.devices)
        found[cell] = play(fleets[cell.seed], setup, cell.attack, attackers, told.rounds, cell.seed)
        if told.keep is not None:
            with told.keep.open("a") as file:
                file.write(json.dumps(asdict(cell) | asdict(found[cell])) + "\n")


if __name__ == "__main__":
    sys.exit(main())
