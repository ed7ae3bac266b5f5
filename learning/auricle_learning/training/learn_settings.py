"""How a device learns, and what its owner lets leave it: table `[learn]` of its settings."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.wire.kinds import Token

Part = Annotated[float, Meta(ge=0, le=1)]
OWN_SWITCH = ("maps", "gradients")
"""Vectors that have a switch of their own."""


class LearnSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[learn]`."""

    clips: Annotated[int, Meta(ge=1, le=100_000)] = 5
    """Fewest labelled clips to train on; with fewer the device declines."""
    confidence: Part = 0.7
    """Posterior from which the fleet's model is believed about a clip without a label (FixMatch's tau)."""
    unlabelled: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Weight of the loss on clips without labels (FixMatch's lambda); 0: they are not used."""
    maps: bool = False
    """Whether activation maps may leave the device with an update, where a plan asks for them; else it declines."""
    gradients: bool = False
    """Whether the classifier's gradients by class may leave the device with an update, where a round asks for them;
    else it takes part without."""
    vectors: Annotated[tuple[Token, ...], Meta(max_length=16)] = ()
    """Names of further vectors that may leave the device with an update, where a round's method asks for them; where it
    requires one that is not named here, the device declines."""
    require: Literal["secure-sum"] | None = None
    """What a round must have for the device to take part: a secure sum, in which no single update is seen."""
    largest_epsilon: Annotated[float, Meta(gt=0, le=700)] | None = None
    """Most that all its rounds with noise together may give away towards who sees its updates; a round without noise,
    or that would exceed it, is declined. None: rounds need no noise."""
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    """Chance that `largest_epsilon` does not hold."""
    carried: Annotated[float, Meta(ge=0, le=0.9)] = 0.5
    """Share of a batch's weight that windows of the pack's negatives have, less where the device has own negatives; 0:
    rounds train on the device's clips alone."""
    judge: bool = True
    """Whether a round that made the device worse is neither sent nor kept."""
    accept: Part = 0.5
    """Posterior from which the judge takes a keyword as heard: one window, where detection sees many and averages."""
    more_false_accepts: Part = 0.01
    """Most by which the share of held-out negatives that are taken for keywords may grow, as far as it is no chance."""
    less_accuracy: Part = 0.02
    """Most by which the share of held-out clips that are recognised, and on streams of held-out keywords that are
    heard, may fall, as far as it is no chance."""
    more_an_hour: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    """Most by which false accepts an hour on streams of negatives may grow, as far as it is no chance."""
    judged_minutes: Annotated[float, Meta(gt=0, le=1000)] = 15.0
    """Most minutes of the pack's negatives that a round is judged on, of the half of each stretch that nobody trains on
    its first part; a pack carries at most 13 minutes."""
    judged_share: Part = 1.0
    """Share of a device's rounds that are judged on streams, drawn round by round; held-out clips judge every round."""
    hears_more: Part = 0.1
    """Share of the held-out keywords by which a round must hear more, as far as it is no chance, so that false accepts
    of the best state, which heard less than half of them, are no standard for it."""
    chance: Annotated[float, Meta(gt=0, le=0.5)] = 0.05
    """Probability below which a change for the worse is no chance (one-sided sign test on the clips or seconds that
    changed)."""
    detector: Part = 0.1
    """Share of held-out keywords that a model must detect before its false accepts are a standard for the next one."""

    @property
    def allowed(self) -> frozenset[str]:
        """Names of all vectors that may leave the device."""
        return frozenset({*self.vectors, *(name for name in OWN_SWITCH if getattr(self, name))})
