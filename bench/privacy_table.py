"""What noise costs: devices x epsilon x accuracy of fleets on recorded words, by `auricle fleet run` itself.

Ten command words, federated averaging of the whole plug-in on the virtual engine, from a model that was pretrained on
other people's clips, judged on people without a device. A device has ten clips, whose voices are warped where there are
more devices than speakers (partition `voices`). For each epsilon of the fleet view that noise multiplier is taken which
gives it after all rounds; the epsilons that are printed are those that the runs say of themselves. Figures are means
over seeds (each another split, draw and first model) with the standard deviation; noise itself is of the system's
randomness, so no two tables are the same.

    python bench/privacy_table.py --data DIR [--data DIR2] [--rounds 15] [--epsilons 32,8,2] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.speech.clip_folder import scan_folder
from auricle.speech.words import COMMANDS
from auricle_cloud.settings import Privacy
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.population.speech_cache import SpeechCache
from auricle_fleet.settings.partition import Partition
from auricle_learning.aggregation.accounting import Release, fleet_epsilon
from bench.comparison_table import table

DELTA = 1e-5
CLIPS = 10
"""Of a device."""
PUBLIC = 0.1
"""Share of the speakers whose clips the first model is trained on."""


class Fleet(NamedTuple):
    """How many devices there are, and how many are drawn for a round on average."""

    devices: int
    cohort: int

    @property
    def sampling(self) -> float:
        """Probability with which a device is drawn."""
        return self.cohort / self.devices


FLEETS = (Fleet(20, 20), Fleet(100, 50), Fleet(500, 100))


class Row(NamedTuple):
    """What the runs of a fleet at one epsilon came to, a figure a seed."""

    fleet: Fleet
    multiplier: float
    """0: neither clipping nor noise."""
    epsilons: tuple[float, ...]
    device_epsilons: tuple[float, ...]
    before: tuple[float, ...]
    right: tuple[float, ...]


def multiplier_for(fleet: Fleet, rounds: int, epsilon: float) -> float:
    """The least noise multiplier, in hundredths, with at most this epsilon after so many rounds."""
    low, high = 1, 100_000
    while low < high:
        middle = (low + high) // 2
        spent = fleet_epsilon([Release(fleet.sampling, middle / 100)] * rounds, DELTA).epsilon
        low, high = (low, middle) if spent <= epsilon else (middle + 1, high)
    return low / 100


def link_clips(folders: Sequence[Path], into: Path) -> tuple[Path, Path]:
    """Folders of the speakers that may have a device or are unheard, and of those of the first model."""
    found = [clip for folder in folders for clip in scan_folder(folder).clips if clip.word in COMMANDS]
    speakers = np.random.default_rng(0).permutation(sorted({clip.speaker for clip in found})).tolist()
    public = {*speakers[: round(PUBLIC * len(speakers))]}
    for clip in found:
        place = into / ("public" if clip.speaker in public else "others") / clip.word / clip.path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():  # some recordings are in both folders
            place.symlink_to(clip.path.resolve())
    return into / "others", into / "public"


class Run(NamedTuple):
    """What one run came to."""

    epsilon: float
    device_epsilon: float
    before: float
    right: float


def play(
    told: argparse.Namespace, roots: tuple[Path, Path], fleet: Fleet, multiplier: float, seed: int, load: SpeechCache
) -> Run:
    """Run the rounds in a folder that is then removed; multiplier 0: neither clipping nor noise."""
    others, public = roots
    settings = FleetSettings(
        engine="virtual",
        data=str(others),
        words=",".join(COMMANDS),
        partition=Partition(kind="voices", clips=CLIPS),
        devices=fleet.devices,
        min_clips=told.min_clips,
        unseen=told.unseen,
        labelled=str(public),
        pretrain=told.pretrain,
        preset="fedavg",
        method="fedavg",
        server_optimizer="none",
        augment="off",
        epochs=told.epochs,
        rate=told.rate,
        judge="off",
        rounds=told.rounds,
        participation=fleet.sampling,
        quorum=1.0,
        processes=1,
        seed=seed,
        privacy=Privacy(clip=told.clip, noise=multiplier, delta=DELTA) if multiplier else Privacy(),
    )
    with tempfile.TemporaryDirectory() as folder:
        made = FleetRun(settings, Path(folder) / "run", load=load).run()
    last, start = made.rounds[-1], made.summary.start_accuracy_unseen or 0.0
    spent = last.epsilon or math.inf, last.device_epsilon or math.inf
    return Run(*spent, start, last.plugin_accuracy_unseen or 0.0)


def rows_of(told: argparse.Namespace, roots: tuple[Path, Path], fleet: Fleet) -> list[Row]:
    """A fleet without noise and at each epsilon, over the seeds."""
    epsilons = (math.inf, *map(float, told.epsilons.split(",")))
    multipliers = [0.0 if math.isinf(each) else multiplier_for(fleet, told.rounds, each) for each in epsilons]
    runs: dict[float, list[Run]] = {multiplier: [] for multiplier in multipliers}
    for seed in map(int, told.seeds.split(",")):
        load = SpeechCache()
        for multiplier, made in runs.items():
            made.append(play(told, roots, fleet, multiplier, seed, load))
            if told.json:
                print(json.dumps([*fleet, multiplier, seed, *made[-1]]), flush=True)
    return [Row(fleet, multiplier, *zip(*made, strict=True)) for multiplier, made in runs.items()]


def printed(row: Row) -> list[str]:
    """The line of a fleet at an epsilon."""
    return [
        f"{row.fleet.devices:,}",
        f"{row.fleet.cohort}",
        "none" if not row.multiplier else f"{max(row.epsilons):.2f}",
        "-" if not row.multiplier else f"{row.multiplier:.2f}",
        "-" if not row.multiplier else f"{fmean(row.device_epsilons):,.0f}",
        spread(row.before),
        spread(row.right),
    ]


def spread(shares: Sequence[float]) -> str:
    """Mean and standard deviation of percentages."""
    deviation = stdev(shares) if len(shares) > 1 else 0.0
    return f"{100 * fmean(shares):.1f} % ± {100 * deviation:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="Speech Commands; repeatable.")
    parser.add_argument("--devices", default="20,100,500", help="Of the fleets.")
    parser.add_argument("--epsilons", default="32,8,2", help="Of the fleet view, after all rounds.")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--clip", type=float, default=0.3, help="Clipping norm.")
    parser.add_argument("--pretrain", type=int, default=20, help="Epochs of the first model on the public clips.")
    parser.add_argument("--unseen", type=int, default=100, help="Speakers without a device, with those of few clips.")
    parser.add_argument("--min-clips", type=int, default=6, help="Of a speaker with a device.")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        roots = link_clips(told.data, Path(folder))
        for fleet in (fleet for fleet in FLEETS if str(fleet.devices) in told.devices.split(",")):
            lines += [printed(row) for row in rows_of(told, roots, fleet)]
    if not told.json:
        head = ["devices", "a round", "epsilon", "multiplier", "epsilon of the device view", "before", "after"]
        print(table(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
