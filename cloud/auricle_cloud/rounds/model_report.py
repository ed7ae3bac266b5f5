"""What a round's report says of the model that it made: of live rounds and of those of the virtual engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from auricle_cloud.states.report import Document
from auricle_cloud.storage.rows import UpdateRow
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.extras import Clusters, Synthesis


def report_model(aggregate: Aggregate, updates: Sequence[UpdateRow | Mapping[str, object]]) -> Document:
    """What the rule made of a round's updates, device by device and layer by layer.

    Parameters
    ----------
    aggregate
        Its answer.
    updates
        Those that the round counted, with `left_out`.
    """
    direction = aggregate.direction
    return {
        "updates": list(updates),
        "layers": aggregate.explain(),
        "flag": aggregate.flag,
        "dropped": list(aggregate.dropped),
        "warnings": list(aggregate.warnings),
        "bounded": [entry._asdict() for entry in aggregate.bounded],
        **report_groups(aggregate.ids, aggregate.clusters),
        **report_synthesis(aggregate.synthesis),
        "evaluated": aggregate.evaluated is not None,
        **({} if direction is None else {"direction": direction.report(aggregate.ids)}),
    }


def report_groups(ids: Sequence[str], found: Clusters | None) -> Document:
    """Which devices belong together; nothing where the rule makes no groups."""
    if found is None:
        return {}
    of = dict(zip(ids, found.labels, strict=True))
    return {"groups": {"of": of, "silhouette": found.silhouette, "own_models": found.models is not None}}


def report_synthesis(found: Synthesis | None) -> Document:
    """What became of the features that stand for all clients'; nothing where no gradient came."""
    return {} if found is None else {"prior_knowledge": asdict(found)}
