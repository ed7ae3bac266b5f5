"""Membership inference: which of a person's clips did a device train on, by its update, maps or class means?

The attacker is a coordinator that sees the model w^t that it sent and the update that came back. Of each speaker half
of the clips are on the device, half are not; the score of a clip is loss(w^t) - loss(w_k), how much better the update
knows it (Yeom et al. 2018, https://arxiv.org/abs/1709.01604, with the loss before as reference). Printed are the area
under the curve of all clips (0.5: nothing), and the share of members that are found with one false one in twenty:
without anything, with clipping, with the noise of a round of so many devices; and epsilon of that round's device view.
Of what some methods add, the score of a clip is how near to what was sent is what the clip alone would send: of maps of
the received model their correlation; of class means the distance to its word's, by the attacker's guess of the device's
own model, which is the received one, or by that model itself, as gradients of the classifier let it. Who is on the
device is drawn again for each seed; figures are means over seeds, with their standard deviation.

    python bench/membership.py --data DIR [--data DIR2] [--speakers 40] [--noise 1] [--seeds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.speech.features import LogMel
from auricle.wire.plan import Noise
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.accounting import device_epsilon
from auricle_learning.training.noise import with_noise
from bench.comparison_table import table
from bench.privacy_net import AttackedNet, unit
from bench.privacy_speech import PLAN, Speech

DELTA = 1e-5
LEAST = 16
"""Clips of a speaker that is attacked."""


def area(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Probability that a member scores higher than another clip; ties count half."""
    order = np.sort(others)
    below, equal_or_below = np.searchsorted(order, members, "left"), np.searchsorted(order, members, "right")
    return float((below + equal_or_below).mean() / (2 * len(others)))


def found_at(members: NDArray[np.float64], others: NDArray[np.float64], false: float = 0.05) -> float:
    """Share of members above the score that the share `false` of the others is above."""
    return float((members > np.quantile(others, 1 - false)).mean())


