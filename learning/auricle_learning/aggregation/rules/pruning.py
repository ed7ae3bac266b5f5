"""Options by which a rule says that it prunes: what of a cohort is left out of each layer (FedMLAC, eq. 11-12)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError
from auricle_learning.aggregation.options import Options, Part
from auricle_learning.aggregation.rules.average import FLOOR_SLACK

PruneLow = Annotated[
    Part,
    Meta(description="v_l, the fraction left out of each layer for deviating least (A14)."),
]
PruneHigh = Annotated[Part, Meta(description="v_h, the fraction left out for deviating most.")]


class PruningOptions(Options, frozen=True):
    """Options of a rule that prunes; a coordinator fits them to a cohort of which they leave nobody out.

    Raises
    ------
    SettingsError
        The fractions could leave no client in a layer: they sum to 1 or more (up to the slack of A12).
    """

    prune_low: PruneLow = 0.1
    prune_high: PruneHigh = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prune_low + self.prune_high >= 1.0 - 2 * FLOOR_SLACK:
            raise SettingsError(
                f"prune_low {self.prune_low:g} and prune_high {self.prune_high:g} sum to 1 or more and would leave no "
                "client; lower one of them."
            )

    @property
    def farthest(self) -> float:
        """The fraction that is left out for deviating most; 0 where nobody is."""
        return self.prune_high

    def leave_out(self, farthest: float) -> PruningOptions:
        """The same options with this fraction of those who deviate most left out, and of the others nobody."""
        return msgspec.structs.replace(self, prune_low=0.0, prune_high=farthest)
