"""What noise costs: accuracy of fleets of 10 to 10,000 devices at an epsilon, on recorded words and unheard speakers.

Ten command words, the whole plug-in, federated averaging from a model that has learnt some rounds from other people.
Rounds draw devices as the coordinator does; each has ten clips of the recordings, which others have too where there are
more devices than clips. For each epsilon of the fleet view that noise multiplier is taken which gives it after all
rounds. Noise is of a seeded generator, so that the table can be repeated; that of devices is not.

    python bench/privacy_table.py --data DIR [--data DIR2] [--rounds 5] [--epsilons 8] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.wire.plan import Noise
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.accounting import Release, device_epsilon, fleet_epsilon
from auricle_learning.training.noise import with_noise
from bench.comparison_table import table
from bench.privacy_speech import PLAN, Speech

CLIPS = 10
"""Of a device."""
NOISE = "noise of a seeded generator"
OFTEN = replace(PLAN, epochs=5)


class Fleet(NamedTuple):
    """How many devices there are, and how many are drawn for a round on average."""

    devices: int
    cohort: int

    @property
    def sampling(self) -> float:
        """Probability with which a device is drawn."""
        return self.cohort / self.devices

    @property
    def delta(self) -> float:
        """A tenth of one by the number of devices, at most 1e-5 where these are few."""
        return min(1e-5, 0.1 / self.devices)


FLEETS = (Fleet(10, 10), Fleet(100, 30), Fleet(1000, 50), Fleet(10_000, 100))


class Row(NamedTuple):
    """A fleet's result."""

    fleet: Fleet
    epsilon: float
    multiplier: float
    device_epsilon: float
    right: float


def multiplier_for(fleet: Fleet, rounds: int, epsilon: float) -> float:
    """The least noise multiplier, in hundredths, with at most this epsilon after so many rounds."""
    low, high = 1, 100_000
    while low < high:
        middle = (low + high) // 2
        spent = fleet_epsilon([Release(fleet.sampling, middle / 100)] * rounds, fleet.delta).epsilon
        low, high = (low, middle) if spent <= epsilon else (middle + 1, high)
    return low / 100


def play(speech: Speech, start: Flat, fleet: Fleet, rounds: int, noise: Noise | None) -> float:
    """Run the rounds; the share of the unheard speakers' clips that is right afterwards."""
    draw, weights = np.random.default_rng(fleet.devices), start
    own = [draw.choice(speech.heard, CLIPS, replace=False) for _ in range(fleet.devices)]
    for number in range(rounds):
        chosen = np.flatnonzero(draw.random(fleet.devices) < fleet.sampling).tolist()
        total = np.zeros(len(start))
        for device in chosen:
            trained = speech.trained(weights, own[device], number, device, OFTEN)
            total += (trained if noise is None else with_noise(weights, trained, noise, draw)) - weights
        if chosen:
            weights = np.asarray(weights + total / len(chosen), np.float32)
    return float(speech.judge.scores(weights[None]).accuracy[0])


def rows_of(speech: Speech, start: Flat, fleet: Fleet, told: argparse.Namespace, clip: float) -> list[Row]:
    """A fleet without noise, and at each epsilon."""
    found = [Row(fleet, math.inf, 0.0, math.inf, play(speech, start, fleet, told.rounds, None))]
    for epsilon in map(float, told.epsilons.split(",")):
        multiplier = multiplier_for(fleet, told.rounds, epsilon)
        noise = Noise(clip=clip, deviation=multiplier * clip / math.sqrt(fleet.cohort))
        # As often as the device that was drawn most often is on average: not above all rounds.
        often = min(told.rounds, math.ceil(told.rounds * fleet.sampling + 3 * math.sqrt(told.rounds * fleet.sampling)))
        single = device_epsilon([noise.deviation / (2 * clip)] * often, fleet.delta)
        found.append(Row(fleet, epsilon, multiplier, single, play(speech, start, fleet, told.rounds, noise)))
    return found


def printed(rows: Sequence[Row], start: float) -> str:
    """The table."""
    lines = [
        [
            f"{row.fleet.devices:,}",
            f"{row.fleet.cohort}",
            "none" if math.isinf(row.epsilon) else f"{row.epsilon:g}",
            f"{row.fleet.delta:g}",
            f"{row.multiplier:.2f}",
            "-" if math.isinf(row.device_epsilon) else f"{row.device_epsilon:,.0f}",
            f"{100 * row.right:.1f} %",
        ]
        for row in rows
    ]
    head = ["devices", "a round", "epsilon", "delta", "multiplier", "epsilon of the device view", "right"]
    return f"the first model: {100 * start:.1f} %; {NOISE}\n{table(head, lines)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="Speech Commands; repeatable.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=int, default=8, help="Rounds that the first model has learnt alone.")
    parser.add_argument("--epsilons", default="8")
    parser.add_argument("--devices", default="10,100,1000,10000", help="Of the fleets.")
    parser.add_argument("--clip", type=float, default=0.3, help="Clipping norm.")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    speech = Speech.read(told.data, unheard=150)
    public = np.random.default_rng(5).choice(speech.heard, len(speech.heard) // 5, replace=False)
    start = speech.first(public, told.before, devices=1)
    right = float(speech.judge.scores(start[None]).accuracy[0])
    rows: list[Row] = []
    for fleet in (fleet for fleet in FLEETS if str(fleet.devices) in told.devices.split(",")):
        for row in rows_of(speech, start, fleet, told, told.clip):
            rows.append(row)
            if told.json:
                print(json.dumps({**row._asdict(), "start": right, "noise": NOISE}), flush=True)
    if not told.json:
        print(printed(rows, right))
    return 0


if __name__ == "__main__":
    sys.exit(main())
