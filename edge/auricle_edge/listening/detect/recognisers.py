"""What turns log-mels into posteriors, and which of a device's models does, by its own clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.packs.start import start_weights
from auricle_edge.listening.detect.rules import is_keyword
from auricle_learning.runtimes import Runtime, recogniser

Features = NDArray[np.float32]
Posteriors = NDArray[np.float32]
Recognise = Callable[[Features], Posteriors]
"""Posteriors (N, labels) of log-mels (N, T, mels)."""


def ensemble(parts: Sequence[Recognise]) -> Recognise:
    """Recognise by the mean of the posteriors of several."""

    def recognise(features: Features) -> Posteriors:
        mean: Posteriors = np.mean([part(features) for part in parts], axis=0, dtype=np.float32)
        return mean

    return recognise


SINGLE_POSTERIOR = 0.5
"""Posterior from which a keyword counts in a clip that is judged alone."""


@dataclass(frozen=True, eq=False)
class Cascade:
    """Two stages: the second judges only the windows in which the first proposes a keyword.

    A detector decides by its own averages and thresholds what is proposed (`Decider.proposes`); a window that was
    proposed counts with the mean of both posteriors, every other with those of the first stage alone. Called like any
    other recogniser, on clips that stand alone, it takes `SINGLE_POSTERIOR` for the threshold of every keyword.
    """

    first: Recognise
    second: Recognise
    keywords: NDArray[np.bool_]
    """(L,) labels that may be proposed."""
    share: float
    """Share of its threshold from which a keyword is proposed."""

    def judged(self, features: Features, proposed: Posteriors) -> Posteriors:
        """Posteriors (N, L) of windows (N, T, mels) that the first stage gave `proposed` (N, L)."""
        mean: Posteriors = ((proposed + self.second(features)) / 2).astype(np.float32)
        return mean

    def __call__(self, features: Features) -> Posteriors:
        """Posteriors (N, L) of clips (N, T, mels)."""
        found: Posteriors = self.first(features).copy()
        asked = (found[:, self.keywords] >= self.share * SINGLE_POSTERIOR).any(axis=1)
        if asked.any():
            found[asked] = self.judged(features[asked], found[asked])
        return found


ENOUGH_CLIPS = 10
"""Held-out clips of keywords without which nothing can be said."""
PROPOSED_SHARE = 0.1
"""Share of the windows that a second stage is taken to judge, where costs are compared."""


@dataclass(frozen=True)
class Candidate:
    """A model that could judge."""

    name: str
    """`personal`, `plugin`, `ensemble` or `cascade`."""
    recognise: Recognise
    cost: int
    """Weights that a window goes through: what it costs, relative to the others."""
    trained: bool = True
    """Whether it was ever trained."""
    rival: str | None = None
    """Name of a candidate that it must beat at equal false accepts, or it is not taken; None: of nobody."""


@dataclass(frozen=True)
class Merit:
    """What a candidate does on the held-out clips."""

    hits: int
    """Clips of keywords whose own posterior is the largest of all and reaches the threshold."""
    keywords: int
    false_accepts: int
    """Other clips in which a keyword's posterior is the largest and reaches the threshold."""
    others: int

    @property
    def value(self) -> float:
        """Share of hits less share of false accepts (Youden's index)."""
        return self.hits / max(self.keywords, 1) - self.false_accepts / max(self.others, 1)


@dataclass(frozen=True)
class ModelChoice:
    """The model that judges, and why."""

    candidate: Candidate
    reason: str
    merits: dict[str, Merit]
    """By name of the candidate; empty when there was too little to measure on."""


def both(personal: Candidate, plugin: Candidate) -> Candidate:
    """The mean of the posteriors of two candidates, as a third."""
    recognise = ensemble((personal.recognise, plugin.recognise))
    return Candidate("ensemble", recognise, personal.cost + plugin.cost, personal.trained and plugin.trained)


def cascade(plugin: Candidate, personal: Candidate, labels: Sequence[str], share: float) -> Candidate:
    """The plug-in, and the other one as its second stage, as another candidate (`Cascade`)."""
    keywords = np.array([is_keyword(label) for label in labels])
    recognise = Cascade(plugin.recognise, personal.recognise, keywords, share)
    cost = plugin.cost + round(PROPOSED_SHARE * personal.cost)
    return Candidate("cascade", recognise, cost, plugin.trained and personal.trained, rival=plugin.name)


