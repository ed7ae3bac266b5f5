"""How many rounds with noise an epsilon allows: by Renyi's accounting, and by privacy loss distributions.

Both are those of `auricle_learning.aggregation.accounting`, towards who sees the models (docs/privacy.md).

    python bench/accounting.py [--epsilon 8] [--delta 1e-5] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle_learning.aggregation.accounting import Accounting, Release, epsilon_by
from bench.comparison_table import table

RELEASES = (Release(1.0, 4.0), Release(0.3, 1.0), Release(0.1, 1.0), Release(0.05, 1.0), Release(0.01, 1.0))
"""Probability with which a device is drawn, and noise multiplier, that of `--dp-noise`."""


def rounds_until(accounting: Accounting, release: Release, epsilon: float, delta: float) -> int:
    """The most rounds of a release that give away no more than epsilon."""
    low, high = 0, 1
    while epsilon_by(accounting, {release: high}, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_by(accounting, {release: middle}, delta) <= epsilon else (low, middle)
    return low


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    rows = []
    for release in RELEASES:
        renyi, exact = (rounds_until(each, release, told.epsilon, told.delta) for each in ("RDP", "PLD"))
        rows.append({**release._asdict(), "rounds_rdp": renyi, "rounds_pld": exact, "more": exact / max(renyi, 1) - 1})
    if told.json:
        print(json.dumps({"epsilon": told.epsilon, "delta": told.delta, "rows": rows}, indent=1))
        return 0
    head = ["drawn with", "noise multiplier", "rounds by RDP", "by PLD", "more"]
    lines = [
        [
            f"{row['sampling']:g}",
            f"{row['multiplier']:g}",
            f"{row['rounds_rdp']:,}",
            f"{row['rounds_pld']:,}",
            f"{row['more']:.1%}",
        ]
        for row in rows
    ]
    print(table(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
