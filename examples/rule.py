"""An aggregation rule of your own, tried on a cohort with a liar in it.

python examples/rule.py
pip install --no-deps ./examples        # pyproject.toml beside it names the rule to every auricle command
auricle fleet run --method nearest-half
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort, Layer
from auricle_learning.aggregation.options import Options, Part
from auricle_learning.aggregation.rules import Rule
from auricle_learning.aggregation.rules.average import average, sample_share, unchanged
from auricle_learning.methods import get_rule


class NearestHalf(Options, frozen=True):
    part: Annotated[Part, Meta(description="Of the clients, those that moved least.")] = 0.5


def nearest_half(cohort: Cohort, options: NearestHalf) -> Aggregate:
    """Average the part of the clients that moved least."""
    if not cohort.ids:
        return unchanged(cohort)
    whole = [(slice(0, cohort.start.size),)]
    moved = cohort.matrix.layer_norms(whole, centre=cohort.start.astype(np.float64))[:, 0]
    nearest = np.argsort(moved, kind="stable")[: max(1, int(options.part * len(moved)))]
    kept = np.zeros((len(cohort.ids), len(cohort.layers)), bool)
    kept[nearest] = True
    share = sample_share(cohort.samples, kept)
    return Aggregate(
        average(cohort, share),
        cohort.ids,
        cohort.names,
        kept,
        share,
        dropped=cohort.dropped,
        score=moved,
        score_of="norm of the update",
    )


rule = Rule("nearest-half", nearest_half, NearestHalf(), mean=True)


def main() -> None:
    cohort = Cohort.build(
        ids=["ana", "ben", "eve", "kim"],
        weights=np.array([[1.0, 1.1], [1.2, 0.9], [-50.0, 50.0], [0.8, 1.0]], np.float32),
        samples=[20, 20, 20, 20],
        start=np.zeros(2, np.float32),
        layers=[Layer("all", (slice(0, 2),))],
    )
    for tried in (get_rule("fedavg"), rule):
        made = tried(cohort)
        print(f"{tried.name:13} {made.weights.round(2).tolist()}  counted: {', '.join(made.explain()[0]['kept'])}")


if __name__ == "__main__":
    main()
