"""The threshold of a wake word: on whose sound without it, and from which false accepts, it is chosen.

One recording that sounds like the phrase decides the last false accepts of a few hours, so that a threshold which just
keeps to a rate there is mostly too high elsewhere. The ten highest of them say how fast they become fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.curve import Counts
from auricle.hearing.sounds import Take
from auricle.hearing.word_thresholds import LEAST
from auricle.speech.audio import SAMPLE_RATE
from auricle_export.pretrain.corpus import Heard

EXCEEDANCES = 10
"""False accepts from which the tail is estimated."""
PEOPLE_SECONDS = 300
"""Of people's recordings without the phrase from which voices choose no threshold any more: formant voices say words
that no person says so, and a threshold that keeps to a rate among them is stricter than people need."""
MOST = 0.9999


def tail_thresholds(counts: Counts, rate: float) -> Mapping[str, float]:
    """A threshold for each word at which about `rate` false accepts an hour are to be expected.

    Peaks over a threshold (Balkema and de Haan 1974, Pickands 1975) with an exponential tail: from the highest level u,
    in log odds, over which there are `EXCEEDANCES` false accepts and no fewer than are allowed, or all that there are,
    their number n falls by e with each mean excess s, so that the threshold is u + s ln(n / (rate * hours)).

    Parameters
    ----------
    counts
        From `curve_of`, with one threshold a row for all words, lowest first, evenly spaced in log odds.
    rate
        False accepts an hour of each word.
    """
    levels = counts.thresholds[:, 0]
    log_odds = np.log(levels / (1 - levels))
    chosen = np.flatnonzero(levels >= LEAST)
    allowed = rate * counts.all_hours
    return {
        label: float(np.clip(_odds(_tail(counts.total(label)[chosen], log_odds[chosen], allowed)), LEAST, MOST))
        for label in counts.labels
    }


def _tail(accepts: NDArray[np.int64], log_odds: NDArray[np.float64], allowed: float) -> float:
    """Log odds at which so many of the false accepts (T,) at log odds (T,) are to be expected."""
    many = np.flatnonzero(accepts >= max(EXCEEDANCES, allowed))
    first = int(many[-1]) if len(many) else 0
    number = int(accepts[first])
    if number <= allowed:
        return float(log_odds[first])
    step = float(log_odds[1] - log_odds[0])
    excess = step * (float(accepts[first + 1 :].sum()) / number + 0.5)
    return float(log_odds[first]) + excess * float(np.log(number / allowed))


def _odds(log_odds: float) -> float:
    return 1 / (1 + float(np.exp(-log_odds)))


def choosing_sound(heard: Heard, recorded: Heard) -> tuple[Heard, bool]:
    """Keywords of all, and the sound without them: people's recordings alone where there is enough, else that of all.

    The second says whether it is people's alone.

    Parameters
    ----------
    heard
        Recordings and voices of the validation part.
    recorded
        Its recordings.
    """
    if not (recorded.others and recorded.running and _seconds(recorded) >= PEOPLE_SECONDS):
        return heard, False
    people = replace(heard, others=recorded.others, running=recorded.running, languages=recorded.languages)
    return people, True


def _seconds(recorded: Heard) -> float:
    takes: Sequence[Take] = (*recorded.others, *recorded.languages)
    return (sum(len(take.sound) for take in takes) + sum(map(len, recorded.running))) / SAMPLE_RATE
