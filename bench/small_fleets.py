"""What leaving devices out costs a home of three or four: the one that sounds different, and one that attacks.

All but one of the devices are speakers of Speech Commands digits, the last is the odd one: a speaker of another corpus
(8 kHz, other accents and rooms; each seed another). A plug-in starts from the pack's trained weights and trains
supervised for an epoch a round on half of each speaker's clips, at most 25. In "joins late" the odd one comes after so
many rounds as it then is in; with an attack the first of the others uploads what `attack_moves` says. A cell, the mean
of the seeds: percent right on the odd one's other clips / on unheard speakers of Speech Commands, and of how many of
the rounds that it was in the odd one was left out.

    python bench/small_fleets.py --data GSC --odd FSDD [--devices 3,4] [--rounds 10] [--seeds 0,1,2,3,4,5]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.speech_set import SpeechSet
from auricle.speech.split import split_by_speaker
from auricle.wire.plan import Plan
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort, FloatArray, layers_of
from auricle_learning.methods import get_rule
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer
from bench.attack_moves import MOVES, View
from bench.comparison_table import table

PLAN = Plan(mode="supervised", rate=0.02, epochs=1)
MOST_CLIPS = 25
LATE = "joins late"
Aggregating = Callable[[Cohort], Aggregate]


def farthest() -> Aggregating:
    """The farthest of each layer is left out in each round."""
    return BoundedRule(get_rule("lpa", prune_low=0.0, prune_high=1 / 3))


def nobody() -> Aggregating:
    """The mean of all, each bounded to three times its fair share."""
    return BoundedRule(get_rule("lpa", prune_low=0.0, prune_high=0.0))


def in_turn() -> Aggregating:
    """The farthest of each layer is left out, unless it was left out in the round before."""
    prune, mean = farthest(), nobody()
    before: set[str] = set()

    def aggregate(cohort: Cohort) -> Aggregate:
        made = prune(cohort)
        out = {name for name, kept in zip(made.ids, made.kept, strict=True) if kept.mean() < 0.5}
        repeated = bool(out & before)
        before.clear()
        before.update(set() if repeated else out)
        return mean(cohort) if repeated else made

    return aggregate


def outlier(limit: float = 4.0) -> Aggregating:
    """The farthest is left out where its distance from the others' mean is `limit` times their own deviation."""
    prune, mean = farthest(), nobody()

    def aggregate(cohort: Cohort) -> Aggregate:
        squares = (cohort.matrix.layer_norms(cohort.spans) ** 2).sum(axis=1)
        count = squares.size
        if count < 3:
            return mean(cohort)
        without = squares.sum() - squares.max() * count / (count - 1)
        return (prune if squares.max() * count / (count - 1) > limit**2 * without / (count - 2) else mean)(cohort)

    return aggregate


WAYS: dict[str, Callable[[], Aggregating]] = {
    "farthest": farthest,
    "nobody": nobody,
    "in turn": in_turn,
    "outlier": outlier,
    "serve": lambda: BoundedRule(get_rule("lpa", prune_low=0.0, prune_high=0.3)),
    "norm-clip": lambda: BoundedRule(get_rule("norm-clip")),
    "median": lambda: BoundedRule(get_rule("median")),
}


@dataclass(frozen=True)
class Played:
    """What came of it; shares, from 0 to 1."""

    odd: float
    unheard: float
    out: float
    """Of the rounds that the odd one was in, those without it."""


@dataclass(frozen=True)
class Home:
    """The devices, the odd one last, and what judges the model."""

    honest: Sequence[Trainer]
    flipped: Trainer
    """The first of them with labels y -> C-1-y."""
    start: FloatArray
    odd: OnnxEvaluator
    unheard: OnnxEvaluator

    def judged(self, weights: FloatArray, out: float = 0.0) -> Played:
        """What a model is worth."""
        odd, unheard = (float(judge.scores(weights[None]).accuracy[0]) for judge in (self.odd, self.unheard))
        return Played(odd, unheard, out)


