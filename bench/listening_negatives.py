"""Negatives for the listening bench's pack: people and readers that no scene of the bench plays, in noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bench.listening_scene import RATE, Sound, other_scene

from auricle.hearing.splits import part_of, readings_of
from auricle.pack import Pack
from auricle.speech.audio import read_audio, scan_folder
from auricle_edge.detect.decision import is_keyword
from auricle_export.negatives import energies_of, with_negatives

SPEECH_SECONDS, WORDS_SECONDS = 300, 240
"""Running speech and single words; every noise is added once. A pack carries at most 13 minutes."""


def with_other_people(pack: Pack, data: Path, noise: list[Sound], snr: tuple[float, float]) -> Pack:
    """The pack with negatives from `stream-more` and `gsc-more`, train parts, nobody of `gsc` among them.

    Parameters
    ----------
    data
        The folder with `gsc`, `gsc-more` and `stream-more`.
    noise
        Recordings, of those that devices hear.
    snr
        Least and greatest signal-to-noise ratio in dB.
    """
    rng = np.random.default_rng(20)
    devices = {clip.speaker for clip in scan_folder(data / "gsc").clips}
    words = [
        clip.path
        for clip in scan_folder(data / "gsc-more").clips
        if not is_keyword_of(pack, clip.word) and clip.speaker not in devices and part_of(clip.speaker) == "train"
    ]
    readings = readings_of(sorted((data / "stream-more" / "speech").glob("*.flac")), "train")
    speech, seconds = [], 0.0
    for i in rng.permutation(len(readings)):
        if seconds >= SPEECH_SECONDS:
            break
        speech.append(readings[i])
        seconds += len(read_audio(readings[i])) / RATE + 1
    scene = other_scene(words, speech, noise, rng, snr, WORDS_SECONDS)
    stretches = [(part.kind, scene.samples[part.start : part.end]) for part in scene.parts]
    return with_negatives(pack, energies_of(pack.manifest.task, stretches))


def is_keyword_of(pack: Pack, word: str) -> bool:
    """Whether a word is one of the pack's keywords."""
    return word in pack.labels and is_keyword(word)
