"""A small model, a pack of it and a folder of tones: what the tests of central training train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor, nn

from auricle.packs.manifest import FORMAT, Manifest, Task
from auricle.packs.pack import Pack, pack_bytes
from auricle.wire.tensor_specs import TensorSpec
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.models import make_module

WORDS = ("high", "low", "middle")
HZ = {"high": 2400, "low": 300, "middle": 900}
MODEL = "tiny"


class Tiny(nn.Module):
    """The mean and the largest value of every mel band, a hidden layer with dropout, and a classifier."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.body = nn.Linear(80, 8)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8, labels)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, labels) of log-mels (B, T, 40)."""
        pooled = torch.cat([x.mean(dim=1), x.amax(dim=1)], dim=1)
        hidden: Tensor = self.dropout(torch.tanh(self.body(pooled)))
        logits: Tensor = self.head(hidden)
        return logits


def tiny_table(labels: int) -> tuple[TensorSpec, ...]:
    """Its tensors: the body by name, then the classifier."""
    return (
        TensorSpec("body.bias", (8,), "body", 0.1),
        TensorSpec("body.weight", (8, 80), "body", 0.1),
        TensorSpec("head.weight", (labels, 8), "head", 0.3),
        TensorSpec("head.bias", (labels,), "head", 0.3),
    )


def tiny_pack(labels: tuple[str, ...] = WORDS, models: tuple[str, ...] = (MODEL,), name: str = "toy") -> Pack:
    """A pack without graphs: training in PyTorch needs none."""
    return bare_pack(labels, dict.fromkeys(models, tiny_table(len(labels))), name)


def bare_pack(labels: tuple[str, ...], architectures: dict[str, tuple[TensorSpec, ...]], name: str) -> Pack:
    """A pack of these models without graphs, whose first one is the plug-in."""
    facts: dict[str, Any] = {"architectures": architectures, "graphs": (), "files": (), "producers": {}}
    return Pack(Manifest(format=FORMAT, name=name, task=Task(labels), plugin=next(iter(architectures)), **facts), {})


def write_pack(path: Path, pack: Pack) -> Path:
    path.write_bytes(pack_bytes(pack))
    return path


def write_tones(
    root: Path, words: tuple[str, ...] = WORDS, speakers: int = 10, takes: int = 4, noise: bool = True
) -> Path:
    """Write a Speech Commands folder in which every word is a tone, a little different for every speaker."""
    rng = np.random.default_rng(0)
    time = np.arange(16_000) / 16_000
    for word in words:
        (root / word).mkdir(parents=True)
        for speaker in range(speakers):
            for take in range(takes):
                hz = HZ[word] * (1 + 0.01 * speaker)
                tone = 0.3 * np.sin(2 * np.pi * hz * time) * (np.abs(time - 0.5) < 0.3) + 0.02 * rng.normal(size=16_000)
                soundfile.write(root / word / f"s{speaker:02d}_nohash_{take}.wav", tone, 16_000)
    if noise:
        (root / "_background_noise_").mkdir()
        soundfile.write(root / "_background_noise_" / "hiss.wav", 0.1 * rng.normal(size=32_000), 16_000)
    return root


def crnn_pack(labels: tuple[str, ...] = WORDS, models: tuple[str, ...] = ("crnn-lite",), name: str = "toy") -> Pack:
    """A pack of built-in models without graphs."""
    count = len(labels)
    specs = {model: tensor_specs(find_parts(make_module(model, count), count), count) for model in models}
    return bare_pack(labels, specs, name)
