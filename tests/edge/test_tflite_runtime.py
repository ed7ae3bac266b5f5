"""The tflite runtime: logits for any weights, and what it refuses."""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.edge.tflite_environment import run_there, tflite_runtime_python
from tests.export.tflite_toy import by_onnxruntime, features, needs_litert, operator_pack

from auricle.errors import AuricleError, PackError
from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import Job

needs_litert()

from auricle_edge.runtimes.tflite import TfliteRuntime, interpreter_class  # noqa: E402
from auricle_export.tflite import with_tflite  # noqa: E402

NET = """
t = Transpose<perm=[0,2,1]>(x)
c = Conv<pads=[1,1]>(t, k, b)
r = Relu(c)
y = ReduceMean<axes=[2], keepdims=0>(r)
"""


@cache
def small(batch: int = 1, frames: int = 7) -> Pack:
    """One convolution of twelve channels, in both precisions."""
    pack = operator_pack(NET, {"k": (12, 4, 3), "b": (12,)}, {}, frames, 4, opset=17)
    return with_tflite(pack, ["net"], batch=batch)


def with_file(pack: Pack, content: bytes) -> Pack:
    """The pack with other bytes under the name of its first `.tflite`, and a manifest that vouches for them."""
    path = pack.manifest.tflite[0].file
    entry = FileEntry(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    files = tuple(entry if file.path == path else file for file in pack.manifest.files)
    return Pack(msgspec.structs.replace(pack.manifest, files=files), {**pack.files, path: content})


@pytest.mark.parametrize(("batch", "count"), [(1, 5), (1, 0), (4, 6)])
def test_logits_are_those_of_the_evaluation_graph_for_any_number_of_samples(batch: int, count: int) -> None:
    """A fixed batch is filled up; weights that change in place are seen."""
    pack = small(batch)
    runtime, weights, x = TfliteRuntime(pack), pack.table("net").initial(4), features(pack, max(count, 1))[:count]
    for _ in range(2):
        logits = runtime.logits("net", weights, x)
        assert logits.shape == (count, 12)
        if count:
            assert logits == pytest.approx(by_onnxruntime(pack, "net", weights, x), abs=1e-6)
        weights *= -1


def test_an_interpreter_is_kept_while_the_weights_stay_the_same() -> None:
    pack = small()
    runtime, weights, x = TfliteRuntime(pack), pack.table("net").initial(4), features(pack, 1)
    kept = []
    for changed in (0, 0, 1):
        runtime.logits("net", weights + changed, x)
        kept.append(runtime._loaded["net"])
    assert kept[0] is kept[1] is not kept[2]


def test_threads_with_different_weights_get_their_own_logits() -> None:
    pack = small()
    runtime, x = TfliteRuntime(pack), features(pack, 3)
    models = [pack.table("net").initial(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: runtime.logits("net", models[i % 4], x), range(16)))
    for i, logits in enumerate(found):
        assert logits == pytest.approx(by_onnxruntime(pack, "net", models[i % 4], x), abs=1e-6)


def test_float32_is_taken_where_there_is_one_and_int8_otherwise() -> None:
    pack = small()
    only_int8 = with_tflite(operator_pack(NET, {"k": (12, 4, 3), "b": (12,)}, {}, 7, 4, opset=17), ["net"], ["int8"])
    weights, x = pack.table("net").initial(4), features(pack, 2)
    exact = by_onnxruntime(pack, "net", weights, x)
    assert np.abs(TfliteRuntime(pack).logits("net", weights, x) - exact).max() < 1e-6
    for other in (TfliteRuntime(only_int8), TfliteRuntime(pack, precision="int8")):
        assert 1e-6 < np.abs(other.logits("net", weights, x) - exact).max() < 0.02
    with pytest.raises(PackError, match="float32"):
        TfliteRuntime(only_int8, precision="float32")


def test_training_and_embeddings_are_refused() -> None:
    runtime = choose_runtime("tflite", small(), training=False).runtime
    assert isinstance(runtime, TfliteRuntime)
    with pytest.raises(AuricleError, match="train"):
        runtime.begin(Job(kind="supervised", models={"model": "net"}, optimizer="sgd", weights={}, scalars={}))
    with pytest.raises(AuricleError, match="logits"):
        runtime.embeddings("net", np.zeros(0, np.float32), features(small(), 1))


@pytest.mark.parametrize("wrong", ["cut", "of another input"])
def test_a_file_that_is_cut_or_for_another_input_is_refused(wrong: str) -> None:
    def file(pack: Pack) -> bytes:
        return pack.files[pack.manifest.tflite[0].file]

    content, says = (file(small())[:256], "outside") if wrong == "cut" else (file(small(frames=9)), "manifest")
    pack = with_file(small(), content)
    with pytest.raises(PackError, match=says):
        TfliteRuntime(pack).logits("net", pack.table("net").initial(0), features(pack, 1))


def test_without_litert_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ai_edge_litert", "tflite_runtime"):
        for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(AuricleError, match=r"pip install .*\[tflite\]"):
        interpreter_class()


@pytest.mark.slow
@pytest.mark.nightly
def test_tflite_runtime_with_numpy_1_gives_the_same_logits(tmp_path: Path) -> None:
    python = tflite_runtime_python()
    packs = {"small": small(), "crnn": with_tflite(load_pack("gsc12"), ["crnn-base"])}
    for name, pack in packs.items():
        table = pack.table(pack.manifest.tflite[0].model)
        (tmp_path / f"{name}.tar.zst").write_bytes(pack_bytes(pack))
        weights = np.stack([table.initial(seed) for seed in (1, 2)])
        np.savez(tmp_path / f"{name}.npz", weights=weights, x=features(pack, 3))
    done = run_there(python, "-m", "tests.edge.tflite_probe", tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.") and done.stdout.split()[1:] == ["tflite_runtime"]
    for name, pack in packs.items():
        given, model = np.load(tmp_path / f"{name}.npz"), pack.manifest.tflite[0].model
        for precision in ("float32", "int8"):
            here = [TfliteRuntime(pack, precision=precision).logits(model, w, given["x"]) for w in given["weights"]]
            assert np.load(tmp_path / f"{name}.{precision}.npy") == pytest.approx(np.stack(here), abs=2e-6)
