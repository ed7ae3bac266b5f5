"""Clips that are kept: written with their label and weight, remembered by their place in the sound, labelled again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.clips import ClipStore, NewClip, Source
from auricle_edge.labels.answers import Heard, Judged
from auricle_edge.labels.candidates import weight_of
from auricle_edge.labels.near_misses import Almost, Ending
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.detect.decision import NearMiss
from auricle_edge.listening.sound import Detection

MOST_KEPT = 64
"""Clips that were just kept and are remembered by their place in the sound."""


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an answer or a chance."""

    clip: str | None
    """Id of the clip; None where nothing was kept."""
    word: str | None
    source: Source
    said: str
    """A sentence: what was done, or why not."""
    detection: str | None = None
    """Id of the detection that was judged."""
    heard: str | None = None
    """The word that was detected."""
    seconds_ago: float | None = None
    """How long before the answer."""


@dataclass(frozen=True)
class Kept:
    """A clip that was just kept, and the samples that it is made of."""

    clip: str
    start: int
    end: int


class Keeper:
    """Writes the clips of one device.

    Parameters
    ----------
    store
        Takes them.
    settings
        Weights by source.
    """

    def __init__(self, store: ClipStore, settings: LabelSettings) -> None:
        self._store, self._settings = store, settings
        self._kept: deque[Kept] = deque(maxlen=MOST_KEPT)
        self._lock = threading.Lock()

    @property
    def places(self) -> list[Kept]:
        """What was just kept."""
        with self._lock:
            return list(self._kept)

    def remember(self, clip: str, start: int, end: int) -> None:
        """Where in the sound a clip is."""
        with self._lock:
            self._kept.append(Kept(clip, start, end))

    def add(self, samples: NDArray[np.int16], word: str, source: Source, heard: Detection | None = None) -> str:
        """Keep a clip; its id."""
        score, model = (None, None) if heard is None else (min(1.0, max(0.0, heard.score)), heard.model)
        return self._store.add(NewClip(samples, word, source, weight_of(source, self._settings), score, model))

    def add_candidate(self, almost: Almost, ending: Ending) -> Labelled:
        """Keep a near-miss without a label, until a later model has looked at it."""
        near = almost.near
        clip = self._store.add(NewClip(almost.samples, None, ending, 0.0, near.score, guess=near.word))
        self.remember(clip, near.start, near.end)
        after = "nothing followed" if ending == "near" else "it was heard when it was said again"
        return Labelled(clip=clip, word=None, source=ending, said=f'"{near.word}" was almost heard, and {after}.')

    def keep(self, heard: Heard, word: str, source: Source) -> tuple[str | None, str]:
        """Keep a detection's clip; its id and a sentence."""
        if word not in self._store.labels:
            return None, no_label(word)
        assert heard.samples is not None, "only a detection whose sound is held takes an answer"
        clip = self.add(heard.samples, word, source, heard.detection)
        self.remember(clip, heard.detection.start, heard.detection.end)
        return clip, f'The clip was kept as "{word}" ({source}).'

    def keep_missed(
        self, samples: NDArray[np.int16], start: int, word: str, accepted: Sequence[Detection]
    ) -> tuple[str, str]:
        """Keep the clip of a word that was missed, or label what was kept of it again; its id and a sentence.

        What was kept of detections that were `accepted` stays what it is.
        """
        length, right = len(samples), {(each.start, each.end) for each in accepted}
        places = [kept for kept in self.places if (kept.start, kept.end) not in right]
        earlier = next((kept for kept in places if overlap(kept, start, length)), None)
        if earlier is not None:
            try:
                before = self._store.get(earlier.clip).record
            except DataError:
                before = None  # it was deleted
            if before is not None and self.relabel(earlier.clip, word, "missed"):
                label = before.source if before.word is None else f"{before.word} ({before.source})"
                return earlier.clip, f'the clip {earlier.clip} of what was said is now "{word}", no longer {label}.'
        clip = self.add(samples, word, "missed")
        self.remember(clip, start, start + length)
        return clip, f'what was said was kept as "{word}" (clip {clip}).'

    def change(self, judged: Judged, word: str, source: Source, now: float) -> tuple[str | None, str]:
        """Change an answer that was given before; its clip gets the other label, or goes where there is none for it."""
        if (judged.word, judged.source) == (word, source):
            named = judged.heard.named(now)
            raise DataError(f"Nothing was changed: {named} was {source} already, as {word}.")
        if judged.clip is None:
            return self.keep(judged.heard, word, source)
        if word not in self._store.labels:
            self._store.delete([judged.clip])
            return None, f'The pack has no label "{word}": the clip was deleted.'
        if not self.relabel(judged.clip, word, source):
            return self.keep(judged.heard, word, source)
        return judged.clip, f'The clip is now "{word}" ({source}), no longer "{judged.word}".'

    def relabel(self, clip: str, word: str, source: Source) -> bool:
        """Give a clip another label; False where it is no more, or cannot be read."""
        try:
            self._store.relabel(clip, word, source, weight_of(source, self._settings))
        except DataError:
            return False
        return True


def no_label(word: str) -> str:
    """Why nothing is kept as a word that the pack does not know."""
    return f'The pack has no label "{word}": nothing was kept.'


def overlap(piece: Detection | NearMiss | Kept, start: int, length: int, least: float = 0.5) -> bool:
    """Whether a piece of sound and a clip have more than this part of the clip in common."""
    return min(piece.end, start + length) - max(piece.start, start) > least * length
