"""Clips that a device of a test has before it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.clips import ClipSettings, ClipStore, NewClip


def keep_clips(state: Path, pack: str) -> list[np.ndarray]:
    """Give a device of a pack clips of two words by synthetic voices; the takes."""
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=4, takes=5))
    store = ClipStore(state / "clips", ClipSettings(), LogMel(load_pack(pack).manifest.task))
    for audio, target in zip(speech.audio, speech.targets, strict=True):
        store.add(NewClip(audio, speech.labels[target], "enrolled", 1.0))
    store.close()
    return list(speech.audio)
