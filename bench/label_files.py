"""How long label files of recordings take: CPU time to read them and to match them with detections, by their length.

A recording of half an hour of noise, and posteriors of nobody in particular; labels of half a second at random places.
Time that grows as the number of labels does gives the same microseconds a label in each row.

    python bench/label_files.py [--labels 17500 35000 70000] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from auricle.hearing.curve import match
from auricle.hearing.rule import Detections
from auricle.hearing.scenes import Spoken
from auricle_edge.evaluate.sources import RECORDING, read_labels
from bench.answer import answer
from bench.comparison_table import table

SECONDS, RATE, THRESHOLDS = 1800, 16_000, 175
"""Of the recording; samples a second; thresholds that are tried."""
DETECTIONS = 200_000
"""At all thresholds together."""


def measure(labels: int, rounds: int, folder: Path) -> dict[str, Any]:
    """One row: milliseconds of CPU time of each round."""
    draw = np.random.default_rng(labels)
    starts = np.sort(draw.uniform(0, SECONDS - 1, labels))
    path = folder / "labels.txt"
    path.write_text("".join(f"{start:.6f}\t{start + 0.5:.6f}\tyes\n" for start in starts))
    hop = np.sort(draw.integers(SECONDS * 10, size=DETECTIONS))
    threshold, label = draw.integers(THRESHOLDS, size=DETECTIONS), draw.integers(2, size=DETECTIONS)
    found = Detections(threshold, hop, label, np.ones(DETECTIONS))
    reading, matching = [], []
    for _ in range(rounds):
        began = time.process_time()
        read = read_labels(path)
        between = time.process_time()
        words = [Spoken(w, round(a * RATE), round(b * RATE), "", RECORDING, 0.0) for a, b, w in read]
        match(words, found, (hop + 1) * (RATE // 10), ("yes", "no"), THRESHOLDS)
        reading.append(1e3 * (between - began))
        matching.append(1e3 * (time.process_time() - between))
    return {"labels": labels, "reading": reading, "matching": matching}


def report(result: dict[str, Any]) -> str:
    """The table."""
    rows = []
    for row in result["rows"]:
        cells = [f"{statistics.median(row[what]):.0f}" for what in ("reading", "matching")]
        each = [a + b for a, b in zip(row["reading"], row["matching"], strict=True)]
        rows.append([f"{row['labels']:,}", *cells, f"{1e3 * statistics.median(each) / row['labels']:.1f}"])
    first = f"CPU time, ms: median of {result['rounds']} rounds; load {result['load']}"
    return first + "\n" + table(("labels", "to read", "to match", "µs a label"), rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[17_500, 35_000, 70_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1 or min(given.labels) < 1:
        parser.error("--rounds and --labels have to be at least 1")

    def run() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            rows = [measure(labels, given.rounds, Path(folder)) for labels in given.labels]
        return {"rounds": given.rounds, "load": round(os.getloadavg()[0], 1), "rows": rows}

    return answer(run, report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
