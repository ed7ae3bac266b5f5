"""What the pack's negatives cost a device in a round: training on one half of them, being judged on the other.

    python bench/carried_cost.py [--pack gsc12-res] [--clips 32] [--repeats 9] [--json]

CPU time on one thread of a round of the practical preset from the pack's weights, on so many clips drawn as noise: with
clips alone, with the pack's negatives, and of playing the half that judges to the plug-in and to the own model.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np

from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import Pack, load_pack
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.training.judge.sound import load_negatives
from auricle_edge.training.own_model import own_model
from auricle_learning.presets import get_preset
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer
from bench.comparison_table import table


class Cost(msgspec.Struct, frozen=True):
    """CPU milliseconds of one part of a round."""

    part: str
    median: float
    least: float
    most: float


def noise_clips(pack: Pack, count: int, seed: int = 0) -> Clips:
    """So many clips of noise, labels in turn: what they are does not change what they cost."""
    task = pack.manifest.task
    energies = np.random.default_rng(seed).gamma(1.0, size=(count, task.frames, task.frontend.mels))
    return Clips(energies.astype(np.float32), np.arange(count) % len(pack.labels))


def measure(part: str, work: Callable[[int], object], repeats: int) -> Cost:
    """CPU time of `work`, which is told how often it ran; the first time is not counted."""
    taken = []
    for number in range(repeats + 1):
        began = time.process_time()
        work(number)
        taken.append(1000 * (time.process_time() - began))
    return Cost(part, statistics.median(taken[1:]), min(taken[1:]), max(taken[1:]))


def run(name: str, clips: int, repeats: int) -> list[Cost]:
    """All parts of a round; a model that is both plug-in and own one is played to once."""
    pack = load_pack(name)
    runtime, own, lite = StepRuntime(pack), own_model(pack, start="pack"), pack.manifest.plugin
    plugin, start = (choose_weights("pack", pack, model, 0, None) for model in (lite, own))
    if plugin is None or start is None:
        raise SystemExit(f"The pack {name} has no trained weights.")
    plan = get_preset("practical").fitted(trained=True).plan_for(1, 1, 0)
    data = DeviceData(noise_clips(pack, clips), noise_clips(pack, 1), None)
    costs = []
    for part, share in (("training, clips alone", 0.0), ("training, with the pack's negatives", 0.5)):
        trainer = Trainer(runtime, own, data, 1, start, LearnSettings(clips=1, carried=share))
        state = trainer.first_state()

        def train(number: int, trainer: Trainer = trainer, state: LocalState = state) -> object:
            return trainer.run(plan, number, plugin, state)

        costs.append(measure(part, train, repeats))
    judged = load_negatives(pack, detect_settings(DetectTable(), pack), 15)
    minutes = judged.streams.hours * 60
    for model, weights in {lite: plugin, own: start}.items():

        def play(number: int, model: str = model, weights: Flat = weights) -> object:
            """Play to other weights each time, since the answers of the last ones are kept."""
            return judged.accepts(runtime, model, weights * np.float32(1 + 1e-5 * number))

        costs.append(measure(f"judging {model} on {minutes:.1f} min", play, repeats))
    return costs


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--pack", default="gsc12-res")
    asked.add_argument("--clips", type=int, default=32)
    asked.add_argument("--repeats", type=int, default=9)
    asked.add_argument("--json", action="store_true")
    options = asked.parse_args(given)
    costs = run(options.pack, options.clips, options.repeats)
    if options.json:
        print(json.dumps([msgspec.to_builtins(cost) for cost in costs]))
        return
    rows = [[cost.part, f"{cost.median:.0f}", f"{cost.least:.0f}-{cost.most:.0f}"] for cost in costs]
    print(table(["CPU ms", "median", "least to most"], rows))


if __name__ == "__main__":
    main()
