"""Every operator that has a translation, LiteRT against onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.edge.tflite_environment import run_there, tflite_runtime_python
from tests.export.tflite_cases import CASES, REFUSED
from tests.export.tflite_toy import by_onnxruntime, features, needs_litert, operator_pack

from auricle.errors import PackError
from auricle.packs.pack import pack_bytes

needs_litert()

from auricle_edge.runtimes.tflite import TfliteRuntime  # noqa: E402
from auricle_export.tflite import OPERATORS, with_tflite  # noqa: E402


@pytest.mark.parametrize(
    ("name", "batch"),
    [(name, batch) for name, case in CASES.items() for batch in (1, 3) if batch == 1 or not case.single],
)
def test_litert_computes_what_onnxruntime_computes(name: str, batch: int) -> None:
    case = CASES[name]
    pack = operator_pack(case.lines, case.tensors, case.constants, case.frames, case.mels, case.opset)
    made = with_tflite(pack, ["net"], ["float32"], batch=batch)
    weights, x = pack.table("net").initial(3), features(pack, 3)
    found = TfliteRuntime(made, precision="float32").logits("net", weights, x)
    expected = np.concatenate([by_onnxruntime(pack, "net", weights, x[i : i + 1]) for i in range(3)])
    assert np.abs(found - expected).max() <= case.tolerance * max(1, np.abs(expected).max())


def test_every_operator_of_the_table_has_a_case() -> None:
    lines = "\n".join(case.lines for case in CASES.values())
    assert set(OPERATORS) <= set(re.findall(r"= (\w+)[(<]", lines))


@pytest.mark.slow
@pytest.mark.nightly
def test_tflite_runtime_computes_it_too(tmp_path: Path) -> None:
    python = tflite_runtime_python()
    made = {}
    for i, case in enumerate(CASES.values()):
        pack = operator_pack(case.lines, case.tensors, case.constants, case.frames, case.mels, case.opset)
        made[f"case{i}"] = pack = with_tflite(pack, ["net"], ["float32"])
        (tmp_path / f"case{i}.tar.zst").write_bytes(pack_bytes(pack))
        np.savez(tmp_path / f"case{i}.npz", weights=pack.table("net").initial(3)[None], x=features(pack, 2))
    done = run_there(python, "-m", "tests.edge.tflite_probe", tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr

    for (name, pack), case in zip(made.items(), CASES.values(), strict=True):
        found = np.load(tmp_path / f"{name}.float32.npy")[0]
        expected = TfliteRuntime(pack).logits("net", pack.table("net").initial(3), features(pack, 2))
        assert np.abs(found - expected).max() <= case.tolerance * max(1, np.abs(expected).max()), case


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_translation_is_named(name: str) -> None:
    message, case = REFUSED[name]
    pack = operator_pack(case.lines, case.tensors, case.constants, case.frames, case.mels, case.opset)
    with pytest.raises(PackError, match=message):
        with_tflite(pack, ["net"], ["float32"])
