"""What is heard before and after the word of a training window: another word, running speech, a greeting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.window_settings import WindowSettings

_CUT = 40
"""Frames of running speech beyond the place at which it is cut off before a word."""

Places = NDArray[np.int64]
Values = NDArray[np.float64]


def add_sounds(
    mixed: Energies,
    times: Places,
    which: Places,
    sounds: Sounds,
    chosen: Places,
    span: tuple[Places, Places, Places],
    at: Values,
    speed: Values,
    gain: NDArray[np.float32] | None = None,
) -> None:
    """Add sounds to the windows `which`, at so many times their speed, backwards where that is negative.

    Of each the frames from span[1] to before span[2], of which span[0] comes to lie at the window's frame `at`; `times`
    are the frames of a window, counted as `at` is.
    """
    anchor, low, high = (edge[:, None] for edge in span)
    source = np.rint(anchor + (times[None] - at[:, None]) * speed[:, None]).astype(np.int64)
    inside = (source >= low) & (source < high)
    rows = np.where(inside, source + sounds.starts[chosen][:, None], len(sounds.energies) - 1)
    found = sounds.energies[rows]
    if gain is not None:
        found *= gain[:, None, None]
    mixed[which] += found


class Neighbours:
    """Puts sounds beside words that are in their windows; each about as loud as its word.

    Parameters
    ----------
    others, running
        Single words that are no keyword, and running speech.
    leading
        What a wake word or a command comes straight after; None: nothing.
    times
        Frames of a window, of which 0 is its first.
    settings
        How far away, how fast and how loud.
    """

    def __init__(
        self, others: Sounds, running: Sounds, leading: Sounds | None, times: Places, settings: WindowSettings
    ) -> None:
        self._others, self._running, self._leading = others, running, leading
        self._times, self._settings = times, settings

    @property
    def leads(self) -> bool:
        """Whether there is something to put straight before words."""
        return self._leading is not None

    def put(
        self,
        mixed: Energies,
        which: Places,
        edge: Values,
        level: NDArray[np.float32],
        rng: np.random.Generator,
        *,
        after: bool,
    ) -> None:
        """Put another word, or running speech, before or after the words of these windows, which end at `edge`."""
        s = self._settings
        gap = rng.uniform(*s.gap, len(which))
        running = rng.random(len(which)) < 0.5
        for sounds, mine in ((self._others, ~running), (self._running, running)):
            here, space = which[mine], gap[mine]
            chosen = rng.integers(len(sounds), size=len(here))
            low, high = sounds.begins[chosen], sounds.ends[chosen]
            if sounds is self._running:
                cut = low + (rng.random(len(here)) * np.maximum(high - low - 60, 1)).astype(np.int64)
                low, high = (cut, high) if after else (low, cut + _CUT)
            at = edge[here] + space if after else edge[here] - space
            self._beside(mixed, here, at, level, sounds, chosen, (low if after else high, low, high), rng)

    def lead(
        self, mixed: Energies, which: Places, edge: Values, level: NDArray[np.float32], rng: np.random.Generator
    ) -> None:
        """Put a greeting or a wake word straight before the words of these windows."""
        if self._leading is None:
            return
        sounds = self._leading
        chosen = rng.integers(len(sounds), size=len(which))
        at = edge[which] - rng.uniform(*self._settings.led_gap, len(which))
        span = (sounds.ends[chosen], sounds.begins[chosen], sounds.ends[chosen])
        self._beside(mixed, which, at, level, sounds, chosen, span, rng)

    def _beside(
        self,
        mixed: Energies,
        which: Places,
        at: Values,
        level: NDArray[np.float32],
        sounds: Sounds,
        chosen: Places,
        span: tuple[Places, Places, Places],
        rng: np.random.Generator,
    ) -> None:
        s = self._settings
        speed = 1 + rng.uniform(-s.tempo, s.tempo, len(which))
        ratio = level[which] / sounds.levels[chosen] * 10 ** (rng.uniform(*s.neighbour_db, len(which)) / 10)
        add_sounds(mixed, self._times, which, sounds, chosen, span, at, speed, ratio.astype(np.float32))
