"""Whether a larger model should judge what the plug-in proposes: compared on streams of validation speakers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.hearing.curve import curve_of
from auricle.hearing.origins import Recordings
from auricle.hearing.rule import Rule
from auricle.hearing.second_stage import cascade, levels_of
from auricle.hearing.waking import Waking
from auricle.packs.manifest import Listening
from auricle_export.pretrain.listening import (
    FALSE,
    OPEN_RATE,
    WAKE_RATE,
    WRONG,
    WakeThresholds,
    count_commands,
    listening_from,
)
from auricle_export.pretrain.streams import Streams

RULES = (Rule(), Rule(patience=3))
"""Rules that are compared; of equals the first, which answers 0.1 s sooner."""
_ROUNDS = 4
"""Most times that thresholds are chosen: what is proposed depends on them, and they on what is proposed."""

Posteriors = Sequence[NDArray[np.float32]]
"""(hops, L) of each scene."""


@dataclass(frozen=True)
class Measured:
    """What is heard of validation streams with given thresholds."""

    heard: float
    """Share of the commands after a wake word that are taken rightly; without wake words, of keywords, the mean over
    the words."""
    false_accepts: float
    """An hour of sound without keywords, of the words that always count."""
    wrong: float = 0.0
    """Share of the commands after a wake word that was heard that are taken for another one."""
    false: float = 0.0
    """Share of the wake words without a command after which one is heard."""
    recordings: Recordings = field(default=Recordings({}, 0, 0.0), compare=False)
    """From how many different recordings the false accepts came; nothing is chosen by it."""


@dataclass(frozen=True)
class Staged:
    """The plug-in alone, and with a second stage."""

    model: str
    """The second stage."""
    alone: Measured
    both: Measured
    listening: Listening
    """Thresholds for both stages."""
    allowed: float
    """False accepts an hour for which thresholds were chosen."""

    @property
    def taken(self) -> bool:
        """Whether both hear more, and no more is wrong than with one stage, or than is allowed."""
        alone, both = self.alone, self.both
        return (
            both.heard > alone.heard
            and both.false_accepts <= max(self.allowed, alone.false_accepts)
            and both.wrong <= max(WRONG, alone.wrong)
            and both.false <= max(FALSE, alone.false)
        )


@dataclass(frozen=True, eq=False)
class Sound:
    """Validation streams, and what the plug-in makes of them."""

    streams: Streams
    posteriors: Posteriors
    commands: Streams | None
    """Scenes of wake words and commands; None where there are no wake words."""
    said: Posteriors | None
    """The posteriors of these."""

    def listening(
        self,
        wake: Sequence[str],
        open_rate: float = OPEN_RATE,
        wake_rate: float = WAKE_RATE,
        by: WakeThresholds | None = None,
    ) -> Listening:
        """Thresholds for what is heard here, as `listening_from` chooses them."""
        sound = (self.streams, self.posteriors, self.commands, self.said)
        return listening_from(*sound, wake, open_rate=open_rate, wake_rate=wake_rate, by=by)

    def measured(self, listening: Listening) -> Measured:
        """What is heard with these thresholds."""
        streams, words = self.streams, tuple(listening.thresholds)
        columns = [streams.labels.index(word) for word in words]
        levels = np.array([[listening.thresholds[word] for word in words]])
        rows = [posteriors[:, columns] for posteriors in self.posteriors]
        counts = curve_of(rows, streams.scenes, words, streams.rule, levels)
        rate, recordings = float(counts.total()[0]) / counts.all_hours, counts.origins.at()
        if self.commands is None or self.said is None:
            shares = [counts.hit[0][said].mean() for word in words if (said := counts.chosen(word)).any()]
            return Measured(float(np.mean(shares)), rate, recordings=recordings)
        waking = Waking(
            listening.wake, listening.thresholds, listening.commands, listening.window, rule=self.streams.rule
        )
        found = count_commands(self.commands, self.said, waking)
        return Measured(
            found.right / max(found.commands, 1),
            rate,
            found.wrong / max(found.reached, 1),
            found.false / max(found.alone, 1),
            recordings,
        )

    def ruled(self, rule: Rule) -> Sound:
        """The same, heard by another rule."""
        commands = self.commands and replace(self.commands, rule=rule)
        return replace(self, streams=replace(self.streams, rule=rule), commands=commands)

    def staged(self, second: Sound, listening: Listening) -> Sound:
        """What both stages make of it, where `listening` says what is proposed."""

        def both(first: Posteriors, other: Posteriors) -> Posteriors:
            pairs = zip(first, other, strict=True)
            return [_cascade(one, two, self.streams, listening) for one, two in pairs]

        said = None if self.said is None or second.said is None else both(self.said, second.said)
        return Sound(self.streams, both(self.posteriors, second.posteriors), self.commands, said)


def best_ruled(
    sound: Sound, wake: Sequence[str], wake_rate: float = WAKE_RATE, by: WakeThresholds | None = None
) -> Sound:
    """The sound with the one of `RULES` by which most is heard, thresholds chosen for the same false accepts."""
    refractory = sound.streams.rule.refractory
    ruled = [sound.ruled(replace(rule, hop=sound.streams.rule.hop, refractory=refractory)) for rule in RULES]
    heard = [each.measured(each.listening(wake, wake_rate=wake_rate, by=by)).heard for each in ruled]
    return ruled[int(np.argmax(heard))]


def compare_stages(
    first: Sound,
    second: Sound,
    model: str,
    wake: Sequence[str],
    *,
    open_rate: float = OPEN_RATE,
    wake_rate: float = WAKE_RATE,
) -> Staged:
    """Choose thresholds for both stages, and compare what they hear with what the plug-in alone does.

    Parameters
    ----------
    first, second
        The same streams as the plug-in and as the larger model hear them.
    model
        The larger model's name.
    wake
        Wake words; none: every keyword always counts.
    open_rate, wake_rate
        As of `listening_from`.
    """
    alone = listening = first.listening(wake, open_rate, wake_rate)
    for _ in range(_ROUNDS):
        before, listening = listening, first.staged(second, listening).listening(wake, open_rate, wake_rate)
        if listening == before:
            break
    both = first.staged(second, listening).measured(listening)
    allowed = wake_rate * len(wake) if wake else open_rate
    said = msgspec.structs.replace(listening, second_stage=model)
    return Staged(model, first.measured(alone), both, said, allowed)


def _cascade(
    first: NDArray[np.float32], second: NDArray[np.float32], streams: Streams, listening: Listening
) -> NDArray[np.float32]:
    """Posteriors (hops, L) of two stages; while a device waits only words that always count are proposed."""
    waiting = levels_of(streams.labels, listening.thresholds)
    rows = cascade(first, second, waiting, streams.rule.smoothing)
    if not listening.wake:
        return rows
    commands = levels_of(streams.labels, listening.commands)
    awake = cascade(first, second, np.minimum(waiting, commands), streams.rule.smoothing)
    mine = np.isfinite(waiting)
    awake[:, mine] = rows[:, mine]
    return awake
