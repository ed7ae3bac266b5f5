"""What rounds of two to six people do to a trained model, with one setting or another.

Emulated devices, each a speaker of Speech Commands with 20 clips or more, begin with the pack's weights. A row is a way
to train, the mean of the seeds (each other people): percent right of clips of people without a device before the first
round and after the last one, that difference for each seed, percent right of the devices' own models on clips that they
hold out, and false accepts in how many minutes of the pack's negatives.

    python bench/few_people.py --data GSC [--devices 3] [--rounds 12] [--seeds 0,1,2] [--ways carried=0.5,carried=0.25]

A way is settings of `auricle fleet run` with `+` between them, such as carried=0.25+rate=0.0003. Where it names no
share of the negatives, `carried` is 0.5.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.settings import from_mapping
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.population.speech_cache import SpeechCache
from auricle_fleet.results.result import Summary
from bench.comparison_table import table

WAYS = "carried=0.5,carried=0.25,carried=0,rate=0.0003,rate=0.0001,epochs=1,augment=off,learning=supervised"


def settings_of(way: str) -> dict[str, object]:
    """The settings that a way names."""
    pairs = [part.partition("=") for part in way.split("+")]
    return {name: int(word) if word.isdecimal() else _number(word) for name, _, word in pairs}


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def play(told: argparse.Namespace, devices: int, way: str, seed: int, load: SpeechCache) -> Summary:
    """Run the rounds in a folder that is then removed."""
    usual = {"data": str(told.data), "devices": devices, "rounds": told.rounds, "seed": seed}
    settings = from_mapping(FleetSettings, {**usual, "start": "pack", "carried": 0.5, **settings_of(way)}, way)
    with tempfile.TemporaryDirectory() as folder:
        return FleetRun(settings, Path(folder) / "run", load=load).run().summary


def row(way: str, runs: list[Summary]) -> list[str]:
    """The line of a way."""
    before = [100 * (run.start_accuracy_unseen or 0.0) for run in runs]
    after = [100 * (run.plugin_accuracy_unseen or 0.0) for run in runs]
    each = " ".join(f"{end - start:+.1f}" for start, end in zip(before, after, strict=True))
    own = fmean(100 * (run.personal_accuracy or 0.0) for run in runs)
    accepts = sum(run.false_accepts or 0 for run in runs)
    minutes = sum(run.negative_seconds or 0.0 for run in runs) / 60
    return [way, f"{fmean(before):.1f}", f"{fmean(after):.1f}", each, f"{own:.1f}", f"{accepts} in {minutes:.0f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="A Speech Commands folder.")
    parser.add_argument("--devices", default="3")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default=WAYS)
    told = parser.parse_args()
    ways, seeds = told.ways.split(","), [int(seed) for seed in told.seeds.split(",")]
    for devices in map(int, told.devices.split(",")):
        runs: dict[str, list[Summary]] = {way: [] for way in ways}
        for seed in seeds:
            load = SpeechCache()
            for way in ways:
                runs[way].append(play(told, devices, way, seed, load))
        header = ["way", "before", "after", "by seed", "own models", "false accepts"]
        print(f"\n{devices} devices")
        print(table(header, [row(way, made) for way, made in runs.items()]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
