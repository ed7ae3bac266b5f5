"""Judging models: figures worked out by hand, and where they are computed."""

from __future__ import annotations

import math
import sys

import numpy as np
import onnxruntime
import pytest

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.packs.pack import Pack, load_pack
from auricle_cloud.evaluation.evaluator import GPU, Evaluator, OnnxEvaluator, choose_evaluator, tally
from auricle_cloud.evaluation.validation_set import ValidationSet

DIGITS = load_pack("digits")


def _validation(pack: Pack, clips: int = 70) -> ValidationSet:
    """More than a batch, and a last one that is not full."""
    rng = np.random.default_rng(clips)
    task = pack.manifest.task
    features = rng.standard_normal((clips, task.frames, task.frontend.mels)).astype(np.float32)
    return ValidationSet(features, rng.integers(0, len(pack.labels), clips))


def _models(pack: Pack, count: int, model: str | None = None) -> np.ndarray:
    table = pack.table(model or pack.manifest.plugin)
    return np.stack([3 * table.initial(seed) for seed in range(count)])


def test_scores_are_the_share_that_is_right_and_the_mean_loss() -> None:
    """A classifier whose weights are zero gives its biases as logits, whatever it hears."""
    table = DIGITS.plugin_table
    weights = table.initial(0)
    weights[table.offsets["head.weight"]] = 0
    weights[table.offsets["head.bias"]] = np.log(np.arange(1, 11) / 55)
    validation = ValidationSet(np.zeros((4, 100, 40), np.float32), np.array([9, 9, 0, 4]))

    scores = _evaluator(validation).scores(weights[None])

    assert scores.accuracy.tolist() == [0.5]
    assert scores.loss[0] == pytest.approx(-np.mean(np.log([10 / 55, 10 / 55, 1 / 55, 5 / 55])), rel=1e-6)


def test_a_model_that_gives_no_numbers_is_right_nowhere() -> None:
    models = _models(DIGITS, 2)
    models[0] = np.nan
    evaluator = _evaluator(_validation(DIGITS, 5))
    scores = evaluator.scores(models)
    assert scores.accuracy[0] == 0 and math.isnan(scores.loss[0])
    assert math.isfinite(scores.loss[1])
    assert scores.accuracy[1] == evaluator.scores(models[1:]).accuracy[0]


def test_models_of_another_size_are_refused_and_none_is_fine() -> None:
    evaluator = _evaluator(_validation(DIGITS, 3))
    with pytest.raises(DataError, match=f"rows of {DIGITS.plugin_table.size} weights"):
        evaluator.scores(np.zeros((2, 7), np.float32))
    assert evaluator.scores(_models(DIGITS, 1)[:0]).accuracy.shape == (0,)


def test_without_a_gpu_the_processor_judges_and_another_device_is_refused() -> None:
    if GPU in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has a provider for a GPU")

    for asked in ((), ("cpu",)):
        evaluator, sentence = choose_evaluator(DIGITS, _validation(DIGITS, 3), *asked)
        assert isinstance(evaluator, OnnxEvaluator) and "processor" in sentence
    with pytest.raises(AuricleError, match="no provider"):
        choose_evaluator(DIGITS, _validation(DIGITS, 3), "cuda")
    with pytest.raises(SettingsError, match="cuda"):
        choose_evaluator(DIGITS, _validation(DIGITS, 3), "cuba")


def test_a_gpu_gives_the_figures_of_the_processor() -> None:
    if GPU not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no provider for a GPU")
    validation, models = _validation(DIGITS), _models(DIGITS, 3)
    try:
        there = OnnxEvaluator(DIGITS, validation, provider=GPU)
    except AuricleError as error:
        pytest.skip(str(error))
    assert there.scores(models).loss == pytest.approx(OnnxEvaluator(DIGITS, validation).scores(models).loss, rel=1e-4)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(AuricleError, match="pip install"):
        choose_evaluator(DIGITS, _validation(DIGITS, 2))


def test_logits_are_tallied_by_hand() -> None:
    logits = np.array([[0.0, np.log(3.0)], [np.nan, 1.0], [5.0, 5.0]], np.float32)
    right, loss = tally(logits[[0, 2]], np.array([1, 0]))
    assert right == 2
    assert loss == pytest.approx(np.log(4 / 3) + np.log(2))
    assert tally(logits[1:2], np.array([1]))[0] == 0


def _evaluator(validation: ValidationSet) -> Evaluator:
    return OnnxEvaluator(DIGITS, validation, threads=2)
