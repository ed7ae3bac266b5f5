"""What one device of eleven does to a round by what it says of itself, over all methods, beside what it does to FedAvg.

Its update is as honest as the others'; it says one step, 2^40 steps, ten million clips, a loss of a million or of NaN,
or sends vectors of 10^4 beside its weights. The harm is how far the model, and what goes out with it, is from that of
the same round without the lie, relative to how far the honest round went; for a vector that goes out, relative to its
length. Printed as a multiple of the largest harm to FedAvg, the largest of the seeds; rules run as a coordinator runs
them, with its bounds, or alone with `--alone`. Last, how many models no limit of a coordinator would let pass as an
update, those of single devices among them: how these are grouped depends on directions alone, and is no part of the
harm.

    python bench/claims.py [--devices 11] [--seeds 5] [--alone]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle_cloud.rounds.model_check import require_model
from auricle_cloud.settings import Limits
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort, Float64Array, Layer
from auricle_learning.aggregation.extras import Extras, PlannedSteps
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.methods import METHODS, get_method
from auricle_learning.methods.method import Method
from bench.comparison_table import table

PACK = load_pack("gsc12").with_labels(("low", "middle", "high"))
CLASSES, WIDTH, SIZE, BATCH = 3, 4, 64, 16
HEAD = CLASSES * (WIDTH + 1)
LENGTH, STEP = 41.8, 1.0
"""Of the model, and of what the devices' updates have in common."""

Lie = Callable[[Cohort], Cohort]


def steps(count: float) -> Lie:
    """Say so many steps."""
    return lambda told: _extras(told, steps=_first(told.extras.steps, count))


def samples(count: float) -> Lie:
    """Say so many clips, and nothing about what was registered."""
    return lambda told: replace(told, samples=_first(told.samples, count))


def loss(value: float) -> Lie:
    """Say such a loss."""
    return lambda told: replace(told, losses=_first(told.losses, value))


def vectors(value: float) -> Lie:
    """Send such numbers in every vector beside the weights."""

    def lie(told: Cohort) -> Cohort:
        known = told.extras
        sent = {name: [np.full_like(rows[0], value), *rows[1:]] for name, rows in known.vectors.items()}
        assert known.maps is not None and known.gradients is not None
        gradients = [np.full_like(known.gradients[0], value), *known.gradients[1:]]
        return _extras(told, vectors=sent, maps=_first(known.maps, value), gradients=gradients)

    return lie


CLAIMS: dict[str, Lie] = {
    "1 step": steps(1),
    "2^40 steps": steps(2.0**40),
    "1e7 clips": samples(1e7),
    "loss 1e6": loss(1e6),
    "loss NaN": loss(np.nan),
    "vectors 1e4": vectors(1e4),
}


@dataclass(frozen=True)
class Harm:
    """What a lie did."""

    relative: float
    """The largest distance from the honest round's, of all that is published; infinite where it is not finite."""
    refused: bool
    """Whether it made a model that no update could be."""


def honest(method: Method, devices: int, seed: int) -> Cohort:
    """A round of devices that train the same way, with everything that a rule may ask for."""
    rng = np.random.default_rng([devices, seed])

    def unit(*shape: int) -> Float64Array:
        drawn = rng.standard_normal(shape)
        return np.asarray(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))

    start, common = (LENGTH * unit(SIZE)).astype(np.float32), STEP * unit(SIZE)
    clips = rng.integers(20, 61, devices).astype(float)
    by_class = rng.multinomial(20, np.full(CLASSES, 1 / CLASSES), devices) * clips[:, None] / 20
    target = start + 3 * common
    plan = method.plan_for(Plan(), method.rule.options)
    sent = {vector.name: vector.numbers(PACK, plan) for vector in method.needs.up}
    about = {name: unit(size) + unit(devices, size) / 2 for name, size in sent.items()}
    about |= {name: by_class for name in sent if sent[name] == CLASSES}
    gradients = unit(CLASSES, HEAD) + unit(devices, CLASSES, HEAD) / 2
    return Cohort.build(
        ids=[f"dev-{k:02d}" for k in range(devices)],
        weights=(start + common + STEP * unit(devices, SIZE)).astype(np.float32),
        samples=clips,
        losses=0.5 + rng.random(devices) / 4,
        start=start,
        layers=(Layer("front", (slice(0, SIZE - HEAD),)), Layer("head", (slice(SIZE - HEAD, SIZE),))),
        extras=Extras(
            steps=np.ceil(clips / BATCH),
            planned=PlannedSteps(1, 1, BATCH),
            maps=np.abs(unit(6) + unit(devices, 6) / 2),
            gradients=list(gradients),
            vectors={name: list(rows) for name, rows in about.items()},
            labelled=np.ones(devices),
            objectives=(lambda weights: (float(np.square(weights - target).sum()) / 2, weights - target),),
            reference_samples=20.0,
            rate=0.1,
            clients=devices,
            round=1,
        ),
    )