class Attack:
    """Devices of speakers with clips on and off them, and what they sent after one round."""

    def __init__(self, speech: Speech, speakers: int, rounds: int, seed: int = 0, start: Flat | None = None) -> None:
        names = np.unique(speech.speakers).tolist()
        counts = {name: np.flatnonzero(speech.speakers == name) for name in names}
        many = [name for name in names if len(counts[name]) >= LEAST]
        chosen = sorted(many, key=lambda name: -len(counts[name]))[:speakers]
        others = np.flatnonzero(~np.isin(speech.speakers, chosen))
        self._speech, self.start = speech, speech.first(others, rounds) if start is None else start
        draw = np.random.default_rng(2 + seed)
        halves = [np.array_split(draw.permutation(counts[speaker]), 2) for speaker in chosen]
        self._clips = [(on, off) for on, off in halves]
        self.trained = [speech.trained(self.start, on, 0, place) for place, (on, _) in enumerate(self._clips)]
        self.norms = [float(np.linalg.norm(weights - self.start)) for weights in self.trained]

    def scores(self, sent: list[Flat]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of the clips on the devices, and of the others."""
        found: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        for weights, halves in zip(sent, self._clips, strict=True):
            for place, clips in enumerate(halves):
                found[place].append(self._losses(self.start, clips) - self._losses(weights, clips))
        return np.concatenate(found[0]), np.concatenate(found[1])

    def by_maps(self, net: AttackedNet, clips: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same by the activation maps of the devices' rounds, of log-mels (N, T, mels) of all clips."""
        found: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        for on, off in self._clips:
            words = self._speech.targets[on].tolist()
            sent = unit(net.sent_map(self.start, clips[on], words, PLAN.epochs, PLAN.rate))
            for place, asked in enumerate((on, off)):
                found[place].append(unit(net.maps(self.start, clips[asked])) @ sent)
        return np.concatenate(found[0]), np.concatenate(found[1])

    def by_means(
        self, net: AttackedNet, clips: NDArray[np.float32], *, known: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same by class means, of clips whose word is on the device.

        Parameters
        ----------
        known
            Whether the attacker has the model that they are of.
        """
        found: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        for trained, (on, off) in zip(self.trained, self._clips, strict=True):
            sees, words = net.features(trained, clips[on]), self._speech.targets[on]
            sent = {word: sees[words == word].mean(0) for word in np.unique(words).tolist()}
            for place, asked in enumerate((on, off)):
                asked = asked[np.isin(self._speech.targets[asked], words)]
                own = net.features(trained if known else self.start, clips[asked])
                near = [sent[word] for word in self._speech.targets[asked].tolist()]
                found[place].append(-np.linalg.norm(own - np.reshape(near, own.shape), axis=1))
        return np.concatenate(found[0]), np.concatenate(found[1])

    def _losses(self, weights: Flat, clips: NDArray[np.intp]) -> NDArray[np.float64]:
        logits = self._speech.evaluator(clips).logits(weights).astype(np.float64)
        top = logits.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        return np.asarray(total - logits[np.arange(len(clips)), self._speech.targets[clips]], np.float64)


class Row(NamedTuple):
    """How well the attack does, a figure a seed."""

    case: str
    areas: list[float]
    found: list[float]
    """At 5 % false ones."""
    seldom: list[float]
    """At 1 %."""
    epsilon: float = math.inf

    def add(self, members: NDArray[np.float64], others: NDArray[np.float64]) -> None:
        """Take the scores of another seed."""
        self.areas.append(area(members, others))
        self.found.append(found_at(members, others))
        self.seldom.append(found_at(members, others, 0.01))

    def line(self) -> list[str]:
        """Of the table."""
        shares = [f"{100 * fmean(each):.1f} % ± {100 * _deviation(each):.1f}" for each in (self.found, self.seldom)]
        return [self.case, f"{fmean(self.areas):.3f} ± {_deviation(self.areas):.3f}", *shares, _written(self.epsilon)]


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def row_of(rows: list[Row], case: str, noise: Noise | None = None) -> Row:
    """The row of a case, made if it is missing."""
    for row in rows:
        if row.case == case:
            return row
    epsilon = device_epsilon([noise.deviation / (2 * noise.clip)], DELTA) if noise else math.inf
    rows.append(Row(case, [], [], [], epsilon))
    return rows[-1]


def _written(epsilon: float) -> str:
    return "-" if math.isinf(epsilon) else f"{epsilon:,.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="Speech Commands; repeatable.")
    parser.add_argument("--speakers", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=12, help="That the first model has learnt from others.")
    parser.add_argument("--noise", type=float, default=1.0, help="Noise multiplier of a round's sum.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    speech = Speech.read(told.data, unheard=50)
    net, clips = AttackedNet(speech.pack), LogMel(speech.pack.manifest.task).finish(speech.energies)
    rows, start, clip = list[Row](), None, 0.0
    for seed in range(told.seeds):
        attack = Attack(speech, told.speakers, told.rounds, seed, start)
        start, clip = attack.start, clip or float(np.median(attack.norms))
        cases: list[tuple[str, Noise | None]] = [
            ("update as it is", None),
            ("clipped", Noise(clip=clip, deviation=0.0)),
        ]
        for devices in (10_000, 1000, 100, 10):
            noise = Noise(clip=clip, deviation=told.noise * clip / math.sqrt(devices))
            cases.append((f"a round of {devices:,}", noise))
        for name, each in cases:
            sent = attack.trained if each is None else [with_noise(attack.start, w, each) for w in attack.trained]
            row_of(rows, name, each).add(*attack.scores(sent))
        row_of(rows, "activation maps").add(*attack.by_maps(net, clips))
        row_of(rows, "class means").add(*attack.by_means(net, clips, known=False))
        row_of(rows, "class means of a known model").add(*attack.by_means(net, clips, known=True))
    if told.json:
        for row in rows:
            print(json.dumps({**row._asdict(), "epsilon": _written(row.epsilon), "clip": clip}))
    else:
        print(f"{told.speakers} devices, clip {clip:.3g}, noise multiplier {told.noise:g}")
        head = ["what was sent", "area under the curve", "found at 5 % false", "at 1 % false", "epsilon"]
        print(table(head, [row.line() for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
