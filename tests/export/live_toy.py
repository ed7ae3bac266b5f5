"""Tones as they come live: what the tests of training on windows train on."""

from __future__ import annotations

import numpy as np
from tests.export.pretrain_toy import crnn_pack

from auricle.hearing.sounds import Take
from auricle.packs.manifest import Task
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle_export.pretrain.corpus import Corpus, Heard
from auricle_export.pretrain.sounds import lay_out
from auricle_export.pretrain.streams import Streams, make_streams
from auricle_export.pretrain.windows import Bank

LABELS = ("high", "low", "_unknown_", "_silence_")
FRONTEND = LogMel(Task(LABELS))
HZ = {"high": 2_400.0, "low": 300.0, "other": 900.0}


def tone(hz: float, seconds: float = 0.4, seed: int = 0) -> np.ndarray:
    """A second with noise around one frequency in its middle over faint noise, float32."""
    rng = np.random.default_rng(seed)
    frequency = np.fft.rfftfreq(16_000, 1 / 16_000)
    shape = 1 / (1 + np.square(np.log2((frequency + 20) / hz)))
    sound = np.fft.irfft(np.fft.rfft(rng.standard_normal(16_000)) * shape, 16_000)
    inside = np.abs(np.arange(16_000) / 16_000 - 0.5) < seconds / 2
    return (0.2 * sound * inside / sound.std() + 1e-4 * rng.standard_normal(16_000)).astype(np.float32)


def takes(word: str, count: int) -> tuple[Take, ...]:
    return tuple(Take(word, f"s{n}", tone(HZ[word] * (1 + 0.01 * n), seed=n)) for n in range(count))


def noises(count: int, seconds: float = 3.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(5)
    return tuple((0.05 * rng.standard_normal(round(seconds * 16_000))).astype(np.float32) for _ in range(count))


def heard() -> Heard:
    running = tuple(np.concatenate([tone(600, seed=n), tone(1200, seed=n), tone(800, seed=n)]) for n in range(2))
    return Heard((*takes("high", 4), *takes("low", 4)), takes("other", 4), running, noises(2))


def bank() -> Bank:
    part = heard()
    targets = [LABELS.index(take.word) for take in part.keywords]
    keywords = lay_out([take.sound for take in part.keywords], FRONTEND, targets)
    others = lay_out([take.sound for take in part.others], FRONTEND)
    return Bank(keywords, keywords, others, others, lay_out(part.running, FRONTEND), lay_out(part.noise, FRONTEND))


def pack(model: str = "resnet-lite") -> Pack:
    return crnn_pack(LABELS, (model,))


def toy_corpus() -> Corpus:
    return Corpus(LABELS, bank(), heard(), heard(), 12, 4, 6.0, "digest")


def toy_streams() -> Streams:
    return make_streams(heard(), LABELS, FRONTEND, 0, passes=1, negatives=1, seconds=12)