def published(method: Method, made: Aggregate) -> dict[str, Float64Array]:
    """What a round hands out: the model, and what goes out beside it."""
    out = {"": made.weights.astype(np.float64)}
    sizes = {} if made.state is None else {name: values.size for name, values in made.state.arrays.items()}
    wanted = {vector.name: sizes.get(vector.name, SIZE) for vector in method.needs.down}
    return out | {name: vector.astype(np.float64) for name, vector in method.sent(made.state, wanted).items()}


def harm(name: str, claim: str, devices: int = 11, seed: int = 0, *, alone: bool = False) -> Harm:
    """What a lie does to a method's round.

    Parameters
    ----------
    name, claim
        Of `METHODS` and `CLAIMS`.
    devices, seed
        Of the round; the first of them lies.
    alone
        Whether the rule is alone, without a coordinator's bounds.
    """
    method = get_method(name)
    rule = method.rule_for_rounds if alone else BoundedRule(method.rule_for_rounds)
    true = honest(method, devices, seed)
    with np.errstate(all="ignore"):
        made, lied = rule(true), rule(CLAIMS[claim](true))
        due, found = published(method, made), published(method, lied)
    worst = max(_distance(due[part], found[part], true.start, part) for part in due)
    try:
        require_model(NextModel(np.asarray(lied.weights, np.float32), None, lied), true.start, Limits(), name)
    except AuricleError:
        return Harm(worst, refused=True)
    return Harm(worst, refused=False)


def harms(devices: int, seeds: int, *, alone: bool) -> tuple[dict[str, dict[str, float]], int]:
    """The harm of each method under each claim as a multiple of the largest to FedAvg, and how many models are refused.

    That of FedAvg is the mean over the seeds of its coordinator's, with bounds.
    """
    usual = max(np.mean([harm("fedavg", claim, devices, seed).relative for seed in range(seeds)]) for claim in CLAIMS)
    found: dict[str, dict[str, float]] = {}
    refused = 0
    for name in METHODS:
        each = {claim: [harm(name, claim, devices, seed, alone=alone) for seed in range(seeds)] for claim in CLAIMS}
        found[name] = {claim: max(one.relative for one in of) / float(usual) for claim, of in each.items()}
        refused += sum(any(one.refused for one in of) for of in each.values())
    return found, refused


def _distance(due: Float64Array, found: Float64Array, start: np.ndarray, part: str) -> float:
    """Relative to how far the honest one went, the model from w^t, anything else from 0."""
    if not np.isfinite(found).all():
        return np.inf
    went = float(np.linalg.norm(due if part else due - start))
    return float(np.linalg.norm(found - due)) / (went or 1.0)


def _first(values: Float64Array | None, value: float) -> Float64Array:
    assert values is not None
    changed = values.copy()
    changed[0] = value
    return changed


def _extras(told: Cohort, **parts: object) -> Cohort:
    return replace(told, extras=replace(told.extras, **parts))  # type: ignore[arg-type]


def rows_of(found: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """The table's rows."""
    return [[name, *(f"{ratio:.3g}" for ratio in row.values())] for name, row in found.items()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=11)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--alone", action="store_true")
    told = parser.parse_args()
    found, refused = harms(told.devices, told.seeds, alone=told.alone)
    print(table(["method", *CLAIMS], rows_of(found)))
    worst, name, claim = max((ratio, name, claim) for name, row in found.items() for claim, ratio in row.items())
    print(f"\nlargest harm: {worst:.3g} times FedAvg's ({name}, {claim}); models beyond the limits: {refused}")


if __name__ == "__main__":
    main()
