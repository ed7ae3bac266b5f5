"""Sessions: shared, stateless, and only for graphs that are what the manifest says."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.learning.toy import PACK

from auricle.errors import AuricleError, PackError
from auricle.packs.pack import FileEntry, Pack, load_pack
from auricle.wire.gradient_terms import TERMS
from auricle.wire.plan import InferenceLoss
from auricle_learning import runtimes
from auricle_learning.runtimes import EVALUATION_BATCH, StepRuntime, accuracy, cross_entropy, joined_parts, named_parts
from auricle_learning.runtimes.interface import NEUTRAL, InferenceOnly, Job, inference_loss, recogniser, softmax
from auricle_learning.runtimes.step import StepRuntime as Defined


def _features(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 100, 40)).astype(np.float32)


def test_cross_entropy_of_numbers_worked_out_by_hand() -> None:
    """Softmax of (0, ln 3) is (1/4, 3/4); of (0, 0) is (1/2, 1/2)."""
    logits = np.array([[0, math.log(3)], [0, math.log(3)], [0, 0]], np.float32)
    right = (math.log(4 / 3) + math.log(4) + math.log(2)) / 3
    assert cross_entropy(logits, [1, 0, 0]) == pytest.approx(right, abs=1e-7)
    assert accuracy(logits, np.array([1, 0, 0])) == pytest.approx(2 / 3)


def test_cross_entropy_does_not_overflow() -> None:
    assert cross_entropy(np.array([[1e30, -1e30]], np.float32), [0]) == 0
    assert cross_entropy(np.array([[1e30, -1e30]], np.float32), [1]) == pytest.approx(2e30, rel=1e-6)


def test_of_no_samples_nothing_is_known() -> None:
    nothing = np.zeros((0, 3), np.float32)
    assert math.isnan(cross_entropy(nothing, []))
    assert accuracy(nothing, np.zeros(0, np.int64)) is None
    assert StepRuntime(PACK).logits("crnn-lite", PACK.plugin_table.initial(0), _features(0)).shape == (0, 3)


@pytest.mark.parametrize(("kind", "loss"), [("ce", math.log(4 / 3)), ("mse", 2 / 16), ("l1", 2 / 4)])
def test_losses_of_posteriors_worked_out_by_hand(kind: InferenceLoss, loss: float) -> None:
    """Posteriors of (1/4, 3/4) where the second label is right."""
    logits = np.array([[0, math.log(3)]] * 2, np.float32)
    assert softmax(logits + 100).tolist() == [pytest.approx([0.25, 0.75], rel=1e-5)] * 2
    assert inference_loss(kind, logits, np.array([1, 1])) == pytest.approx(loss, abs=1e-7)
    assert math.isnan(inference_loss(kind, logits[:0], np.zeros(0, np.int64)))


def test_a_recogniser_keeps_the_weights_that_it_got() -> None:
    toy: Any = SimpleNamespace(logits=lambda model, weights, _: np.log(weights[None]))
    given, whole = np.array([1, 3], np.float32), np.array([1, 3, 4], np.float32)
    fixed = whole.copy()
    fixed.flags.writeable = False
    kept = [recogniser(toy, "m", weights) for weights in (given, whole[:2], fixed)]
    given[:] = whole[:] = 1
    none = np.zeros((0, 1, 1), np.float32)
    assert [each(none)[0].tolist() for each in kept] == [
        pytest.approx(p) for p in ([0.25, 0.75],) * 2 + ([1 / 8, 3 / 8, 0.5],)
    ]


def test_a_runtime_that_only_recognises_says_which_one_trains() -> None:
    runtime = InferenceOnly()
    assert not runtime.has("supervised", "crnn-lite", "sgd")
    for refused in (lambda: runtime.begin(None), lambda: runtime.embeddings("m", None, None)):  # type: ignore[arg-type]
        with pytest.raises(AuricleError, match=r"The runtime of this kind .* choose --runtime step"):
            refused()
    runtime.end_training()


def test_the_package_imports_the_step_runtime_only_when_it_is_asked_for() -> None:
    assert "StepRuntime" not in vars(runtimes)
    assert runtimes.StepRuntime is Defined
    with pytest.raises(AttributeError, match=r"^module 'auricle_learning\.runtimes' has no attribute 'Step'\Z"):
        runtimes.Step  # noqa: B018


def test_the_step_runtime_has_what_the_pack_carries() -> None:
    runtime = StepRuntime(PACK)
    assert runtime.has("supervised", "crnn-lite", "sgd")
    for absent in (("mse", "crnn-lite", "sgd"), ("supervised", "crnn", "sgd"), ("supervised", "crnn-lite", "lion")):
        assert not runtime.has(*absent)


def test_a_scalar_that_a_job_does_not_name_does_nothing() -> None:
    weights = {"model": np.zeros(1, np.float32)}
    job = Job(kind="mutual", models={"model": "a"}, optimizer="sgd", weights=weights, scalars={"model.rate": 0.5})
    nothing = {"momentum": 0.0, "decay": 0.0, "l2": 0.0, "clip": math.inf, "temperature": 1.0, "mu": 0.0}
    of_adamw = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    for name, value in (nothing | of_adamw).items():
        assert job.scalar(name) == job.scalar(f"model.{name}") == value
    assert job.scalar("model.rate") == 0.5
    assert {NEUTRAL[scalar] for term in TERMS.values() for scalar in term.scalars} == {0.0}
    with pytest.raises(AuricleError, match=r"The mutual job does not say other\.rate: name it"):
        job.scalar("other.rate")


def test_a_model_in_three_parts_is_the_same_vector() -> None:
    table = PACK.table("crnn-base")
    flat = table.initial(1)
    parts = named_parts("local", table, flat)
    assert list(parts) == ["local/body", "local/head.weight", "local/head.bias"]
    assert np.array_equal(joined_parts("local", table, parts), flat)


def test_logits_do_not_depend_on_how_samples_are_batched() -> None:
    runtime, features = StepRuntime(PACK), _features(EVALUATION_BATCH + 5)
    weights = PACK.plugin_table.initial(1)
    whole = runtime.logits("crnn-lite", weights, features)
    assert whole.shape == (EVALUATION_BATCH + 5, 3)
    assert whole[-5:] == pytest.approx(runtime.logits("crnn-lite", weights, features[-5:]), abs=1e-5)


def test_zero_weights_give_the_bias() -> None:
    weights = np.zeros(PACK.plugin_table.size, np.float32)
    weights[-3:] = [1, 2, 3]
    assert StepRuntime(PACK).logits("crnn-lite", weights, _features(2)).tolist() == [[1, 2, 3]] * 2


def test_one_session_serves_many_threads_and_models() -> None:
    runtime, features = StepRuntime(PACK), _features(8)
    models = [PACK.plugin_table.initial(seed) for seed in range(8)]
    alone = [runtime.logits("crnn-lite", weights, features).tobytes() for weights in models]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda w: runtime.logits("crnn-lite", w, features).tobytes(), models * 4))
    assert together == alone * 4
    assert len(runtime._sessions) == 1


def _with_file(pack: Pack, path: str, content: bytes) -> Pack:
    entry = FileEntry(path, len(content), hashlib.sha256(content).hexdigest())
    files = tuple(entry if e.path == path else e for e in pack.manifest.files)
    return Pack(msgspec.structs.replace(pack.manifest, files=files), {**pack.files, path: content})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not onnx",
        b"\x08\x0a" * 100,
        PACK.files["graphs/crnn-base.evaluate.onnx"],
        PACK.files["graphs/crnn-lite.supervised.sgd.onnx"],
    ],
    ids=["empty", "text", "bytes", "other sizes", "other interface"],
)
def test_a_file_that_is_no_graph_or_of_another_model_is_named(content: bytes) -> None:
    runtime = StepRuntime(_with_file(PACK, "graphs/crnn-lite.evaluate.onnx", content))
    with pytest.raises(PackError, match=r"graphs/crnn-lite.evaluate.onnx"):
        runtime.logits("crnn-lite", PACK.plugin_table.initial(0), _features(1))


def test_a_graph_for_another_front_end_is_refused() -> None:
    task = msgspec.structs.replace(PACK.manifest.task, frames=98)
    pack = Pack(msgspec.structs.replace(PACK.manifest, task=task), PACK.files)
    with pytest.raises(PackError, match=r"graphs/crnn-lite.evaluate.onnx"):
        StepRuntime(pack).logits("crnn-lite", pack.plugin_table.initial(0), _features(1))


def test_the_shipped_packs_share_their_graphs_and_every_model_runs() -> None:
    """The step graphs are loaded by the tests of gradients."""
    packs = [load_pack(name) for name in ("digits", "gsc12", "gsc35")]
    own = ("weights/", "negatives/")
    graphs = [{path: data for path, data in pack.files.items() if not path.startswith(own)} for pack in packs]
    assert graphs[0] == graphs[1] == graphs[2]
    for pack in packs:
        runtime = StepRuntime(pack)
        for model, table in pack.tables.items():
            assert runtime.logits(model, table.initial(0), _features(2)).shape == (2, len(pack.labels))
