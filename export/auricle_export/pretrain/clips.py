"""How many single recordings a model names rightly: the figure that papers give, beside the curve that counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import UNKNOWN
from auricle.speech.audio import CLIP_SAMPLES
from auricle.speech.features import LogMel
from auricle_export.pretrain.corpus import Heard
from auricle_export.pretrain.streams import Recognise

_BATCH = 256


def judge_clips(heard: Heard, labels: Sequence[str], frontend: LogMel, recognise: Recognise) -> tuple[int, int]:
    """How many of one part's single words get their label, `_unknown_` where they are no keyword, and of how many."""
    takes = (*heard.keywords, *heard.others)
    targets = np.array([labels.index(take.word if take.word in labels else UNKNOWN) for take in takes])
    right = 0
    for start in range(0, len(takes), _BATCH):
        audio = np.stack([_second(take.sound) for take in takes[start : start + _BATCH]])
        posteriors = recognise(frontend(audio))
        right += int((posteriors.argmax(axis=1) == targets[start : start + _BATCH]).sum())
    return right, len(takes)


def _second(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """The middle second, with zeros around what is shorter."""
    spare = CLIP_SAMPLES - len(sound)
    if spare >= 0:
        return np.pad(sound, (spare // 2, spare - spare // 2))
    return sound[-spare // 2 : -spare // 2 + CLIP_SAMPLES]
