"""Judging models: the same figures from onnxruntime and from PyTorch, for every shipped model and for others."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the reference")

from auricle.checks.onnx_reader import Node
from auricle.errors import AuricleError, DataError, SettingsError
from auricle.packs.pack import SHIPPED, Pack, load_pack
from auricle_cloud.evaluation.evaluator import Evaluator, OnnxEvaluator, choose_evaluator
from auricle_cloud.evaluation.evaluator_torch import TorchEvaluator
from auricle_cloud.evaluation.model_scores import tally
from auricle_cloud.evaluation.torch_operators import Call, UnknownOperatorError
from auricle_cloud.evaluation.torch_recurrent import KNOWN
from auricle_cloud.evaluation.validation_set import ValidationSet

TOLERANCE = 1e-5
DIGITS = load_pack("digits")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """PyTorch's threads spin while others work."""
    try:
        import torch
    except ModuleNotFoundError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _validation(pack: Pack, clips: int = 70) -> ValidationSet:
    """More than a batch, and a last one that is not full."""
    rng = np.random.default_rng(clips)
    task = pack.manifest.task
    features = rng.standard_normal((clips, task.frames, task.frontend.mels)).astype(np.float32)
    return ValidationSet(features, rng.integers(0, len(pack.labels), clips))


def _models(pack: Pack, count: int, model: str | None = None) -> np.ndarray:
    table = pack.table(model or pack.manifest.plugin)
    return np.stack([3 * table.initial(seed) for seed in range(count)])


def _compare(pack: Pack, model: str | None, models: np.ndarray) -> None:
    pytest.importorskip("torch", reason="what is compared")
    validation = _validation(pack)
    ours, reference = TorchEvaluator(pack, validation, model, device="cpu"), OnnxEvaluator(pack, validation, model)

    found = ours.logits(models)

    for logits, weights in zip(found, models, strict=True):
        due = reference.logits(weights)
        assert np.abs(logits - due).max() <= TOLERANCE * np.abs(due).max()
    assert np.array_equal(ours.scores(models).accuracy, reference.scores(models).accuracy)
    assert ours.scores(models).loss == pytest.approx(reference.scores(models).loss, rel=TOLERANCE)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_plugin_gives_the_same_in_pytorch_and_in_onnxruntime(name: str) -> None:
    pack = load_pack(name)

    _compare(pack, None, _models(pack, 3))


@pytest.mark.parametrize("model", sorted(set(DIGITS.tables) - {DIGITS.manifest.plugin}))
def test_a_shipped_local_model_does_too(model: str) -> None:
    _compare(DIGITS, model, _models(DIGITS, 2, model))


def test_a_pack_for_other_words_does_too() -> None:
    pack = DIGITS.with_labels(["left", "right", "up"])

    _compare(pack, None, _models(pack, 2))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["KeywordTransformer", "DsCnn", "BcResNet"])
