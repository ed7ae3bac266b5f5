"""Training windows as a frozen network sees them, each looked at once: what a head over its vectors learns from.

Composed windows are drawn as for every other model, and beside them are all windows of the sounds without a keyword,
of which what a model mistakes most is met most often.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.rule import keyword_mask
from auricle.speech.features import Energies
from auricle_export.pretrain.mined import draw
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.trained import TrainingInterrupted
from auricle_export.pretrain.windows import Composer

LONG_FRAMES = 180_000
"""Frames at most of each kind of sound without a keyword: half an hour."""
PIECE_FRAMES = 1_000
"""Frames of such sound that are equally loud."""
MISTAKEN_SHARE = 0.5
"""Share of windows without a keyword that are drawn by how much they were mistaken for one."""
MOVED = 0.5
"""Standard deviation of what is added to all numbers of a window: a network's numbers are a few tens."""
_AT_ONCE = 256

Recognise = Callable[[NDArray[np.float32]], NDArray[np.float32]]
Draw = tuple[NDArray[np.float32], NDArray[np.int64]]


class VectorPool:
    """Windows to draw from.

    Parameters
    ----------
    composer
        Puts windows together, and knows the sounds.
    labels
        The pack's.
    unknown, silence
        Places of `_unknown_` and `_silence_` among them.
    settings
        How many windows are put together, which share of a batch is of the sounds without a keyword, and the seed of
        every draw.
    stopped
        Asked now and then.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    """

    def __init__(
        self,
        composer: Composer,
        labels: tuple[str, ...],
        unknown: int,
        silence: int,
        settings: LiveSettings,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._frontend, self._keywords = composer.frontend, keyword_mask(labels)
        self._stopped, self._alone, seed = stopped, settings.alone, settings.seed
        self._count, self._size = self._frontend.task.input_shape
        tables, targets, starts = list[NDArray[np.float16]](), list[NDArray[np.int64]](), list[NDArray[np.int64]]()
        for place in range(-(-settings.composed // _AT_ONCE)):
            x, y = composer(_AT_ONCE, np.random.default_rng([seed, 16, place]))
            self._go_on()
            tables.append(x.reshape(-1, self._size).astype(np.float16))
            targets.append(y)
        self._composed = sum(map(len, targets))
        starts.append(self._count * np.arange(self._composed))
        bank, rng, at = composer.bank, np.random.default_rng([seed, 17]), self._composed * self._count
        for sounds, label in (
            (bank.running, unknown),
            (bank.others, unknown),
            (bank.alike, unknown),
            (bank.noise, silence),
        ):
            for piece in _pieces(sounds, rng):
                table = self._table(piece)
                tables.append(table.astype(np.float16))
                starts.append(at + np.arange(len(table) - self._count + 1))
                targets.append(np.full(len(starts[-1]), label))
                at += len(table)
        self._vectors, self._starts = np.concatenate(tables), np.concatenate(starts)
        self._targets = np.concatenate(targets)
        self._others = np.flatnonzero(~self._keywords[self._targets])
        self._scores: NDArray[np.float32] | None = None

    def _go_on(self) -> None:
        if self._stopped():
            raise TrainingInterrupted("The training was interrupted.")

    def _table(self, piece: Energies) -> NDArray[np.float32]:
        """The network's vectors (V, size) of a piece, one every stride."""
        self._go_on()
        stride = self._frontend.task.unit
        starts = np.arange(0, len(piece) - self._frontend.task.frames + 1, stride)
        found = self._frontend.vectors_of(piece, starts)
        return found.vectors[found.places[stride * np.arange(len(starts) + self._count - 1)]]

    def _windows(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._vectors[self._starts[chosen][:, None] + np.arange(self._count)].astype("f4")
        return found

    def weigh(self, recognise: Recognise) -> None:
        """From now on meet what a model mistakes for a keyword more often."""
        scores = [
            recognise(self._windows(self._others[first : first + 16 * _AT_ONCE]))[:, self._keywords].max(axis=1)
            for first in range(0, len(self._others), 16 * _AT_ONCE)
        ]
        self._scores = np.concatenate(scores)

    def __call__(self, count: int, rng: np.random.Generator) -> Draw:
        """Windows (count, T', size) and labels (count,)."""
        alone = int(self._alone * count)
        chosen = [rng.integers(self._composed, size=count - alone)]
        mistaken = 0 if self._scores is None else int(MISTAKEN_SHARE * alone)
        chosen.append(rng.integers(self._composed, len(self._starts), size=alone - mistaken))
        if self._scores is not None:
            chosen.append(self._others[draw(self._scores, mistaken, rng)])
        places = np.concatenate(chosen)
        moved = rng.normal(0, MOVED, (count, 1, 1)).astype(np.float32)
        return self._windows(places) + moved, self._targets[places]


def _pieces(sounds: Sounds, rng: np.random.Generator) -> list[Energies]:
    """Some of the sounds one behind the other, in pieces of some seconds as loud as they may come."""
    whole = sounds.energies[: min(LONG_FRAMES, len(sounds.energies))]
    gains = 10 ** (rng.uniform(-18, 10, -(-len(whole) // PIECE_FRAMES)) / 10)
    pieces = [whole[first : first + PIECE_FRAMES] for first in range(0, len(whole), PIECE_FRAMES)]
    return [piece * np.float32(gain) for piece, gain in zip(pieces, gains, strict=True) if len(piece) == PIECE_FRAMES]
