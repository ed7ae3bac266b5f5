"""Sound that `auricle edge evaluate` is tested with: a few synthetic voices, and a pack with a wake word."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest

from auricle.hearing.sounds import Take
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack, load_pack
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.evaluate.sources import Sources


@cache
def spoken_sources() -> Sources:
    """Three voices that say two keywords and two other words twice, and noise."""
    pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")
    made = synthesise(SynthesisSettings("yes,stop,bed,cat", speakers=3, takes=2, snr_low=50, snr_high=60))
    takes = [
        Take(made.labels[label], made.speaker_names[speaker], clip.astype(np.float32) / 32_768)
        for clip, label, speaker in zip(made.audio, made.targets, made.speakers, strict=True)
    ]
    noise = tuple(np.asarray(sound, np.float32) for sound in made.noise)
    keywords = tuple(take for take in takes if take.word in ("yes", "stop"))
    words = tuple(take for take in takes if take.word in ("bed", "cat"))
    speech = tuple(np.concatenate([take.sound for take in words[i::3]]) for i in range(3))
    return Sources(keywords, words, (), speech, noise)


def waking_pack() -> Pack:
    """The shipped pack, with `stop` as its wake word and commands from 0.3 on."""
    pack = load_pack("gsc12")
    says = Listening(
        smoothing=2, thresholds={"stop": 0.4, "yes": 0.7}, wake=("stop",), window=2.5, commands={"yes": 0.3, "no": 0.35}
    )
    return Pack(msgspec.structs.replace(pack.manifest, listening=says), pack.files)
