"""A process that listens with every model that a wake word package ships, in that package's own environment.

It imports nothing of Auricle. The package's own classes cut the sound, compute the features and give the scores; a
score is what the package compares with its threshold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from bench.step_worker import Step, serve

RATE = 16_000
Hear = Callable[[bytes], list[float]]
"""Takes a chunk of int16 samples; the highest score of each model in it."""


class MicroWakeWord:
    """All models of `pymicro-wakeword`; each has its own cutoff, and a window over which it averages."""

    def __init__(self) -> None:
        package = import_module("pymicro_wakeword")
        folder = Path(str(package.__file__)).parent / "models"
        self._features = package.MicroWakeWordFeatures()
        self._models = {model.value: package.MicroWakeWord.from_builtin(model) for model in package.Model}
        self.thresholds = {name: model.probability_cutoff for name, model in self._models.items()}
        self.chunk = math.lcm(*(model.stride for model in self._models.values())) * RATE // 100
        self.files = {name: [str(folder / _file(folder / f"{name}.json"))] for name in self._models}

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the models, from the beginning."""
        self._features.reset()
        models = [self._models[name] for name in names]
        for model in models:
            model.reset()

        def chunk(sound: bytes) -> list[float]:
            best = [0.0] * len(models)
            for row in self._features.process_streaming(sound):
                best = [max(b, m.process_streaming_prob(row)) for b, m in zip(best, models, strict=True)]
            return best

        return chunk


class OpenWakeWord:
    """All models of `pyopen-wakeword`, over one embedding; the package's threshold is 0.5."""

    def __init__(self) -> None:
        package = import_module("pyopen_wakeword")
        folder = Path(str(package.__file__)).parent / "models"
        self._features = package.OpenWakeWordFeatures.from_builtin()
        self._models = {model.value: package.OpenWakeWord.from_builtin(model) for model in package.Model}
        self.thresholds = dict.fromkeys(self._models, 0.5)
        self.chunk = RATE * 80 // 1000
        shared = [str(folder / f"{name}.tflite") for name in ("melspectrogram", "embedding_model")]
        self.files = {name: [*shared, str(folder / f"{name}.tflite")] for name in self._models}

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the models, from the beginning."""
        self._features.reset()
        models = [self._models[name] for name in names]
        for model in models:
            model.reset()

        def chunk(sound: bytes) -> list[float]:
            best = [0.0] * len(models)
            for row in self._features.process_streaming(sound):
                best = [max([b, *m.process_streaming(row)]) for b, m in zip(best, models, strict=True)]
            return best

        return chunk


PEERS: dict[str, Callable[[], MicroWakeWord | OpenWakeWord]] = {
    "microwakeword": MicroWakeWord,
    "openwakeword": OpenWakeWord,
}


def _file(config: Path) -> str:
    name: str = json.loads(config.read_text("utf-8"))["model"]
    return name


def make(spec: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
    """Hear every file with every model; the step hears a second of the timed one with `spec["model"]` alone."""
    peer = PEERS[spec["peer"]]()
    names, size = list(peer.thresholds), 2 * peer.chunk
    for sound, scores in zip(spec["sounds"], spec["scores"], strict=True):
        data, hear = Path(sound).read_bytes(), peer.hear(names)
        rows = [hear(data[i : i + size]) for i in range(0, len(data) - size + 1, size)]
        np.save(Path(scores), np.array(rows, np.float32).reshape(-1, len(names)))
    facts = {
        "labels": names,
        "thresholds": peer.thresholds,
        "alone": names,
        "hop": peer.chunk / RATE,
        "smoothing": 1,
        "patience": 1,
        "files": peer.files,
    }
    data, hear = Path(spec["timed"]).read_bytes(), peer.hear([spec["model"]])
    place = 0

    def second() -> float:
        nonlocal place
        sound = data[place : place + 2 * RATE]
        place = (place + 2 * RATE) % (len(data) - 2 * RATE)
        return max(max(hear(sound[i : i + size])) for i in range(0, len(sound), size))

    return second, facts


if __name__ == "__main__":
    serve(make)
