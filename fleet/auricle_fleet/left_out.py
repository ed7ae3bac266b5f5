"""Who did not count in a round, layer by layer, from what the coordinator's rule itself reported."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class _Layer(msgspec.Struct):
    layer: str
    kept: frozenset[str]
    share: dict[str, float | None]


class _Report(msgspec.Struct):
    layers: tuple[_Layer, ...] = ()
    dropped: tuple[str, ...] = ()


def left_out(report: Mapping[str, object]) -> dict[str, list[str]]:
    """Name the devices whose update did not count, by layer.

    Every rule reports `kept` and `share`, those of other packages too, so this holds for each of them. A device counts
    in a layer when the rule kept it and gave it some weight.

    Parameters
    ----------
    report
        What the coordinator stored of a round. A round that was aborted has no layers.

    Returns
    -------
    dict
        For each layer the ids in ascending order: those not kept, those kept with a weight of 0, and those whose
        update was not finite, which no rule gets to see.
    """
    told = msgspec.convert(report, _Report)
    return {
        layer.layer: sorted(
            {*told.dropped, *(name for name, weight in layer.share.items() if name not in layer.kept or weight == 0)}
        )
        for layer in told.layers
    }
