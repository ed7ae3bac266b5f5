"""How far one liar in a secure sum moves a model, beside what an honest device moves it: one sum, and sums in buckets.

Speakers of recorded digits train a plug-in from the pack's weights, an epoch a round. Of each round every kind of liar
takes the place of a device that is drawn, and the model is compared with the one of the same round, and the same
buckets, in which that device is honest; `absent`: in which it sends nothing. Each figure is the worst of all rounds and
seeds, as a multiple of what an honest device of the round moves the mean on average: `with/without`, the mean with it
less the mean without it; `update/n`, the norm of its update over n; `most`, with/without of the one that moves it most.
The second table is what buckets cost where all are honest, and what a liar costs: percent right on unheard speakers.

    python bench/secure_liar.py --data DIR [--devices 10] [--bucket 8] [--rounds 6] [--seeds 0,1,2]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import WireError
from auricle.wire.secure_sum.quantised import Words, quantise, sum_of
from auricle_cloud.rounds.secure.graph import bucket_count
from auricle_cloud.settings import BUCKET
from auricle_learning.aggregation.buckets import combine_buckets
from auricle_learning.training.train import LocalState
from bench.attack_fleet import Fleet, make_fleet
from bench.attack_rounds import PLAN
from bench.comparison_table import table

BOUND = 0.5
"""As of `--secure-sum-bound`."""
LENGTHS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
"""Of a stealthy liar's update, in those of honest ones: the one that moves the model most counts."""
Updates = NDArray[np.float64]
Buckets = Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class View:
    """What a liar knows: all of them, more than a device has."""

    updates: Updates
    """(n, P) of the round, its own as if it were honest."""
    own: int
    draw: np.random.Generator

    @property
    def others(self) -> Updates:
        """(n - 1, P) of the honest ones."""
        return np.delete(self.updates, self.own, axis=0)

    def cut(self, update: Updates) -> Words:
        """What a device that keeps to the range masks."""
        return quantise(update, BOUND)

    def ahead(self, length: float) -> Updates:
        """A direction that nobody else has, so many times as long as honest updates are on average."""
        way = self.draw.standard_normal(self.updates.shape[1])
        return way * (length * np.linalg.norm(self.others, axis=1).mean() / np.linalg.norm(way))


Liar = Callable[[View], list[Words]]
LIARS: dict[str, Liar] = {
    "random, at the bound": lambda view: [view.cut(view.draw.choice([-BOUND, BOUND], view.updates.shape[1]))],
    "own update x -100, cut": lambda view: [view.cut(-100 * view.updates[view.own])],
    "constant, at the bound": lambda view: [view.cut(np.full(view.updates.shape[1], BOUND))],
    "replacement: n (target - start)": lambda view: [view.cut(len(view.updates) * view.ahead(1.0))],
    "garbage of 32 bits": lambda view: [view.draw.integers(0, 2**32, view.updates.shape[1], np.uint32)],
    "stealth: own update x -1": lambda view: [view.cut(-view.updates[view.own])],
    "stealth: mean less 1.5 deviations": lambda view: [
        view.cut(view.others.mean(axis=0) - 1.5 * view.others.std(axis=0))
    ],
    "stealth: a direction, worst length": lambda view: [view.cut(view.ahead(length)) for length in LENGTHS],
    "stealth: own x -k, worst k": lambda view: [view.cut(-length * view.updates[view.own]) for length in LENGTHS],
}


def one_sum(words: NDArray[np.uint32], came: Sequence[int]) -> Updates:
    """The update that one sum makes; WireError: it is none of so many updates."""
    return sum_of(words[[*came]].sum(axis=0, dtype=np.uint32), len(came), BOUND) / len(came)


def in_buckets(words: NDArray[np.uint32], buckets: Buckets) -> Updates:
    """The update that sums of buckets make, without those that cannot be."""
    means = []
    for bucket in buckets:
        try:
            means.append(one_sum(words, bucket.tolist()))
        except WireError:
            continue
    return combine_buckets(np.stack(means)).update if len(means) > 1 else means[0]


def drawn(count: int, size: int, draw: np.random.Generator) -> Buckets:
    """Buckets as a coordinator draws them."""
    order, pieces = draw.permutation(count), bucket_count(count, size)
    return [order[place::pieces] for place in range(pieces)]


@dataclass(frozen=True)
class Moved:
    """Norms of one round."""

    before: float
    """Of one sum; infinite where the round was aborted."""
    after: float
    absent: float
    """Of buckets, from the model without the device."""
    alone: float
    """What an honest device moves the mean, with and without it: on average."""
    most: float
    """The same of the one that moves it most."""
    share: float
    """What an honest update over n is, on average."""


