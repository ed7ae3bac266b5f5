"""What a model's posteriors make of a clip that nobody labelled (FixMatch: sure, sure of nothing, or the middle)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.packs.manifest import SPECIAL_LABELS, UNKNOWN
from auricle_edge.clips import ClipStore, Source
from auricle_edge.clips.coding import energies_of
from auricle_edge.clips.record import SOURCES, WORDLESS, Record
from auricle_edge.labels.settings import LabelSettings

Recognise = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Posteriors (N, L) of log-mels (N, T, mels)."""


@dataclass(frozen=True)
class Opinion:
    """What a model thinks of a clip."""

    source: Source
    """`pseudo`: sure of a word; `ambient`: sure that it is not a word; `unlabelled`: the middle."""
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
    """What a clip of this source weighs in training: the setting `<source>_weight` where there is one."""
    kind = SOURCES[source]
    return float(getattr(settings, f"{source}_weight", kind.weight)) if kind.labelled else kind.weight


def label_again(clip: Record, found: Opinion, settings: LabelSettings) -> tuple[str, Source, float] | None:
    """Label, source and weight that a later model gives a clip without a label; None: it goes on waiting.

    - `unlabelled`: what the model is sure of (`pseudo_threshold`).
    - `near`, a word that was almost heard and that silence denied: a negative, where no keyword is likeliest any more.
    - `repeated`, a word that was almost heard before it was heard: that word, where it is the likeliest now.

    The last two have what people did for a witness, so the model need not be sure, but it may not contradict; they
    weigh `near_weight`.
    """
    if clip.source == "unlabelled":
        sure = found.source != "unlabelled"
        return (found.word, found.source, weight_of(found.source, settings)) if sure else None
    if clip.source == "near" and found.score and found.word in SPECIAL_LABELS:
        return UNKNOWN, "ambient", settings.near_weight
    if clip.source == "repeated" and found.score and found.word == clip.guess:
        return found.word, "pseudo", settings.near_weight
    return None


def reconsider(store: ClipStore, recognise: Recognise, settings: LabelSettings) -> int:
    """Let today's model judge the clips without a label; returns how many got one.

    For after a round: see `label_again`. What stays `unlabelled` is trained on with no label; all that stays is
    discarded when `unlabelled_days` are over.
    """
    labelled = 0
    for clip in store.list():
        if clip.record.source not in WORDLESS:
            continue
        try:
            energies = energies_of(store.content(clip), store.frontend)
            posteriors = recognise(store.frontend.finish(energies[np.newaxis]))[0]
            found = opinion(posteriors, store.labels, settings.pseudo_threshold)
            given = label_again(clip.record, found, settings)
            if given is not None:
                word, source, weight = given
                store.relabel(clip.id, word, source, weight, score=found.score)
                labelled += 1
        except (DataError, SettingsError):
            continue
    return labelled
