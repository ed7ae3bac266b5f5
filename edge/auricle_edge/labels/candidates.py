"""What a model's posteriors make of a clip that nobody labelled (FixMatch: sure, sure of nothing, or the middle)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.speech.words import SPECIAL_LABELS
from auricle_edge.clips import ClipStore, Source
from auricle_edge.clips.coding import energies_of
from auricle_edge.labels.settings import LabelSettings

Recognise = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Posteriors (N, L) of log-mels (N, T, mels)."""


@dataclass(frozen=True)
class Opinion:
    """What a model thinks of a clip."""

    source: Source
    """`pseudo`: sure of a word; `ambient`: sure that it is none; `unlabelled`: the middle."""
    word: str
    """The likeliest label."""
    score: float
    """Its posterior."""


def opinion(posteriors: NDArray[Any], labels: Sequence[str], threshold: float) -> Opinion:
    """Judge by the posteriors (L,) of one clip: sure is max_l p_l >= threshold (FixMatch, Sohn et al. 2020, eq. 4).

    Of labels that are equally likely the first counts. Posteriors that are not finite are the middle.
    """
    if not np.isfinite(posteriors).all():
        return Opinion("unlabelled", labels[0], 0.0)
    best = int(np.argmax(posteriors))
    score = float(np.clip(posteriors[best], 0, 1))
    sure: Source = "ambient" if labels[best] in SPECIAL_LABELS else "pseudo"
    return Opinion(sure if score >= threshold else "unlabelled", labels[best], score)


def weight_of(source: Source, settings: LabelSettings) -> float:
    """What a clip of this source weighs in training."""
    weights: dict[Source, float] = {
        "enrolled": settings.enrolled_weight, "confirmed": settings.confirmed_weight,
        "denied": settings.denied_weight, "missed": settings.missed_weight, "ambient": settings.ambient_weight,
        "pseudo": settings.pseudo_weight, "unlabelled": 0.0,
    }  # fmt: skip
    return weights[source]


def reconsider(store: ClipStore, recognise: Recognise, settings: LabelSettings) -> int:
    """Let today's model judge the unlabelled clips; returns how many got a label.

    For after a round: what it is sure of becomes `pseudo` or `ambient`; the middle stays unlabelled, is trained on with
    no label, and is discarded when `unlabelled_days` are over.
    """
    labelled = 0
    for clip in store.list(source="unlabelled"):
        try:
            energies = energies_of(store.content(clip), store.frontend)
            found = opinion(
                recognise(store.frontend.finish(energies[np.newaxis]))[0], store.labels, settings.pseudo_threshold
            )
            if found.source != "unlabelled":
                store.relabel(clip.id, found.word, found.source, weight_of(found.source, settings), score=found.score)
                labelled += 1
        except (DataError, SettingsError):
            continue
    return labelled
