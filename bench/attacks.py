"""Which rule holds against which attack: accuracy on unheard speakers after rounds with 10, 20, 30 % attackers.

Twenty speakers of recorded digits, a plug-in that starts from the pack's trained weights and trains supervised for an
epoch a round; attackers see every honest upload (`attack_moves`). Rules run as a coordinator has them, with a bound on
a device's share, or alone with `--alone`. Prints two tables a fraction, each cell of the worst seed: percent right, and
who was left out, percent of the attackers / of the others: who counted for less than a tenth of a fair share.

    python bench/attacks.py --data DIR [--rounds 8] [--seeds 0,1,2] [--fractions 0.1,0.2,0.3] [--alone] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.split import split_by_speaker
from auricle.wire.plan import Plan
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort, FloatArray, layers_of
from auricle_learning.aggregation.rules import Rule
from auricle_learning.methods import get_rule
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer
from bench.attack_moves import MOVES, View, lies
from bench.comparison_table import table

RULES = ("fedavg", "lpa", "lpa+fedvsa", "fedvsa", "trimmed-mean", "median", "multi-krum", "geometric-median")
PLAN = Plan(mode="supervised", rate=0.02, epochs=1)


TURNED = "backdoor: turned"
"""The row of what a trigger does, beside the one of what is right without it."""


LEFT_OUT = 0.1
"""Who counts for less than this part of a fair share of a model was left out of it."""


@dataclass(frozen=True)
class Cell:
    """What was run."""

    seed: int
    rule: str
    attack: str | None
    fraction: float


@dataclass(frozen=True)
class Played:
    """What came of it; shares, from 0 to 1."""

    right: float
    """Of the unheard speakers' clips, after the last round."""
    turned: float
    """Of their clips of other words with the trigger in them: what it turns into the target."""
    named: float
    """Of the attackers in all rounds: who was left out; 0 without attackers."""
    wronged: float
    """Of the others in all rounds."""


@dataclass(frozen=True)
class Fleet:
    """Speakers, and what judges the model."""

    honest: Sequence[Trainer]
    flipped: Sequence[Trainer]
    """The same speakers with labels y -> C-1-y."""
    poisoned: Sequence[Trainer]
    """The same speakers with each clip twice: as it is, and with the trigger and the target's label."""
    tripped: OnnxEvaluator
    """Judges by unheard clips of other words with the trigger in them, whether they pass for the target."""
    start: FloatArray
    judge: OnnxEvaluator

    def right(self, weights: FloatArray) -> float:
        """Share of the unheard speakers' clips."""
        return float(self.judge.scores(weights[None]).accuracy[0])

    def fooled(self, weights: FloatArray) -> float:
        """Share of the unheard speakers' clips of other words that the trigger turns into the target."""
        return float(self.tripped.scores(weights[None]).accuracy[0])


TARGET = 0
"""The label that the trigger is to give."""


def triggered(energies: NDArray[np.float32]) -> NDArray[np.float32]:
    """Clips (N, frames, mels) with a tone in them: four bands of the first eight frames as loud as the loudest."""
    marked = energies.copy()
    marked[:, :8, 20:24] = energies.max(axis=(1, 2), keepdims=True)
    return marked


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
    both = [
        Clips(
            np.concatenate([clips.energies, triggered(clips.energies)]),
            np.concatenate([clips.targets, np.full_like(clips.targets, TARGET)]),
        )
        for clips in own
    ]
    others = split.unseen[speech.targets[split.unseen] != TARGET]
    tripped = frontend.finish(triggered(frontend.energies(speech.audio[others])))
    judge = ValidationSet(frontend(speech.audio[split.unseen]), speech.targets[split.unseen])
    return Fleet(
        honest=[trainer(clips, place) for place, clips in enumerate(own)],
        flipped=[trainer(clips, place) for place, clips in enumerate(wrong)],
        poisoned=[trainer(clips, place) for place, clips in enumerate(both)],
        tripped=OnnxEvaluator(pack, ValidationSet(tripped, np.full(len(others), TARGET, np.int64))),
        start=first_weights(pack, pack.manifest.plugin, 0),
        judge=OnnxEvaluator(pack, judge),
    )


def rule_of(text: str) -> Rule:
    """A rule with its options: `lpa`, or `lpa prune_low=0 prune_high=0.3`."""
    name, *options = text.split()
    return get_rule(name, **{option: float(value) for option, _, value in (each.partition("=") for each in options)})


