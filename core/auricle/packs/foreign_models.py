"""Models of other wake word engines, named where a pack is asked for: what they are, and the way to a pack."""

from __future__ import annotations

import re
from pathlib import Path

_FILE = re.compile(r"[^\w'’-]+|_+|\d+")
_NOISE = re.compile(r"\b(v|linux|windows|mac|raspberry|pi|android|ios|wasm|en|de|fr|es|int|quant|model)\b")
_SUFFIXES = {
    ".ppn": "a keyword file of Porcupine",
    ".onnx": "an ONNX model, as openWakeWord has them",
    ".tflite": "a TensorFlow Lite model, as openWakeWord and microWakeWord of ESPHome have them",
    ".json": "a JSON file, as microWakeWord of ESPHome has beside its models",
    ".pmdl": "a model of Snowboy",
    ".umdl": "a model of Snowboy",
    ".pt": "a PyTorch file",
    ".pth": "a PyTorch file",
    ".ckpt": "a PyTorch file",
    ".keras": "a Keras model",
    ".h5": "a Keras model",
    ".safetensors": "weights without a pack",
}


def foreign_model(path: Path, head: bytes) -> str:
    """The sentence for a file that is a model of something else, by its first bytes or its name; empty for others."""
    what = _SUFFIXES[".tflite"] if head[4:8] == b"TFL3" else _SUFFIXES.get(path.suffix.lower(), "")
    if not what or (path.suffix.lower() == ".json" and b"wake_word" not in head and b'"micro"' not in head):
        return ""
    phrase = phrase_of(path)
    return (
        f"{path} is {what}, not a pack: name a pack, or make one for its phrase, auricle export wakeword "
        f'"{phrase}" --out {phrase.replace(" ", "-")}.tar.zst.'
    )


def phrase_of(path: Path) -> str:
    """The phrase that a model's name says, without versions and systems: `hey_jarvis_v0.1` is for "hey jarvis"."""
    words = _FILE.sub(" ", path.stem.lower())
    return " ".join(_NOISE.sub(" ", words.replace("-", " ")).split()) or "hey robot"
