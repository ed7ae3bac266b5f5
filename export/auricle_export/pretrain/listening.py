"""How a device should listen with a trained model: thresholds, chosen on streams of validation speakers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.hearing.command_counts import CommandCounts, command_counts
from auricle.hearing.curve import RATES, Counts, points
from auricle.hearing.intervals import count_interval
from auricle.hearing.rule import keyword_mask
from auricle.hearing.wake_scenes import wake_then_command
from auricle.hearing.waking import Waking, hear_awake
from auricle.hearing.word_thresholds import threshold_for, thresholds_for
from auricle.packs.manifest import HeardAt, Hearing, Listening
from auricle_export.pretrain.corpus import Heard
from auricle_export.pretrain.streams import Streams, streams_of

OPEN_RATE = 5.0
"""False accepts an hour of dense sound without keywords, of all words that are always listened for together."""
WAKE_RATE = 0.5
"""The same for each wake word."""
CONFIDENCE = 0.9
"""Of the interval whose upper end has to keep to these rates: 95 % on that side. What a threshold was seen to do on the
sound that it was chosen by, it does on other sound only by luck."""
WRONG, FALSE = 0.03, 0.03
"""Largest share of commands that are taken for another one, and of wake words without a command after which one is."""
COMMAND_DROP = 4.0
"""Decibels by which a command may be fainter than its wake word at its own threshold (docs/detection.md)."""
COMMAND_LEVELS = tuple(round(0.5 + 0.02 * step, 2) for step in range(25))
"""Thresholds of commands that are tried, the lowest first: below a half, what few wrong ones of the validation part
allow is more than `WRONG` on other people (docs/pretrain.md)."""


WakeThresholds = Callable[[Counts, float], Mapping[str, float]]
"""A threshold for each label of counts, of the false accepts an hour that each is allowed."""


def listening_from(
    streams: Streams,
    posteriors: Sequence[NDArray[np.float32]],
    commands: Streams | None,
    said: Sequence[NDArray[np.float32]] | None,
    wake: Sequence[str],
    *,
    open_rate: float = OPEN_RATE,
    wake_rate: float = WAKE_RATE,
    by: WakeThresholds | None = None,
) -> Listening:
    """Choose a threshold for words that always count, or for each wake word and one for all commands after it.

    Parameters
    ----------
    streams
        With keywords and hours without.
    posteriors
        The model's (hops, L) of each of their scenes.
    commands, said
        Scenes of wake words and commands, and the same of them; None where no command comes after them: then the wake
        words always count, each at its own threshold, and nothing else does.
    wake
        Wake words; none: every keyword always counts.
    open_rate, wake_rate
        False accepts an hour that are allowed: of all words that always count together, and of each wake word.
    by
        How wake words' thresholds are chosen; None: `bounded_thresholds`.

    Raises
    ------
    DataError
        There is no sound without keywords.
    """
    if not wake:
        open_counts = streams.count(posteriors)
        chosen = threshold_for(open_counts, seen_for(open_rate, open_counts.all_hours))
        return _listening(streams, _round_up(chosen.thresholds))
    columns = [streams.labels.index(word) for word in wake]
    alone = [rows[:, columns] for rows in posteriors]
    counts = streams.count(alone, tuple(wake))
    thresholds = _round_up((by or bounded_thresholds)(counts, wake_rate))
    if commands is None or said is None:
        return _listening(streams, thresholds)
    return _listening(streams, thresholds, tuple(wake), _commands(commands, said, thresholds, wake))


def bounded_thresholds(counts: Counts, rate: float) -> Mapping[str, float]:
    """Thresholds of wake words, the upper bound of whose false accepts keeps to the rate of all together."""
    allowed = seen_for(rate * len(counts.labels), counts.all_hours)
    return thresholds_for(counts, allowed).thresholds


def seen_for(rate: float, hours: float) -> float:
    """False accepts an hour that may be seen in so many hours for their upper bound to keep to a rate.

    Where even none would show it, one is allowed: nothing more careful can be chosen from so little sound.
    """
    seen = 0
    while count_interval(seen + 1, CONFIDENCE).high <= rate * hours:
        seen += 1
    return max(1, seen) * (1 + 1e-9) / hours


def _listening(
    streams: Streams, thresholds: dict[str, float], wake: tuple[str, ...] = (), commands: dict[str, float] | None = None
) -> Listening:
    rule = streams.rule
    return Listening(
        hop=rule.hop,
        smoothing=rule.smoothing,
        patience=rule.patience,
        thresholds=thresholds,
        wake=wake,
        commands=commands or {},
        command_drop=COMMAND_DROP if commands else UNSET,
    )


def _round_up(thresholds: Mapping[str, float]) -> dict[str, float]:
    """Up to the next of four digits: never lower than what was measured."""
    return {word: min(1.0, float(np.ceil(level * 1e4) / 1e4)) for word, level in thresholds.items()}


def _commands(
    commands: Streams, said: Sequence[NDArray[np.float32]], thresholds: dict[str, float], wake: Sequence[str]
) -> dict[str, float]:
    """The lowest threshold, one for all commands, at which few enough of them are wrong or false; else the highest.

    One by word would be high for the words of a few people who happen to be heard while choosing (docs/pretrain.md).
    """
    pairs = zip(commands.labels, keyword_mask(commands.labels), strict=True)
    words = [label for label, word in pairs if word and label not in wake]
    chosen: dict[str, float] = {}
    for level in COMMAND_LEVELS:
        chosen = dict.fromkeys(words, level)
        counts = count_commands(commands, said, Waking(tuple(wake), thresholds, chosen, rule=commands.rule))
        if counts.wrong <= WRONG * counts.reached and counts.false <= FALSE * counts.alone:
            break
    return chosen


def count_commands(streams: Streams, posteriors: Sequence[NDArray[np.float32]], waking: Waking) -> CommandCounts:
    """What becomes of wake words and commands in all scenes."""
    total = CommandCounts()
    for rows, scene in zip(posteriors, streams.scenes, strict=True):
        total += command_counts(scene, hear_awake(rows, streams.labels, waking), waking.window)
    return total


def command_streams(heard: Heard, like: Streams, wake: Sequence[str], seed: int, passes: int = 3) -> Streams:
    """Scenes of wake words and commands, each command `passes` times, from the recordings of one part."""
    rng = np.random.default_rng([seed, 12])
    wakes = [take for take in heard.keywords if take.word in wake]
    commands = [take for take in heard.keywords if take.word not in wake]
    scenes = [wake_then_command(wakes, commands, heard.noise, rng) for _ in range(passes)]
    return streams_of(scenes, like.labels, like.frontend, like.rule)


def hearing_of(counts: Counts, data: str, rates: Sequence[float] = RATES) -> Hearing:
    """The curve as a pack says it: hits by kind of scene at fixed false accepts an hour."""
    kinds = sorted({word.kind for word in counts.words})
    by_kind = {kind: points(counts, counts.chosen(kind=kind), rates) for kind in kinds}
    curve = tuple(
        HeardAt(false_accepts_per_hour=rate, hits={kind: round(by_kind[kind][place].share, 4) for kind in kinds})
        for place, rate in enumerate(rates)
    )
    return Hearing(data=data, words=len(counts.words), hours=round(counts.all_hours, 3), curve=curve)
