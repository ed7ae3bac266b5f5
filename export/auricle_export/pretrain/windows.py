"""Training windows as they come live: a word anywhere in the window, others before and after it, a room, noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.speech.features import Energies, LogMel
from auricle_export.pretrain.acoustics import mask, warp
from auricle_export.pretrain.mined import Mined, draw
from auricle_export.pretrain.neighbours import Neighbours, Places, Values, add_sounds
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.surroundings import Surroundings
from auricle_export.pretrain.window_settings import ENDED_FRAMES, LEAD_FRAMES, WindowSettings


class Kind(IntEnum):
    """What is in the middle of a window."""

    KEYWORD = 0
    CUT = 1
    """A keyword of which too little is in the window."""
    NOISE = 2
    RUNNING = 3
    ALIKE = 4
    OTHER = 5


@dataclass(frozen=True, eq=False)
class Bank:
    """What windows are put together from."""

    keywords: Sounds
    """By people; targets are labels."""
    spoken: Sounds
    """The same by espeak."""
    others: Sounds
    """Single words that are no keyword."""
    alike: Sounds
    """What sounds like a keyword, and other languages, by synthetic voices."""
    running: Sounds
    noise: Sounds
    together: Sounds | None = None
    """Single words that are no keyword, one straight after the other."""
    leading: Sounds | None = None
    """What a wake word or a command comes straight after: greetings by espeak, and wake words."""


class Composer:
    """Draws windows and their labels; all its randomness comes from the generator it is given.

    Parameters
    ----------
    bank
        Sounds.
    frontend
        Turns energies into log-mels.
    unknown, silence
        Labels of windows without a keyword, and without speech.
    settings
        What to draw.
    """

    def __init__(
        self, bank: Bank, frontend: LogMel, unknown: int, silence: int, settings: WindowSettings | None = None
    ) -> None:
        self.bank, self.frontend, self.settings = bank, frontend, settings or WindowSettings()
        self._unknown, self._silence = unknown, silence
        self._frames = frontend.task.frames
        self._times = np.arange(-LEAD_FRAMES, self._frames)
        self._labels = np.unique(np.concatenate([bank.keywords.targets, bank.spoken.targets]))
        self._recorded, self._synthetic = (
            {int(label): np.flatnonzero(sounds.targets == label) for label in np.unique(sounds.targets)}
            for sounds in (bank.keywords, bank.spoken)
        )
        self._mined: Mined | None = None
        self._neighbours = Neighbours(bank.others, bank.running, bank.leading, self._times, self.settings)
        self._surroundings = Surroundings(bank.running, bank.noise, frontend.task, self.settings)

    def weigh(self, mined: Mined) -> None:
        """From now on meet what a model mistook for a keyword more often."""
        self._mined = mined
        self._surroundings.noise_found = mined.noise

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], Places]:
        """Log-mels (count, T, mels) and labels (count,).

        Where the settings say `shift`, `count` is even, and the second half of the windows are those of the first,
        each so many frames earlier, with the same labels.
        """
        s = self.settings
        if not s.shift[1]:
            mixed, targets = self._mix(count, np.zeros(count), rng)
            return self._finish(mixed[:, LEAD_FRAMES:], rng), targets
        shift = rng.integers(int(s.shift[0]), int(s.shift[1]) + 1, count // 2)
        mixed, targets = self._mix(count // 2, shift.astype(np.float64), rng)
        places = LEAD_FRAMES - shift[:, None] + np.arange(self._frames)
        earlier = np.take_along_axis(mixed, places[:, :, None], axis=1)
        both = np.concatenate([mixed[:, LEAD_FRAMES:], earlier])
        return self._finish(both, rng), np.concatenate([targets, targets])

    def _finish(self, window: Energies, rng: np.random.Generator) -> NDArray[np.float32]:
        """Log-mels (N, T, mels) of windows of energies, as loud as they come, by any voice, parts hidden."""
        s, count = self.settings, len(window)
        halves = 2 if s.shift[1] else 1  # both windows of a pair are of one microphone and one voice
        gain = np.tile(rng.uniform(*s.gain_db, count // halves), halves)
        louder = window * (10 ** (gain / 10)).astype(np.float32)[:, None, None]
        features = self.frontend.finish(warp(louder, rng, s.warp, halves))
        return features if self.frontend.task.frontend.network is not UNSET else mask(features, rng, s.masks)

    def _mix(self, count: int, shift: Values, rng: np.random.Generator) -> tuple[Energies, Places]:
        """Energies (count, LEAD + T, mels), and labels of windows that begin at frame LEAD or so much earlier."""
        s = self.settings
        mixed = np.zeros((count, len(self._times), self.frontend.task.frontend.mels), np.float32)
        kinds = rng.choice(len(Kind), count, p=self._shares())
        targets = np.where(kinds == Kind.NOISE, self._silence, self._unknown)
        level = np.ones(count, np.float32)
        first, last = np.zeros(count), np.zeros(count)
        for kind, sounds, which, chosen in self._middles(kinds, rng):
            first[which], last[which] = self._put(mixed, kind, sounds, which, chosen, shift[which], rng)
            level[which] = sounds.levels[chosen]
            if kind == Kind.KEYWORD:
                targets[which] = sounds.targets[chosen]
        words = (kinds != Kind.NOISE) & (kinds != Kind.RUNNING)
        led = (kinds == Kind.KEYWORD) & (rng.random(count) < s.led)
        if self._neighbours.leads:
            self._neighbours.lead(mixed, np.flatnonzero(led), first, level, rng)
        else:
            led[:] = False
        before = words & ~led & (rng.random(count) < s.before)
        self._neighbours.put(mixed, np.flatnonzero(before), first, level, rng, after=False)
        self._neighbours.put(mixed, np.flatnonzero(words & (rng.random(count) < s.after)), last, level, rng, after=True)
        self._surroundings(mixed, kinds == Kind.NOISE, level, rng)
        return mixed, targets

    def _shares(self) -> list[float]:
        s = self.settings
        others = 1 - s.cut - s.noise_only - s.running - s.alike
        rest = (s.cut, s.noise_only, s.running, s.alike, others)
        return [s.keywords, *((1 - s.keywords) * share for share in rest)]

    def _middles(self, kinds: Places, rng: np.random.Generator) -> Iterator[tuple[Kind, Sounds, Places, Places]]:
        """Which sound each window that is not noise has in its middle."""
        for kind in (Kind.KEYWORD, Kind.CUT):
            which = np.flatnonzero(kinds == kind)
            synthetic = rng.random(len(which)) < self.settings.synthetic
            labels = rng.choice(self._labels, len(which))
            synthetic = (synthetic | ~np.isin(labels, list(self._recorded))) & np.isin(labels, list(self._synthetic))
            for sounds, known, mine in (
                (self.bank.keywords, self._recorded, ~synthetic),
                (self.bank.spoken, self._synthetic, synthetic),
            ):
                chosen = np.array([rng.choice(known[int(label)]) for label in labels[mine]], np.int64)
                yield kind, sounds, which[mine], chosen
        running = np.flatnonzero(kinds == Kind.RUNNING)
        single = np.zeros(len(running), np.bool_)
        if self.bank.together is not None:
            single = rng.random(len(running)) < self.settings.together
        for kind, sounds, which in (
            (Kind.RUNNING, self.bank.running, running[~single]),
            (Kind.RUNNING, self.bank.together or self.bank.running, running[single]),
            (Kind.ALIKE, self.bank.alike, np.flatnonzero(kinds == Kind.ALIKE)),
            (Kind.OTHER, self.bank.others, np.flatnonzero(kinds == Kind.OTHER)),
        ):
            yield kind, sounds, which, rng.integers(len(sounds), size=len(which))

    def _put(
        self,
        mixed: Energies,
        kind: Kind,
        sounds: Sounds,
        which: Places,
        chosen: Places,
        shift: Values,
        rng: np.random.Generator,
    ) -> tuple[Values, Values]:
        """Put the middles into their windows; the frames at which their words begin and end."""
        s, count = self.settings, len(which)
        mistaken = rng.random(count) < (0.0 if self._mined is None else s.mined)
        if self._mined is not None and kind in (Kind.ALIKE, Kind.OTHER):
            scores = self._mined.alike if kind == Kind.ALIKE else self._mined.others
            chosen[mistaken] = draw(scores, int(mistaken.sum()), rng)
        start = (rng.random(count) * np.maximum(sounds.lengths[chosen] - self._frames, 1)).astype(np.int64)
        if self._mined is not None and kind == Kind.RUNNING:
            found = self._mined.together if sounds is self.bank.together else self._mined.running
            hard = draw(found.scores, int(mistaken.sum()), rng)
            chosen[mistaken] = found.sounds[hard]
            start[mistaken] = found.frames[hard] + rng.integers(-5, 6, len(hard))
        speed = 1 + rng.uniform(-s.tempo, s.tempo, count)
        length = (sounds.ends[chosen] - sounds.begins[chosen]) / speed
        at = self._place(kind, length, shift, rng)
        anchor = start if kind == Kind.RUNNING else sounds.begins[chosen]
        if kind > Kind.NOISE:
            back = (rng.random(count) < s.backwards) & ~mistaken
            anchor = np.where(back, (start + self._frames) if kind == Kind.RUNNING else sounds.ends[chosen], anchor)
            speed = np.where(back, -speed, speed)
        span = (anchor, np.zeros_like(anchor), sounds.lengths[chosen])
        add_sounds(mixed, self._times, which, sounds, chosen, span, at, speed)
        return at, at + length

    def _place(self, kind: Kind, length: Values, shift: Values, rng: np.random.Generator) -> Values:
        """Frame at which each word begins, counted from the window's first.

        A window that is `shift` frames earlier has the same label: as much of a keyword is in it, but of one that is
        longer than the window less `shift`, and no more of one that is cut.
        """
        s, frames, count = self.settings, self._frames, len(length)
        if kind == Kind.KEYWORD:
            slack = s.outside * length
            low, high = -slack * rng.random(count), frames - length + slack * rng.random(count) - shift
            anywhere = low + np.maximum(high - low, 0) * rng.random(count)
            if not s.newest:
                return anywhere
            just = frames - length - shift - ENDED_FRAMES * rng.random(count)
            return np.where(rng.random(count) < s.newest, just, anywhere)
        if kind == Kind.CUT:
            visible = rng.uniform(0.05, s.visible, count) * length
            return np.where(rng.random(count) < 0.5, visible - length - shift, frames - visible)
        if kind == Kind.RUNNING:
            return np.zeros(count)
        return rng.uniform(-0.6 * length, np.maximum(frames - 0.4 * length - shift, -0.6 * length))