def make_home(gsc: SpeechSet, other: SpeechSet, count: int, seed: int) -> Home:
    """Choose and divide the speakers; the seed decides who they are and which clips are held out."""
    pack = load_pack("digits")
    frontend, runtime = LogMel(pack.manifest.task), StepRuntime(pack)
    none = Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))
    split = split_by_speaker(gsc, devices=count - 1, seed=seed)
    everyone = split_by_speaker(other, devices=len(other.speaker_names) - 1, seed=0)
    odd = [*(device.clips for device in everyone.devices), everyone.unseen][seed % len(other.speaker_names)]

    def trainer(clips: Clips, place: int) -> Trainer:
        return Trainer(runtime, pack.manifest.plugin, DeviceData(clips, none, None), seed=1000 * seed + place)

    honest, held = [], odd
    for place, (speech, chosen) in enumerate([*((gsc, device.clips) for device in split.devices), (other, odd)]):
        clips = np.random.default_rng(100 * seed + place).permutation(chosen)
        own, held = clips[: min(len(clips) // 2, MOST_CLIPS)], clips[len(clips) // 2 :]
        honest.append(trainer(Clips(frontend.energies(speech.audio[own]), speech.targets[own]), place))
    first = honest[0].data.train
    return Home(
        honest,
        trainer(Clips(first.energies, len(pack.labels) - 1 - first.targets), 0),
        first_weights(pack, pack.manifest.plugin, 0),
        OnnxEvaluator(pack, ValidationSet(frontend(other.audio[held]), other.targets[held])),
        OnnxEvaluator(pack, ValidationSet(frontend(gsc.audio[split.unseen]), gsc.targets[split.unseen])),
    )


def play(home: Home, aggregate: Aggregating, case: str, rounds: int) -> Played:
    """Run the rounds; `case` is an attack, "none" or "joins late"."""
    weights, out = home.start, 0
    layers = layers_of((spec.name, spec.size, spec.layer) for spec in load_pack("digits").plugin_table.specs)
    before = rounds if case == LATE else 0
    for number in range(before + rounds):
        present = home.honest if number >= before else home.honest[:-1]
        done = [trainer.run(PLAN, number, weights, LocalState(weights)) for trainer in present]
        uploads = np.stack([result.plugin for result in done]).astype(np.float64)
        if case in MOVES:
            move, own = MOVES[case], uploads[:1]
            if move.clips == "flipped":
                own = home.flipped.run(PLAN, number, weights, LocalState(weights)).plugin[None].astype(np.float64)
            uploads[:1] = move.upload(View(weights.astype(np.float64), uploads[1:], own))
        made = aggregate(
            Cohort.build(
                ids=[f"dev-{place}" for place in range(len(done))],
                weights=uploads.astype(np.float32),
                samples=[float(result.samples) for result in done],
                losses=[result.loss for result in done],
                start=weights,
                layers=layers,
            )
        )
        weights = made.weights
        out += number >= before and not made.share[-1].any()
    return home.judged(weights, out / rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="A Speech Commands folder.")
    parser.add_argument("--odd", type=Path, required=True, help="Another one, e.g. of fsdd.")
    parser.add_argument("--devices", default="3,4")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", default="0,1,2,3,4,5")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--cases", default=f"none,{LATE},label flip,sign flip,scaling,zero model")
    told = parser.parse_args()
    words = ",".join(load_pack("digits").labels)
    gsc, other = (load_folder(folder, words, min_word_clips=1) for folder in (told.data, told.odd))
    ways, seeds = told.ways.split(","), [int(seed) for seed in told.seeds.split(",")]
    for count in map(int, told.devices.split(",")):
        homes = [make_home(gsc, other, count, seed) for seed in seeds]
        print(f"\n{count} devices; before the first round {cell([home.judged(home.start) for home in homes])}")
        rows = [
            [case, *(cell([play(home, WAYS[way](), case, told.rounds) for home in homes]) for way in ways)]
            for case in told.cases.split(",")
        ]
        print(table(["case", *ways], rows))
    return 0


def cell(played: Sequence[Played]) -> str:
    """Percent right, odd and unheard, and percent of the rounds without the odd one, where there are any."""
    odd, unheard, out = (100 * float(mean) for mean in np.mean([astuple(each) for each in played], axis=0))
    return f"{odd:.1f} / {unheard:.1f}" + (f" ({out:.0f} % out)" if out else "")


if __name__ == "__main__":
    sys.exit(main())
