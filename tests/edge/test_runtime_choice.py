"""Which runtime is taken, and what a refusal says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.core import tiny_pack
from tests.edge.cached_environment import linked_packages
from tests.learning.test_native_runtime import with_cosine

from auricle.errors import AuricleError
from auricle.packs.manifest import Buffer, OrtTraining, Tflite
from auricle.packs.pack import Pack
from auricle.process.cli import main
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service import checkup
from auricle_learning.native import library as native_library
from auricle_learning.native.library import compiler
from auricle_learning.runtimes import InferenceOnly, Job, StepRuntime

ROOT = Path(__file__).parents[2]
FILES = {"training": tiny_pack.STEP, "evaluation": tiny_pack.EVALUATE, "checkpoint": tiny_pack.WEIGHTS}
ARTIFACTS = OrtTraining(**FILES, batch=4, optimizers={"sgd": tiny_pack.STEP})
TRAINER = importlib.util.find_spec("onnxruntime.training") is not None


def _evaluation_only() -> Pack:
    files = {path: data for path, data in tiny_pack.files().items() if path != tiny_pack.STEP}
    return Pack(tiny_pack.manifest(files, graphs=tiny_pack.graphs()[:1]), files)


@pytest.fixture(autouse=True)
def without_brought_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However auricle was installed: a wheel brings the library of the runtime native, a checkout does not."""
    monkeypatch.setattr(native_library, "shipped", lambda _: tmp_path / "none.so")
    monkeypatch.setattr(native_library, "found_library", lambda: None)


def test_auto_takes_step_where_it_is_installed_and_says_why() -> None:
    choice = choose_runtime("auto", tiny_pack.pack(ort_training={"lite": ARTIFACTS}))
    assert isinstance(choice.runtime, StepRuntime)
    assert "onnxruntime" in choice.reason
    assert "asked" in choose_runtime("step", tiny_pack.pack()).reason


def test_a_runtime_that_there_is_not_or_does_not_train_is_refused() -> None:
    model = Tflite(model="lite", precision="float32", file=tiny_pack.STEP, buffers=(Buffer(tensor="x", offset=0),))
    for name, says in (("ort-trainin", '"ort-training"'), ("tflite", "train")):
        with pytest.raises(AuricleError, match=says):
            choose_runtime(name, tiny_pack.pack(tflite=(model,)))


@pytest.mark.skipif(TRAINER, reason="onnxruntime-training is installed here")
def test_without_onnxruntime_training_a_pack_that_needs_it_is_refused_with_every_reason() -> None:
    with pytest.raises(AuricleError, match=r"\[ort-training\]"):
        choose_runtime("ort-training", tiny_pack.pack(ort_training={"lite": ARTIFACTS}))
    with pytest.raises(AuricleError, match=r"runtime step\. The runtime ort-training"):
        choose_runtime("auto", _evaluation_only())


def test_for_recognising_an_evaluation_graph_is_enough() -> None:
    assert choose_runtime("auto", _evaluation_only(), training=False).runtime.name == "step"


def test_a_runtime_that_only_recognises_refuses_to_train() -> None:
    with pytest.raises(AuricleError, match="train"):
        InferenceOnly().begin(Job(kind="supervised", models={}, optimizer="sgd", weights={}, scalars={}))
    with pytest.raises(AuricleError, match="logits"):
        InferenceOnly().embeddings("lite", np.zeros(1, np.float32), np.zeros((1, 5, 3), np.float32))


def test_without_onnxruntime_the_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    """In an environment that has everything but onnxruntime, and no compiled library."""
    packages = linked_packages(tmp_path / "packages", "onnxruntime")
    program = (
        "from tests.core import tiny_pack\nfrom auricle.errors import AuricleError\n"
        "from auricle_edge.runtimes import choose_runtime\n"
        "try: choose_runtime('auto', tiny_pack.pack())\nexcept AuricleError as error: print(error)\n"
    )
    paths = {
        "PYTHONPATH": os.pathsep.join(
            map(str, [packages, *(ROOT / part for part in (".", "core", "learning", "edge"))])
        ),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | paths)
    assert "needs onnxruntime" in done.stdout and "[edge]" in done.stdout, done.stderr


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
def test_doctor_says_what_onnxruntime_runs_in_place_of_the_library() -> None:
    assert "operator Cos" in checkup.pack_runs(with_cosine(), "native")
    assert "onnxruntime runs" not in checkup.pack_runs(tiny_pack.pack(), "native")


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
def test_without_a_compiler_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "words" / "one").mkdir(parents=True)
    tone = np.sin(np.arange(16_000, dtype=np.float32) * 0.2) * 0.1
    soundfile.write(tmp_path / "words" / "one" / "ann_nohash_0.wav", tone, 16_000)
    options = ["--keywords", str(tmp_path / "words"), "--pack", "digits", "--runtime", "native"]
    assert main(["edge", "evaluate", *options]) == 2
    assert "install gcc" in capsys.readouterr().err