def packs_candidate(runtime: Runtime, share: float, *, second_stage: bool = True) -> Candidate:
    """What a pack's thresholds were chosen with: its plug-in, and the second stage that it names.

    Parameters
    ----------
    share
        Of a threshold, from which the second stage is asked.
    second_stage
        Whether to take it where the pack has its weights.

    Raises
    ------
    PackError
        The pack has no trained weights, or they are not sound.
    """
    pack = runtime.pack

    def load(name: str, model: str) -> Candidate:
        weights = start_weights(pack, model)
        return Candidate(name, recogniser(runtime, model, weights), len(weights))

    plugin = load("plugin", pack.manifest.plugin)
    second = UNSET if pack.listening is None else pack.listening.second_stage
    if not second_stage or second is UNSET or second not in pack.manifest.start:
        return plugin
    return cascade(plugin, load("personal", second), pack.labels, share)


def merit(
    posteriors: NDArray[np.float32], targets: NDArray[np.int64], labels: Sequence[str], threshold: float
) -> Merit:
    """Count hits and false accepts of posteriors (N, L) on clips with labels (N,)."""
    is_word = np.array([is_keyword(label) for label in labels])
    best = posteriors.argmax(axis=1)
    said = is_word[best] & (posteriors.max(axis=1) >= threshold)
    word = is_word[targets]
    return Merit(
        hits=int((said & word & (best == targets)).sum()),
        keywords=int(word.sum()),
        false_accepts=int((said & ~word).sum()),
        others=int((~word).sum()),
    )


def choose_model(
    candidates: Sequence[Candidate],
    features: Features,
    targets: NDArray[np.int64],
    labels: Sequence[str],
    threshold: float = SINGLE_POSTERIOR,
) -> ModelChoice:
    """Take the candidate with the most hits less false accepts on held-out clips; of equals the cheapest.

    Where one was trained, none that was not is taken, however it happens to do. One with a rival is taken only where it
    has more hits than this at equal false accepts: each at its best threshold with no more false accepts than the more
    careful of the two makes at `threshold`.

    Parameters
    ----------
    candidates
        At least one, with different names.
    features, targets
        Log-mels (N, T, mels) and labels (N,) of the held-out clips.
    labels
        The pack's labels.
    threshold
        Posterior of a single window from which a keyword would count.

    Returns
    -------
    ModelChoice
        With too few clips, the plug-in where it was trained and the device's own model where not: a shared model is
        the safer one as long as nothing is known.
    """
    keywords = sum(is_keyword(labels[target]) for target in targets)
    if keywords < ENOUGH_CLIPS:
        return _choose_unmeasured(candidates, keywords)
    candidates = [c for c in candidates if c.trained] or candidates
    found = {c.name: c.recognise(features) for c in candidates}
    merits = {name: merit(posteriors, targets, labels, threshold) for name, posteriors in found.items()}

    def beats(name: str, rival: str) -> bool:
        accepts = min(merits[name].false_accepts, merits[rival].false_accepts)
        own, others = (most_hits(found[each], targets, labels, accepts) for each in (name, rival))
        return own > others

    able = [c for c in candidates if c.rival is None or c.rival not in found or beats(c.name, c.rival)]
    ranked = sorted(able, key=lambda c: (-merits[c.name].value, c.cost))
    said = "; ".join(f"{c.name} {_in_words(merits[c.name])}" for c in ranked)
    equal = sum(merits[c.name].value == merits[ranked[0].name].value for c in ranked) > 1
    return ModelChoice(ranked[0], f"{'As good and cheaper' if equal else 'Best'} on held-out clips: {said}.", merits)


def most_hits(posteriors: Posteriors, targets: NDArray[np.int64], labels: Sequence[str], accepts: int) -> int:
    """The most hits of posteriors (N, L), over all thresholds with at most so many false accepts; labels (N,)."""
    is_word = np.array([is_keyword(label) for label in labels])
    best, score = posteriors.argmax(axis=1), posteriors.max(axis=1)
    wrong = np.sort(score[is_word[best] & ~is_word[targets]])[::-1]
    above = wrong[accepts] if len(wrong) > accepts else 0.0
    return int((is_word[targets] & (best == targets) & (score > above)).sum())


def _choose_unmeasured(candidates: Sequence[Candidate], keywords: int) -> ModelChoice:
    order = ("plugin", "personal", "ensemble")
    chosen = min(candidates, key=lambda c: (not c.trained, order.index(c.name) if c.name in order else len(order)))
    why = "it comes trained" if chosen.trained else "none of the models is trained yet"
    few = f"{keywords} of {ENOUGH_CLIPS} held-out keyword clips are too few to compare models"
    reason = f"The model {chosen.name} listens, since {why}: {few}."
    return ModelChoice(chosen, reason, {})


def _in_words(merit: Merit) -> str:
    heard = f"hears {merit.hits} of {merit.keywords} keywords"
    if not merit.others:
        return f"{heard} (there is no other sound to try)"
    return f"{heard} and {merit.false_accepts} of {merit.others} other sounds as one"
