"""Augmentation of clips with NumPy and with the C library, in turns: CPU time a call.

python bench/augmentation.py [--rounds 40] [--json]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.pack import load_pack
from auricle.speech.augment import Augmenter
from auricle.speech.features import LogMel
from auricle_learning.native.library import library
from auricle_learning.training.native_augmenter import NativeAugmenter
from bench.answer import answer
from bench.comparison_table import table

CLIPS = (8, 16, 64, 256)
NOISE = 3000
"""Frames of background noise."""


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of CPU time of both for so many clips, and how far their log-mels are apart."""
    frontend = LogMel(load_pack("gsc12").manifest.task)
    rng, mels = np.random.default_rng(count), frontend.task.frontend.mels
    energies = rng.lognormal(-4, 2, (count, frontend.task.frames, mels)).astype(np.float32)
    noise = rng.lognormal(-5, 1, (NOISE, mels)).astype(np.float32)
    ways = {"numpy": Augmenter(frontend, noise), "library": NativeAugmenter(frontend, noise, library=library())}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    apart = 0.0
    for number in range(rounds + 1):
        made = {}
        for name, augment in ways.items():
            began = time.process_time()
            made[name] = augment(energies, np.random.default_rng(number))
            taken[name].append(1e3 * (time.process_time() - began))
        apart = max(apart, float(np.abs(made["numpy"] - made["library"]).max()))
    ratios = sorted(a / b for a, b in zip(taken["numpy"][1:], taken["library"][1:], strict=True))
    return {
        "clips": count,
        **{name: statistics.median(each[1:]) for name, each in taken.items()},
        "ratio": statistics.median(ratios),
        "range": [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]],
        "apart": apart,
    }


def report(result: dict[str, Any]) -> str:
    """The table."""
    rows = []
    for of in result["sizes"]:
        taken = (f"{of[name]:.2f}" for name in ("numpy", "library"))
        ratio = f"{of['ratio']:.1f} ({of['range'][0]:.1f}-{of['range'][1]:.1f})"
        rows.append([f"{of['clips']}", *taken, ratio, f"{of['apart']:.1e}"])
    header = ("clips", "NumPy, ms", "library, ms", "NumPy's time by the library's", "largest difference")
    return f"CPU time, {result['rounds']} rounds in turns, medians; load {result['load']}\n" + table(header, rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error("--rounds has to be at least 1")
    load = [round(value, 2) for value in os.getloadavg()]

    def run() -> dict[str, Any]:
        return {"rounds": given.rounds, "load": load, "sizes": [measure(count, given.rounds) for count in CLIPS]}

    return answer(run, report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
