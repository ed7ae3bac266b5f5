"""A membership-inference attack on the plug-in's updates: which of a person's clips did a device train on?

The attacker is a coordinator that sees the model w^t that it sent and the update that came back. Of each speaker half
of the clips are on the device, half are not; the score of a clip is loss(w^t) - loss(w_k), how much better the update
knows it (Yeom et al. 2018, https://arxiv.org/abs/1709.01604, with the loss before as reference). Printed are the area
under the curve of all clips (0.5: nothing), and the share of members that are found with one false one in twenty:
without anything, with clipping, with the noise of a round of so many devices; and epsilon of that round's device view.

    python bench/membership.py --data DIR [--data DIR2] [--speakers 40] [--noise 1] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.wire.plan import Noise
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.accounting import device_epsilon
from auricle_learning.training.noise import with_noise
from bench.comparison_table import table
from bench.privacy_speech import Speech

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

    def __init__(self, speech: Speech, speakers: int, rounds: int) -> None:
        names = np.unique(speech.speakers).tolist()
        counts = {name: np.flatnonzero(speech.speakers == name) for name in names}
        many = [name for name in names if len(counts[name]) >= LEAST]
        chosen = sorted(many, key=lambda name: -len(counts[name]))[:speakers]
        others = np.flatnonzero(~np.isin(speech.speakers, chosen))
        self._speech, self.start = speech, speech.first(others, rounds)
        draw = np.random.default_rng(2)
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

    def _losses(self, weights: Flat, clips: NDArray[np.intp]) -> NDArray[np.float64]:
        logits = self._speech.evaluator(clips).logits(weights).astype(np.float64)
        top = logits.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        return np.asarray(total - logits[np.arange(len(clips)), self._speech.targets[clips]], np.float64)


class Row(NamedTuple):
    """How well the attack does."""

    case: str
    area: float
    found: float
    epsilon: float


def _written(epsilon: float) -> str:
    return "-" if math.isinf(epsilon) else f"{epsilon:,.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="Speech Commands; repeatable.")
    parser.add_argument("--speakers", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=12, help="That the first model has learnt from others.")
    parser.add_argument("--noise", type=float, default=1.0, help="Noise multiplier of a round's sum.")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    attack = Attack(Speech.read(told.data, unheard=50), told.speakers, told.rounds)
    clip = float(np.median(attack.norms))
    cases: list[tuple[str, Noise | None]] = [("as it is", None), ("clipped", Noise(clip=clip, deviation=0.0))]
    for devices in (10_000, 1000, 100, 10):
        cases.append((f"a round of {devices:,}", Noise(clip=clip, deviation=told.noise * clip / math.sqrt(devices))))
    rows: list[Row] = []
    for name, noise in cases:
        sent = attack.trained if noise is None else [with_noise(attack.start, w, noise) for w in attack.trained]
        members, others = attack.scores(sent)
        epsilon = device_epsilon([noise.deviation / (2 * clip)], DELTA) if noise else math.inf
        rows.append(Row(name, area(members, others), found_at(members, others), epsilon))
        if told.json:
            print(json.dumps({**rows[-1]._asdict(), "epsilon": _written(epsilon), "clip": clip}))
    if not told.json:
        print(f"{len(attack.trained)} devices, clip {clip:.3g}, noise multiplier {told.noise:g}")
        lines = [[r.case, f"{r.area:.3f}", f"{r.found:.1%}", _written(r.epsilon)] for r in rows]
        print(table(["update", "area under the curve", "members found at 5 % false", "epsilon"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
