"""What updates of fewer bytes cost: accuracy on unheard speakers after the same rounds, by codec.

Emulated devices, each a speaker of Speech Commands digits, train a plug-in from seeded noise on labels, five epochs a
round. Codecs see the same devices, clips, first weights and draws of a seed; each seed has other devices. A row: bytes
that all devices sent, over those of the first codec; percent right on the clips of the speakers without a device, mean
and range of the seeds; and the difference from the first codec, mean and by seed.

    python bench/wire_diet.py --data GSC[,MORE] [--devices 20] [--rounds 40] [--seeds 0,1,2] [--codecs float32,int8]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.row_store import Spill
from auricle.wire.update_codec import UPDATE_CODECS
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.population.data import FleetData, Progress, load_data
from bench.comparison_table import table

EPOCHS, MIN_CLIPS = 5, 8
SEEN_ON_THE_WAY = 20
"""Clips by which rounds are judged, for the rounds' own lines."""


def gather(folders: Sequence[Path], words: Sequence[str], place: Path) -> int:
    """Make one Speech Commands folder of the words' clips in several, of links; how many clips."""
    count = 0
    for word in words:
        (place / word).mkdir(parents=True)
        for file in (file for folder in folders for file in sorted((folder / word).glob("*_nohash_*"))):
            link = place / word / file.name
            if not link.is_symlink():
                link.symlink_to(file.resolve())
                count += 1
    return count


@dataclass(frozen=True)
class Played:
    """What came of the rounds."""

    right: float
    """Percent of the unheard speakers' clips."""
    sent: int
    """Bytes."""


class Speech:
    """Loads a seed's speech once, and keeps the clips of unheard speakers for the end, but for a few."""

    def __init__(self) -> None:
        self._data: FleetData | None = None
        self.judge: OnnxEvaluator | None = None

    def __call__(
        self, settings: FleetSettings, progress: Progress = lambda *_: None, spill: Spill | None = None
    ) -> FleetData:
        if self._data is None:
            data = load_data(settings, progress, spill)
            features = LogMel(data.pack.manifest.task).finish(data.unseen.energies)
            self.judge = OnnxEvaluator(data.pack, ValidationSet(features, data.unseen.targets), threads=1)
            few = np.arange(min(SEEN_ON_THE_WAY, len(data.unseen)))
            self._data = replace(data, unseen=data.unseen.chosen(few), unseen_groups=data.unseen_groups[few])
        return self._data


def play(told: argparse.Namespace, clips: Path, codec: str, seed: int, load: Speech) -> Played:
    """Run the rounds in a folder that is then removed."""
    settings = FleetSettings(
        data=str(clips),
        words="digits",
        engine="virtual",
        devices=told.devices,
        min_clips=MIN_CLIPS,
        preset="fedavg",
        rounds=told.rounds,
        epochs=EPOCHS,
        seed=seed,
        codec=codec,
        processes=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = FleetRun(settings, Path(folder) / "run", load=load).run()
        tensors = load_file(result.paths.model)
    if result.interrupted or load.judge is None:
        raise SystemExit(130)
    weights = np.concatenate([tensors[spec.name].ravel() for spec in load_pack("digits").plugin_table.specs])
    return Played(100 * float(load.judge.scores(weights[None]).accuracy[0]), result.summary.bytes_up)


def row(codec: str, runs: Sequence[Played], first: Sequence[Played]) -> list[str]:
    """The line of a codec."""
    right = [run.right for run in runs]
    apart = [ours.right - theirs.right for ours, theirs in zip(runs, first, strict=True)]
    return [
        codec,
        f"{sum(run.sent for run in runs) / sum(run.sent for run in first):.3f}",
        f"{fmean(right):.1f} ({min(right):.1f}-{max(right):.1f})",
        f"{fmean(apart):+.1f}",
        " ".join(f"{each:+.1f}" for each in apart),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="Speech Commands folders, separated by commas.")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--codecs", default=",".join(UPDATE_CODECS), help="What others are compared with comes first.")
    told = parser.parse_args()
    codecs, seeds = told.codecs.split(","), [int(seed) for seed in told.seeds.split(",")]
    runs: dict[str, list[Played]] = {codec: [] for codec in codecs}
    with tempfile.TemporaryDirectory() as folder:
        clips = Path(folder)
        count = gather([Path(each) for each in told.data.split(",")], load_pack("digits").labels, clips)
        for seed in seeds:
            load = Speech()
            for codec in codecs:
                runs[codec].append(play(told, clips, codec, seed, load))
                print(f"seed {seed}: {codec} {runs[codec][-1].right:.1f} %", file=sys.stderr, flush=True)
    header = ["codec", "bytes", "percent right", "difference", "by seed"]
    print(f"{count} clips; {told.devices} devices, {told.rounds} rounds of {EPOCHS} epochs, seeds {told.seeds}")
    print(table(header, [row(codec, each, runs[codecs[0]]) for codec, each in runs.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
