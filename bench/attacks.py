"""Which rule holds against which attack: accuracy on unheard speakers after rounds with 10, 20, 30 % attackers.

Twenty speakers of recorded digits, a plug-in that starts from the pack's trained weights and trains supervised for an
epoch a round; attackers see every honest upload (`attack_moves`). Rules run as a coordinator has them, with a bound on
a device's share, or alone with `--alone`. Prints a table a fraction: percent right, the median of the seeds.

    python bench/attacks.py --data DIR [--rounds 8] [--seeds 3] [--fractions 0.1,0.2,0.3] [--alone] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.attack_moves import MOVES, View, lies
from bench.comparison_table import table

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.split import split_by_speaker
from auricle.wire.plan import Plan
from auricle_cloud.aggregation.bounded import BoundedRule
from auricle_cloud.aggregation.cohort import Aggregate, Cohort, FloatArray, layers_of
from auricle_cloud.aggregation.rules import Rule, get_rule
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.train import LocalState, Trainer

RULES = ("fedavg", "lpa", "lpa+fedvsa", "fedvsa", "trimmed-mean", "median", "multi-krum", "geometric-median")
PLAN = Plan(mode="supervised", rate=0.02, epochs=1)


@dataclass(frozen=True)
class Fleet:
    """Speakers, and what judges the model."""

    honest: Sequence[Trainer]
    flipped: Sequence[Trainer]
    """The same speakers with labels y -> C-1-y."""
    start: FloatArray
    judge: OnnxEvaluator

    def right(self, weights: FloatArray) -> float:
        """Share of the unheard speakers' clips."""
        return float(self.judge.scores(weights[None]).accuracy[0])


def make_fleet(folder: Path, devices: int, seed: int) -> Fleet:
    """Read the recordings; the seed decides the order of batches."""
    pack = load_pack("digits")
    speech = load_folder(folder, ",".join(pack.labels), min_word_clips=1)
    split = split_by_speaker(speech, devices=devices, min_clips=8)
    frontend, runtime = LogMel(pack.manifest.task), StepRuntime(pack)
    none = Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))

    def trainer(clips: Clips, place: int) -> Trainer:
        return Trainer(runtime, pack.manifest.plugin, DeviceData(clips, none, None), seed=1000 * seed + place)

    own = [Clips(frontend.energies(speech.audio[d.clips]), speech.targets[d.clips]) for d in split.devices]
    wrong = [Clips(clips.energies, len(pack.labels) - 1 - clips.targets) for clips in own]
    judge = ValidationSet(frontend(speech.audio[split.unseen]), speech.targets[split.unseen])
    return Fleet(
        [trainer(clips, place) for place, clips in enumerate(own)],
        [trainer(clips, place) for place, clips in enumerate(wrong)],
        first_weights(pack, pack.manifest.plugin, 0),
        OnnxEvaluator(pack, judge),
    )


def rule_of(text: str) -> Rule:
    """A rule with its options: `lpa`, or `lpa prune_low=0 prune_high=0.3`."""
    name, *options = text.split()
    return get_rule(name, **{option: float(value) for option, _, value in (each.partition("=") for each in options)})


def play(
    fleet: Fleet, rule: Callable[[Cohort], Aggregate], attack: str | None, attackers: int, rounds: int, seed: int
) -> float:
    """Run the rounds; the share that is right afterwards."""
    weights, count = fleet.start, len(fleet.honest)
    table = load_pack("digits").plugin_table
    layers = layers_of((spec.name, spec.size, spec.layer) for spec in table.specs)
    bad = set(np.random.default_rng(seed).choice(count, attackers, replace=False).tolist())
    for number in range(rounds):
        done = [t.run(PLAN, number, weights, LocalState(weights)) for t in fleet.honest]
        uploads = np.stack([result.plugin for result in done]).astype(np.float64)
        samples, losses = [float(result.samples) for result in done], [result.loss for result in done]
        if attack is not None and bad:
            mine = sorted(bad)
            flipped = np.stack([fleet.flipped[k].run(PLAN, number, weights, LocalState(weights)).plugin for k in mine])
            others = uploads[[k for k in range(count) if k not in bad]]
            view = View(weights.astype(np.float64), others, uploads[mine], flipped.astype(np.float64))
            uploads[mine] = MOVES[attack](view)
            for k in mine if lies(attack) else ():
                samples[k], losses[k] = lies(attack) or (samples[k], losses[k])
        cohort = Cohort.build(
            ids=[f"dev-{k:03d}" for k in range(count)],
            weights=uploads.astype(np.float32),
            samples=samples,
            losses=losses,
            registered=[10**7 if k in bad else result.samples for k, result in enumerate(done)],
            start=weights,
            layers=layers,
        )
        weights = rule(cohort).weights
    return fleet.right(weights)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="A Speech Commands folder.")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--fractions", default="0.1,0.2,0.3")
    parser.add_argument("--rules", default=",".join(RULES), help='With options: "lpa,lpa prune_high=0.3".')
    parser.add_argument("--attacks", default=",".join(MOVES))
    parser.add_argument("--alone", action="store_true", help="The rules without the bound on a device's share.")
    parser.add_argument("--json", action="store_true", help="A line for each run, and no table.")
    told = parser.parse_args()
    names, attacks = told.rules.split(","), [None, *told.attacks.split(",")]
    found: dict[tuple[float, str | None, str], list[float]] = {}
    for seed in map(int, told.seeds.split(",")):
        fleet = make_fleet(told.data, told.devices, seed)
        for name in names:
            rule = rule_of(name)
            around = rule if told.alone else BoundedRule(rule)
            for attack in attacks:
                for fraction in map(float, told.fractions.split(",")) if attack else (0.0,):
                    attackers = round(fraction * told.devices)
                    right = play(fleet, around, attack, attackers, told.rounds, seed)
                    found.setdefault((fraction, attack, name), []).append(right)
                    if told.json:
                        line = {"seed": seed, "rule": name, "attack": attack, "fraction": fraction, "right": right}
                        print(json.dumps(line), flush=True)
    if not told.json:
        for fraction in map(float, told.fractions.split(",")):
            print(f"\n{fraction:.0%} of {told.devices} devices attack")
            print(report(found, fraction, names, attacks))
    return 0


def report(
    found: dict[tuple[float, str | None, str], list[float]],
    fraction: float,
    names: Sequence[str],
    attacks: Sequence[str | None],
) -> str:
    """The table of one fraction."""

    def cell(attack: str | None, name: str) -> str:
        values = found.get((fraction if attack else 0.0, attack, name), [])
        return f"{100 * statistics.median(values):.1f}" if values else "-"

    rows = [[attack or "no attack", *(cell(attack, name) for name in names)] for attack in attacks]
    return table(["attack", *names], rows)


if __name__ == "__main__":
    sys.exit(main())