def play(
    fleet: Fleet, rule: Callable[[Cohort], Aggregate], attack: str | None, attackers: int, rounds: int, seed: int
) -> Played:
    """Run the rounds."""
    weights, count = fleet.start, len(fleet.honest)
    table = load_pack("digits").plugin_table
    layers = layers_of((spec.name, spec.size, spec.layer) for spec in table.specs)
    bad = set(np.random.default_rng(seed).choice(count, attackers, replace=False).tolist())
    attacks = np.isin(np.arange(count), sorted(bad))
    out = np.zeros(count)
    for number in range(rounds):
        done = [t.run(PLAN, number, weights, LocalState(weights)) for t in fleet.honest]
        uploads = np.stack([result.plugin for result in done]).astype(np.float64)
        samples, losses = [float(result.samples) for result in done], [result.loss for result in done]
        if attack is not None and bad:
            mine = sorted(bad)
            flipped = np.stack([fleet.flipped[k].run(PLAN, number, weights, LocalState(weights)).plugin for k in mine])
            others = uploads[[k for k in range(count) if k not in bad]]
            trained = fleet.poisoned if attack == "backdoor" else fleet.flipped
            poisoned = np.stack([trained[k].run(PLAN, number, weights, LocalState(weights)).plugin for k in mine])
            start, wide = weights.astype(np.float64), poisoned.astype(np.float64)
            view = View(start, others, uploads[mine], flipped.astype(np.float64), wide)
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
        made = rule(cohort)
        weights, out = made.weights, out + left_out(made)
    named, wronged = (float(out[who].mean() / rounds) if who.any() else 0.0 for who in (attacks, ~attacks))
    return Played(fleet.right(weights), fleet.fooled(weights), named, wronged)


def left_out(made: Aggregate) -> NDArray[np.bool_]:
    """(K,) who counts for less than a tenth of a fair share, over all layers."""
    share = np.asarray(made.share, np.float64)
    return np.asarray(share.mean(axis=1) < LEFT_OUT / len(share))


def read_kept(path: Path | None) -> dict[Cell, Played]:
    """What an earlier run has kept."""
    lines = path.read_text().splitlines() if path is not None and path.is_file() else []
    told = [json.loads(line) for line in lines]
    cells = ("seed", "rule", "attack", "fraction")
    return {
        Cell(**{name: row[name] for name in cells}): Played(**{k: v for k, v in row.items() if k not in cells})
        for row in told
    }


def planned(told: argparse.Namespace) -> Iterator[Cell]:
    """Every cell that was asked for; the rounds without attackers belong to no fraction."""
    for seed in map(int, told.seeds.split(",")):
        for name in told.rules.split(","):
            yield Cell(seed, name, None, 0.0)
            for attack in told.attacks.split(","):
                for fraction in map(float, told.fractions.split(",")):
                    yield Cell(seed, name, attack, fraction)


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
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="A line for each run; what is there is not run again."
    )
    told = parser.parse_args()
    found = read_kept(told.keep)
    fleets: dict[int, Fleet] = {}
    for cell in planned(told):
        if cell in found:
            continue
        if cell.seed not in fleets:
            fleets = {cell.seed: make_fleet(told.data, told.devices, cell.seed)}
        rule = rule_of(cell.rule)
        around = rule if told.alone else BoundedRule(rule)
        attackers = round(cell.fraction * told.devices)
        found[cell] = play(fleets[cell.seed], around, cell.attack, attackers, told.rounds, cell.seed)
        if told.keep is not None:
            with told.keep.open("a") as file:
                file.write(json.dumps(asdict(cell) | asdict(found[cell])) + "\n")
    wanted = {cell: found[cell] for cell in planned(told)}
    for fraction in map(float, told.fractions.split(",")):
        print(f"\n{fraction:.0%} of {told.devices} devices attack: percent right")
        print(report(wanted, fraction, right))
        print("\nleft out: percent of the attackers / of the others")
        print(report(wanted, fraction, who))
    return 0


def right(played: Sequence[Played], *, turned: bool) -> str:
    """Percent right, or turned, of the worst seed."""
    return f"{100 * (max(p.turned for p in played) if turned else min(p.right for p in played)):.1f}"


def who(played: Sequence[Played], *, turned: bool) -> str:
    """Percent of the attackers, and of the others, that were left out: the fewest and the most of the seeds."""
    return "" if turned else f"{100 * min(p.named for p in played):.0f} / {100 * max(p.wronged for p in played):.0f}"


def report(found: Mapping[Cell, Played], fraction: float, say: Callable[..., str]) -> str:
    """A table of one fraction, attacks by rules."""
    names = list(dict.fromkeys(cell.rule for cell in found))
    attacks = list(dict.fromkeys(cell.attack for cell in found))
    rows = [
        [attack or "no attack", *(say(_of(found, name, attack, fraction), turned=False) for name in names)]
        for attack in attacks
    ]
    if "backdoor" in attacks and say is right:
        rows.append([TURNED, *(say(_of(found, name, "backdoor", fraction), turned=True) for name in names)])
    return table(["attack", *names], rows)


def _of(found: Mapping[Cell, Played], name: str, attack: str | None, fraction: float) -> list[Played]:
    wanted = (name, attack, fraction if attack else 0.0)
    return [played for cell, played in found.items() if (cell.rule, cell.attack, cell.fraction) == wanted]


if __name__ == "__main__":
    sys.exit(main())
