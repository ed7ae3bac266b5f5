"""Thresholds that follow the listener: one that answers lower than the pack's gets lower ones, as much as it does.

A pack's thresholds were chosen for the posteriors of the pack's own models. The mean of two models' posteriors is lower
on everything, keywords and other sound alike, and so is a model that learnt to doubt. The same sound without keywords,
played to both, shows by how much: as speaker verification normalises scores by the highest ones of a cohort of
impostors (adaptive T-norm; Sturim and Reynolds, "Speaker adaptive cohort selection for Tnorm", 2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.hearing.rule import hold, smooth
from auricle_edge.listening.detect.recognisers import Posteriors
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.listening.detect.settings import DetectSettings, DetectTable

HIGHEST_SHARE = 0.2
"""Share of the seconds, those with the highest averages, that decide: lower ones say nothing of what is accepted."""
LEAST_SECONDS = 60
"""Seconds of sound without which thresholds stay where they are."""
FARTHEST = 3.0
"""Most by which a threshold moves, in logits: 0.9 becomes 0.31 at the lowest."""
LOWEST, TOP = 0.3, 0.99
"""Thresholds are not moved beyond these."""


@dataclass(frozen=True)
class ScoreLevel:
    """How high a listener answers to sound without keywords: mean logits of its highest averages."""

    waiting: float
    """Of the keywords that count while the device waits."""
    commands: float
    """Of those that count after a wake word; 0 where there are none."""


def score_level(heard: Sequence[Posteriors], labels: Sequence[str], settings: DetectSettings) -> ScoreLevel | None:
    """The level of a listener; None where there is too little sound.

    Parameters
    ----------
    heard
        Posteriors (hops, L) of stretches without keywords; 0 where the gate was closed.
    labels
        L labels.
    settings
        Hop, smoothing, patience and wake words.
    """
    words = [place for place, label in enumerate(labels) if is_keyword(label)]
    waiting = [place for place in words if not settings.wake or labels[place] in settings.wake]
    commands = [place for place in words if place not in waiting]
    steady = [hold(smooth(rows, settings.smoothing), settings.patience) for rows in heard]
    of_waiting = _highest(steady, waiting, settings.hop)
    if of_waiting is None:
        return None
    return ScoreLevel(of_waiting, (_highest(steady, commands, settings.hop) or 0.0) if commands else 0.0)


def level(
    settings: DetectSettings, said: DetectTable, labels: Sequence[str], packs: ScoreLevel, now: ScoreLevel
) -> DetectSettings:
    """The settings with thresholds moved by what the listener of now answers lower or higher than the pack's.

    Thresholds that the table `[detect]` itself gives stay: the owner chose them.
    """
    waiting, commands = now.waiting - packs.waiting, now.commands - packs.commands
    words = [label for label in labels if is_keyword(label)]
    usual = {word: settings.thresholds.get(word, settings.threshold) for word in words}
    own = usual.keys() if said.threshold is not None else said.thresholds.keys()
    after_wake = {word for word in words if settings.wake and word not in settings.wake}
    moved = {
        word: at if word in own else _shift_logit(at, commands if word in after_wake else waiting)
        for word, at in usual.items()
    }
    opened = {
        word: at if word in said.commands else _shift_logit(at, commands) for word, at in settings.commands.items()
    }
    return msgspec.structs.replace(settings, thresholds=moved, commands=opened)


def describe_shift(usual: DetectSettings, now: DetectSettings) -> str:
    """A sentence that says by how much thresholds were moved; empty where they were not.

    Parameters
    ----------
    usual, now
        The settings, and the same with moved thresholds.
    """
    by = {round(at - usual.thresholds.get(word, usual.threshold), 2) for word, at in now.thresholds.items()} - {0.0}
    if not by:
        return ""
    low, high = min(by), max(by)
    text = f"{low:+.2f}" if low == high else f"{low:+.2f} to {high:+.2f}"
    return f" Thresholds moved by {text}: it is as strict on the pack's negatives as the pack's own model is."


def _highest(steady: Sequence[NDArray[np.float64]], columns: Sequence[int], hop: float) -> float | None:
    """Mean logit of the highest seconds of all stretches together; None where these have too few."""
    hops = max(1, round(1 / hop))
    peaks = []
    for rows in steady:
        best, whole = rows[:, columns].max(axis=1, initial=0.0), len(rows) // hops * hops
        peaks.append(best[:whole].reshape(-1, hops).max(axis=1))
    seconds = np.sort(np.concatenate([np.zeros(0), *peaks]))
    if len(seconds) < LEAST_SECONDS:
        return None
    highest = np.clip(seconds[-round(HIGHEST_SHARE * len(seconds)) :], 1e-6, 1 - 1e-6)
    return float(np.mean(np.log(highest / (1 - highest))))


def _shift_logit(threshold: float, by: float) -> float:
    if not 0 < threshold < 1:
        return threshold
    logit = math.log(threshold / (1 - threshold)) + min(max(by, -FARTHEST), FARTHEST)
    low, high = min(LOWEST, threshold), max(TOP, threshold)
    return round(min(max(1 / (1 + math.exp(-logit)), low), high), 4)