def test_a_compiled_model_without_recurrence_does_too(name: str) -> None:
    """Convolutions of images with groups and dilation, three kinds of normalisation, attention."""
    torch = pytest.importorskip("torch", reason="compiling needs it")
    pytest.importorskip("onnxscript", reason="compiling needs it")
    from tests.export.compiled import LABELS, Compiled
    from tests.export.models import bc_resnet, ds_cnn, keyword_transformer

    torch.manual_seed(0)
    made = {module.__name__.rpartition(".")[2]: module for module in (bc_resnet, ds_cnn, keyword_transformer)}
    kind = next(getattr(module, name) for module in made.values() if hasattr(module, name))
    compiled = Compiled(kind(LABELS), frames=100, mels=40)
    flat = compiled.flat().astype(np.float32)

    _compare(compiled.pack, None, np.stack([flat, 1.05 * flat]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["GRU", "LSTM", "activations"])
def test_other_compiled_layers_do_too(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="compiling needs it")
    pytest.importorskip("onnxscript", reason="compiling needs it")
    from tests.export.compiled import Compiled
    from tests.export.test_operators import MODULES

    torch.manual_seed(0)
    compiled = Compiled(next(make for name, make in MODULES.items() if name.startswith(kind))())
    flat = compiled.flat().astype(np.float32)

    _compare(compiled.pack, None, np.stack([flat, 1.05 * flat]))


@pytest.mark.parametrize("where", ["onnxruntime", "torch"])
def test_scores_are_the_share_that_is_right_and_the_mean_loss(where: str) -> None:
    """A classifier whose weights are zero gives its biases as logits, whatever it hears."""
    table = DIGITS.plugin_table
    weights = table.initial(0)
    weights[table.offsets["head.weight"]] = 0
    weights[table.offsets["head.bias"]] = np.log(np.arange(1, 11) / 55)
    validation = ValidationSet(np.zeros((4, 100, 40), np.float32), np.array([9, 9, 0, 4]))

    scores = _evaluator(where, validation).scores(weights[None])

    assert scores.accuracy.tolist() == [0.5]
    assert scores.loss[0] == pytest.approx(-np.mean(np.log([10 / 55, 10 / 55, 1 / 55, 5 / 55])), rel=1e-6)


@pytest.mark.parametrize("where", ["onnxruntime", "torch"])
def test_a_model_that_gives_no_numbers_is_right_nowhere(where: str) -> None:
    models = _models(DIGITS, 2)
    models[0] = np.nan
    evaluator = _evaluator(where, _validation(DIGITS, 5))

    scores = evaluator.scores(models)

    assert scores.accuracy[0] == 0 and math.isnan(scores.loss[0])
    assert math.isfinite(scores.loss[1])
    assert scores.accuracy[1] == evaluator.scores(models[1:]).accuracy[0]


@pytest.mark.parametrize("where", ["onnxruntime", "torch"])
def test_models_of_another_size_are_refused_and_none_is_fine(where: str) -> None:
    evaluator = _evaluator(where, _validation(DIGITS, 3))

    with pytest.raises(DataError, match=f"rows of {DIGITS.plugin_table.size} weights"):
        evaluator.scores(np.zeros((2, 7), np.float32))
    assert evaluator.scores(_models(DIGITS, 1)[:0]).accuracy.shape == (0,)


def test_little_memory_judges_model_by_model_with_the_same_scores() -> None:
    pytest.importorskip("torch", reason="what is tested")
    validation, models = _validation(DIGITS), _models(DIGITS, 5)
    much, little = (TorchEvaluator(DIGITS, validation, device="cpu", memory=bound) for bound in (1 << 30, 1))

    assert np.array_equal(much.scores(models).accuracy, little.scores(models).accuracy)
    assert much.scores(models).loss == pytest.approx(little.scores(models).loss, rel=1e-6)


def test_an_operator_or_a_setting_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="what is tested")
    pad = Node("Pad", "", "", ("x", "pads"), ("y",), {"mode": b"wrap"})
    call = Call(torch, pad, [torch.zeros(2), None], [None, np.array([1, 1])], [(4,)])

    with pytest.raises(UnknownOperatorError, match=r"Pad with mode = b'wrap'"):
        KNOWN["Pad"](call)
    monkeypatch.delitem(KNOWN, "MaxPool")
    with pytest.raises(UnknownOperatorError, match="MaxPool is not known"):
        TorchEvaluator(DIGITS, _validation(DIGITS, 3), device="cpu")


def test_without_a_gpu_the_processor_judges_and_the_sentence_says_why() -> None:
    torch = pytest.importorskip("torch", reason="it looks for the GPU")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")

    evaluator, sentence = choose_evaluator(DIGITS, _validation(DIGITS, 3))

    assert isinstance(evaluator, OnnxEvaluator)
    assert sentence.endswith("PyTorch finds no CUDA device.")
    with pytest.raises(AuricleError, match=r"cannot be judged on a GPU\. PyTorch finds no CUDA device"):
        choose_evaluator(DIGITS, _validation(DIGITS, 3), "cuda")


def test_the_processor_can_be_asked_for_and_another_device_is_refused() -> None:
    assert choose_evaluator(DIGITS, _validation(DIGITS, 3), "cpu")[1].startswith("Models are judged on the processor")
    with pytest.raises(SettingsError, match="cuda"):
        choose_evaluator(DIGITS, _validation(DIGITS, 3), "cuba")


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import numpy as np
from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle_cloud.evaluation import evaluator
evaluator.find_spec = lambda name: None if name in {absent!r} else object()
from auricle_cloud.evaluation.validation_set import ValidationSet
validation = ValidationSet(np.zeros((2, 100, 40), np.float32), np.zeros(2, np.int64))
try:
    print(evaluator.choose_evaluator(load_pack("digits"), validation)[1])
except AuricleError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("absent", "expected"),
    [
        ({"torch"}, "Models are judged on the processor (onnxruntime"),
        (
            {"torch", "onnxruntime"},
            "Judging models needs onnxruntime or PyTorch, and neither is installed: pip install",
        ),
    ],
)
def test_what_is_not_installed_is_done_without_or_said_in_one_sentence(absent: set[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=absent)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.startswith(expected), done.stdout + done.stderr
    assert done.stdout.count("\n") == 1


def test_logits_are_tallied_by_hand() -> None:
    logits = np.array([[0.0, np.log(3.0)], [np.nan, 1.0], [5.0, 5.0]], np.float32)

    right, loss = tally(logits[[0, 2]], np.array([1, 0]))

    assert right == 2
    assert loss == pytest.approx(np.log(4 / 3) + np.log(2))
    assert tally(logits[1:2], np.array([1]))[0] == 0


def _evaluator(where: str, validation: ValidationSet) -> Evaluator:
    if where == "onnxruntime":
        return OnnxEvaluator(DIGITS, validation, threads=2)
    pytest.importorskip("torch", reason="what is tested")
    return TorchEvaluator(DIGITS, validation, device="cpu")
