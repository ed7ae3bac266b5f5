"""Emulated devices of whose clips somebody has named only some, or none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from auricle_learning.training.speech_data import DeviceData


def named_count(clips: int, share: float) -> int:
    """How many of so many clips have labels when this share does."""
    return clips if share >= 1 else math.ceil(share * clips - 1e-9)


def with_labels_of(data: DeviceData, share: float, seed: int) -> DeviceData:
    """A device's clips with labels on a share of them, drawn by the seed; the others are sound and no more.

    Parameters
    ----------
    data
        With labels on all.
    share
        1: as it is. 0: no clip is labelled, so that none is held out to judge by either; what was is left out.
    """
    if share >= 1:
        return data
    train, held_out = data.train, data.held_out
    order = np.random.default_rng([seed, 37]).permutation(len(train))
    named = named_count(len(train), share)
    free = train.chosen(np.sort(order[named:]))
    nothing = np.arange(0)
    return replace(
        data,
        train=train.chosen(np.sort(order[:named])),
        held_out=held_out if named else held_out.chosen(nothing),
        unlabelled=free if len(free) else None,
    )
