"""Who did not count in a round: layer by layer by the rule's own report, and who refused it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auricle.wire.messages import WORSE


class _Layer(msgspec.Struct):
    layer: str
    kept: frozenset[str]
    share: dict[str, float | None]


class _Report(msgspec.Struct):
    layers: tuple[_Layer, ...] = ()
    dropped: tuple[str, ...] = ()


def left_out(report: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
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
        layer.layer: tuple(sorted({*told.dropped, *(name for name in layer.share if not _counts(layer, name))}))
        for layer in told.layers
    }


def _counts(layer: _Layer, name: str) -> bool:
    return name in layer.kept and layer.share[name] != 0


def refusals(failed: Mapping[str, str]) -> list[str]:
    """The devices whose judge refused a round, of those that failed or declined and what they said."""
    return sorted(name for name, reason in failed.items() if reason.startswith(WORSE))