def measure(updates: Updates, size: int, seed: int) -> dict[str, Moved]:
    """One round with each kind of liar."""
    draw, count = np.random.default_rng(seed), len(updates)
    own, everybody = int(draw.integers(count)), range(count)
    buckets = drawn(count, size, draw)
    honest = np.stack([quantise(update, BOUND) for update in updates])
    mean, combined = one_sum(honest, everybody), in_buckets(honest, buckets)
    without = in_buckets(honest, [bucket[bucket != own] for bucket in buckets])
    middle = updates.mean(axis=0)
    alone = [np.linalg.norm(middle - np.delete(updates, k, axis=0).mean(axis=0)) for k in everybody]
    share = float(np.linalg.norm(updates, axis=1).mean() / count)
    found = {}
    for name, lie in LIARS.items():
        before = after = absent = 0.0
        for words in lie(View(updates, own, draw)):
            all_words = honest.copy()
            all_words[own] = words
            try:
                before = max(before, float(np.linalg.norm(one_sum(all_words, everybody) - mean)))
            except WireError:
                before = np.inf
            made = in_buckets(all_words, buckets)
            after = max(after, float(np.linalg.norm(made - combined)))
            absent = max(absent, float(np.linalg.norm(made - without)))
        found[name] = Moved(before, after, absent, float(np.mean(alone)), float(max(alone)), share)
    return found


def train(fleet: Fleet, number: int, weights: NDArray[np.float32]) -> Updates:
    """(n, P) the updates of a round."""
    done = [each.run(PLAN, number, weights, LocalState(weights)).plugin for each in fleet.trainers["honest"]]
    return np.stack(done).astype(np.float64) - weights


def play(fleet: Fleet, size: int, rounds: int, seed: int, lie: Liar | None) -> tuple[float, list[Updates]]:
    """Percent right after the rounds, and the updates of each; size 0: one sum."""
    weights, kept, count = fleet.start, [], len(fleet.trainers["honest"])
    draw = np.random.default_rng(seed)
    own = int(draw.integers(count))
    for number in range(rounds):
        updates = train(fleet, number, weights)
        kept.append(updates)
        words = np.stack([quantise(update, BOUND) for update in updates])
        if lie is not None:
            words[own] = lie(View(updates, own, draw))[-1]
        made = in_buckets(words, drawn(count, size, draw)) if size else one_sum(words, range(count))
        weights = np.asarray(weights + made, np.float32)
    return 100 * fleet.right(weights[None]), kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="A Speech Commands folder.")
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--bucket", type=int, default=BUCKET)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seeds", default="0,1,2")
    told = parser.parse_args()
    found: dict[str, list[Moved]] = {name: [] for name in LIARS}
    right: dict[str, list[float]] = {}
    flip = LIARS["own update x -100, cut"]
    for seed in map(int, told.seeds.split(",")):
        fleet = make_fleet(told.data, told.devices, seed)
        for name, size, lie in (
            ("one sum", 0, None),
            ("buckets", told.bucket, None),
            ("one sum, own update x -100", 0, flip),
            ("buckets, own update x -100", told.bucket, flip),
        ):
            percent, kept = play(fleet, size, told.rounds, seed, lie)
            right.setdefault(name, []).append(percent)
            if name == "buckets":
                for number, updates in enumerate(kept):
                    for liar, moved in measure(updates, told.bucket, 1000 * seed + number).items():
                        found[liar].append(moved)
    pieces = bucket_count(told.devices, told.bucket)
    print(f"{told.devices} devices in {pieces} buckets: one liar moves the model, in what an honest device moves it")
    head = ["liar", "one sum: with/without", "update/n", "buckets: with/without", "update/n", "absent", "most"]
    print(table(head, [[name, *_worst(rounds)] for name, rounds in found.items()]))
    print(f"\npercent right after {told.rounds} rounds, by seed")
    print(table(["", *told.seeds.split(",")], [[name, *(f"{p:.1f}" for p in each)] for name, each in right.items()]))
    return 0


def _worst(rounds: Sequence[Moved]) -> list[str]:
    figures = (
        [each.before / each.alone for each in rounds],
        [each.before / each.share for each in rounds],
        [each.after / each.alone for each in rounds],
        [each.after / each.share for each in rounds],
        [each.absent / each.alone for each in rounds],
        [each.after / each.most for each in rounds],
    )
    return ["aborted" if max(each) == np.inf else f"{max(each):.1f}" for each in figures]


if __name__ == "__main__":
    sys.exit(main())
