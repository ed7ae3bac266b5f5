"""The tflite runtime: logits for any weights, and what it refuses."""

from __future__ import annotations

import hashlib
import subprocess
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
from auricle_edge.runtimes import Job, choose_runtime

needs_litert()

from auricle_edge.runtimes.tflite import TfliteRuntime  # noqa: E402
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


def test_logits_are_those_of_the_evaluation_graph_for_any_number_of_samples() -> None:
    pack = small()
    runtime, weights, x = TfliteRuntime(pack), pack.table("net").initial(4), features(pack, 5)

    assert runtime.logits("net", weights, x) == pytest.approx(by_onnxruntime(pack, "net", weights, x), abs=1e-6)
    assert runtime.logits("net", weights, x[:0]).shape == (0, 12)


def test_a_fixed_batch_is_filled_up() -> None:
    pack = small(batch=4)
    weights, x = pack.table("net").initial(4), features(pack, 6)

    assert TfliteRuntime(pack).logits("net", weights, x) == pytest.approx(
        by_onnxruntime(pack, "net", weights, x), abs=1e-6
    )


def test_weights_that_change_in_place_are_seen() -> None:
    pack = small()
    runtime, weights, x = TfliteRuntime(pack), pack.table("net").initial(4), features(pack, 2)
    runtime.logits("net", weights, x)
    weights *= -1

    assert runtime.logits("net", weights, x) == pytest.approx(by_onnxruntime(pack, "net", weights, x), abs=1e-6)


def test_an_interpreter_is_kept_while_the_weights_stay_the_same() -> None:
    pack = small()
    runtime, weights, x = TfliteRuntime(pack), pack.table("net").initial(4), features(pack, 1)
    runtime.logits("net", weights, x)
    first = runtime._loaded["net"]
    runtime.logits("net", weights.copy(), x)
    assert runtime._loaded["net"] is first

    runtime.logits("net", weights + 1, x)
    assert runtime._loaded["net"] is not first


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
    with pytest.raises(PackError, match=r"has no float32 \.tflite model: auricle export tflite"):
        TfliteRuntime(only_int8, precision="float32")


def test_training_and_embeddings_are_refused() -> None:
    runtime = TfliteRuntime(small())
    job = Job(kind="supervised", models={"model": "net"}, optimizer="sgd", weights={}, scalars={})

    with pytest.raises(AuricleError, match="tflite recognises and does not train: choose --runtime step"):
        runtime.begin(job)
    with pytest.raises(AuricleError, match=r"tflite.* gives logits only"):
        runtime.embeddings("net", np.zeros(0, np.float32), features(small(), 1))


def test_it_is_chosen_by_name_for_recognising() -> None:
    choice = choose_runtime("tflite", small(), training=False)

    assert (choice.runtime.name, choice.reason) == ("tflite", "Runtime tflite: it was asked for.")


def test_a_file_cut_short_is_refused_by_the_map() -> None:
    pack = small()
    pack = with_file(pack, pack.files[pack.manifest.tflite[0].file][:256])

    with pytest.raises(PackError, match="over something else or outside the file"):
        TfliteRuntime(pack).logits("net", pack.table("net").initial(0), features(pack, 1))


def test_a_model_for_another_input_is_refused() -> None:
    longer = small(frames=9)
    pack = with_file(small(), longer.files[longer.manifest.tflite[0].file])

    with pytest.raises(PackError, match="does not take or give what the pack's manifest says"):
        TfliteRuntime(pack).logits("net", pack.table("net").initial(0), features(pack, 1))


def test_without_litert_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['ai_edge_litert'] = sys.modules['tflite_runtime'] = None\n"
        "from auricle_edge.runtimes.tflite import interpreter_class\n"
        "from auricle.errors import AuricleError\n"
        "try: interpreter_class()\n"
        "except AuricleError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 'The runtime tflite needs LiteRT, pip install "auricle[tflite]", or choose --runtime step: ' in said


@pytest.mark.slow
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
