"""A pack judged as a whole, with the files of other runtimes."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper
from tests.core import tiny_pack

from auricle.checks.pack_checks import Check, checks_of, require_sound
from auricle.errors import PackError
from auricle.packs.manifest import Buffer, OrtTraining, Tflite
from auricle.packs.pack import Pack

OFFSETS = {"mix.weight": 16, "head.weight": 48, "head.bias": 80}
BUFFERS = tuple(Buffer(tensor=tensor, offset=offset) for tensor, offset in OFFSETS.items())
TFLITE = Tflite(model="lite", precision="float32", file="lite.tflite", buffers=BUFFERS)
ORT = {name: f"ort/{name}.onnx" for name in ("training", "evaluation", "sgd")}
TRAINING = OrtTraining(
    training=ORT["training"],
    evaluation=ORT["evaluation"],
    optimizers={"sgd": ORT["sgd"]},
    checkpoint="ort/checkpoint",
    batch=16,
)


def _tflite(**changed: bytes) -> bytes:
    content = bytearray(struct.pack("<I", 16) + b"TFL3" + bytes(8))
    content += np.zeros(19, "<f4").tobytes()
    for place, data in changed.items():
        at = int(place.removeprefix("at"))
        content[at : at + len(data)] = data
    return bytes(content)


def _gradient(domain: str = "com.microsoft") -> bytes:
    built = tiny_pack.evaluation()
    built.graph.node.append(helper.make_node("ReluGrad", ["x", "x"], ["g"], domain=domain))
    return built.SerializeToString()


def _pack(tflite: bytes | None = None, entry: Tflite | None = None, training: bytes = _gradient()) -> Pack:
    inference = {} if tflite is None and entry is None else {"lite.tflite": tflite or _tflite()}
    files = {**dict.fromkeys(ORT.values(), _gradient()), ORT["training"]: training, "ort/checkpoint": b"anything"}
    entries = (entry or TFLITE,) if inference else ()
    return tiny_pack.pack({**inference, **files}, tflite=entries, ort_training={"lite": TRAINING})


def test_every_file_but_the_checkpoint_is_judged() -> None:
    assert list(checks_of(_pack())) == [
        *(Check("graph", file, None) for file in (tiny_pack.EVALUATE, tiny_pack.STEP)),
        Check("weights", tiny_pack.WEIGHTS, None),
        *(Check("ort-training", file, None) for file in ORT.values()),
    ]
    require_sound(_pack())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tflite": b"no flatbuffer at all"}, "lite.tflite of the pack tiny is not a .tflite"),
        ({"tflite": _tflite()}, "lite.tflite"),
        ({"tflite": _tflite(at20=np.float32(np.nan).tobytes())}, "holds weights that are not finite"),
        (
            {"entry": msgspec.structs.replace(TFLITE, buffers=TFLITE.buffers[:2])},
            "does not name each tensor of lite once",
        ),
        (
            {
                "entry": msgspec.structs.replace(
                    TFLITE, buffers=(*TFLITE.buffers[:2], Buffer(tensor="head.bias", offset=70))
                )
            },
            "over something",
        ),
        ({"training": _gradient("com.example")}, "ort/training.onnx of the pack tiny is refused: .*'com.example'"),
        ({"training": _gradient()[:-1]}, "ort/training.onnx of the pack tiny is refused"),
    ],
)
def test_what_is_not_sound_is_named(changes: dict[str, Any], sentence: str) -> None:
    pack = _pack(**changes)
    with pytest.raises(PackError, match=sentence):
        require_sound(pack)
    assert [check.file for check in checks_of(pack) if check.reason] in (["lite.tflite"], ["ort/training.onnx"])
